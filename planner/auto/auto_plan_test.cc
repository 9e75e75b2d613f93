#include "planner/auto/auto_plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/auto/explain_search.h"
#include "planner/auto/layout_search.h"
#include "planner/auto/pins.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/plan_report.h"
#include "planner/spec/nearest_name.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_include.h"
#include "planner/spec/spec_parser.h"
#include "planner/time/cost_model.h"
#include "planner/time/step_time.h"

namespace adjoin {
namespace {

JobSpec Parsed(const std::string& text) {
  auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

absl::StatusOr<AutoPlan> Chosen(const JobSpec& job, AutoOptions options, const DatasetSizes& sizes = {}) {
  return PlanAutomatically(job, sizes, BuiltinLayerRules(), CostModel::Default(), options);
}

std::vector<std::string> ExampleJobs() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           "examples", std::filesystem::directory_options::follow_directory_symlink)) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".textproto" || path.find("custom_layer") != std::string::npos) continue;
    if (path.find("examples/networks") != std::string::npos) continue;
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

const Layer* FindLayer(const JobSpec& job, const std::string& name) {
  for (const Layer& layer : job.layer()) {
    if (layer.name() == name) return &layer;
  }
  return nullptr;
}

// The job without what the planner chooses.
JobSpec Bare(JobSpec job) {
  job = WithoutLayouts(job, 1);
  job.clear_layout();
  for (Layer& layer : *job.mutable_layer()) layer.clear_y();
  return job;
}

TEST(AutoPlanTest, KeepsTheWeightsOfRanksAndGainsByThem) {
  const std::string job = R"(name: "j" kind: TRAIN ranks: 4 rank_weight: [1, 2, 3, 2]
layer { name: "conv1" input: "x" conv { out_channels: 32 window { kernel: 3 pad_lo: 1 } } }
layer { name: "conv2" conv { out_channels: 32 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "mse" input: "conv2" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [32, 128, 128] }
  field { name: "t" idx { path: "t" } shape: [32, 128, 128] } }
train { dataset: "data" batch: 16 steps: 1 optimizer { sgd { lr: 0.1 } } })";
  const auto chosen = Chosen(Parsed(job), {});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->spec.rank_weight_size(), 4);
  const auto again = Planner::Build(chosen->spec, {}, BuiltinLayerRules());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LE(chosen->report.lower_bound_seconds(), chosen->report.chosen_seconds() * (1 + 1e-9));
  // The same ranks, cut evenly: the slowest has three times as long for a quarter, instead of an eighth.
  Plan even =
      *Planner::Build(Parsed(absl::StrReplaceAll(
                          job, {{"input: \"x\"", "input: \"x\" x: \"b\""},
                                {"layer { name: \"conv1\"",
                                 "layout { name: \"b\" partition: [4, 1, 1, 1] cut { dim: 0 size: [4, 4, 4, 4] } }"
                                 "\nlayer { name: \"conv1\""}})),
                      {}, BuiltinLayerRules());
  const auto of_even = PredictStepTime(even, CostModel::Default());
  ASSERT_TRUE(of_even.ok()) << of_even.status();
  EXPECT_LT(chosen->step_seconds, 0.8 * of_even->step());
  // Weights of other ranks are none.
  EXPECT_TRUE(Chosen(Parsed(job), {.ranks = 2})->spec.rank_weight().empty());
}

// More weights than ranks are looked at: what the search counts for its choice is near what the whole plan takes.
TEST(AutoPlanTest, CountsTheWorkOfRanksWithManyWeights) {
  JobSpec job = Parsed(kLeNet);
  job.set_ranks(24);
  for (int rank = 0; rank < 24; ++rank) job.add_rank_weight(1 - 0.02 * rank);
  const auto chosen = Chosen(job, {.ranks = 24});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_GT(chosen->report.chosen_seconds(), 0.5 * chosen->step_seconds);
}

TEST(AutoPlanTest, PlansAllExamples) {
  const std::vector<std::string> files = ExampleJobs();
  ASSERT_GT(files.size(), 4u);
  for (const std::string& file : files) {
    const auto loaded = LoadSpec(file, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const JobSpec& job = loaded->parsed.spec;
    // Odd numbers of samples, so that batches have tails.
    DatasetSizes sizes;
    for (const Dataset& dataset : job.dataset()) sizes[dataset.name()] = {1003};
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(file, " on ", ranks));
      const auto chosen = Chosen(job, {.ranks = ranks}, sizes);
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      auto again = Planner::Build(chosen->spec, sizes, BuiltinLayerRules());
      ASSERT_TRUE(again.ok()) << again.status();
      ReadHalosFromFiles(&*again);
      EXPECT_EQ(Planner::Hash(*again), Planner::Hash(chosen->plan));
      // Everything that is not a layout stays.
      EXPECT_EQ(Bare(chosen->spec).SerializeAsString(), Bare(job).SerializeAsString());
      EXPECT_LE(chosen->report.lower_bound_seconds(), chosen->report.chosen_seconds() * (1 + 1e-9));
      for (const AlternativeReport& other : chosen->report.alternative()) {
        if (!other.impossible().empty() || other.what() == "as written") continue;
        EXPECT_GE(other.step_seconds(), chosen->step_seconds * (1 - 1e-9)) << other.what();
      }
      for (const ChoiceReport& choice : chosen->report.choice()) EXPECT_GE(choice.next_seconds(), -1e-12);
      const std::string text = ExplainSearch(*chosen, MakePlanReport(chosen->plan).memory(), "a slow machine");
      EXPECT_NE(text.find("the best of all candidates"), std::string::npos) << text;
      EXPECT_NE(text.find("\n  by the rates of a slow machine\n"), std::string::npos) << text;
      EXPECT_GT(chosen->step_seconds, 0);
      if (ranks != 3) continue;
      const auto twice = Chosen(job, {.ranks = ranks, .explain = false}, sizes);
      ASSERT_TRUE(twice.ok());
      EXPECT_EQ(twice->spec.SerializeAsString(), chosen->spec.SerializeAsString());
    }
  }
}

// A network of a few layers, with branches that join again.
std::string RandomNetwork(std::mt19937_64& random, std::string* last) {
  std::string text =
      "layer { name: \"l0\" input: \"image\" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }\n";
  const int layers = 1 + static_cast<int>(random() % 4);
  for (int i = 1; i <= layers; ++i) {
    const std::string input = absl::StrCat("l", random() % i);
    absl::StrAppend(&text, "layer { name: \"l", i, "\" input: \"", input, "\" ");
    switch (random() % 6) {
      case 0: absl::StrAppend(&text, "activation { fn: \"relu\" } }\n"); break;
      case 1: absl::StrAppend(&text, "norm { kind: \"batch\" } }\n"); break;
      case 2: absl::StrAppend(&text, "input: \"l", random() % i, "\" add {} }\n"); break;
      case 3: absl::StrAppend(&text, "dropout { p: 0.5 } }\n"); break;
      case 4: absl::StrAppend(&text, "conv { out_channels: 4 window { kernel: 1 } } }\n"); break;
      default: absl::StrAppend(&text, "conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }\n");
    }
  }
  absl::StrAppend(&text, "layer { name: \"flat\" flatten { arg: 1 } }\n",
                  "layer { name: \"fc\" linear { out_features: 3 } }\n");
  *last = "fc";
  return text;
}

struct Truth {
  double seconds = kImpossible;
  int64_t least_bytes = -1;
};

Truth BruteForce(const MemoryProblem& problem, int64_t limit) {
  struct Way {
    int candidate;
    MemoryProblem::Option option;
  };
  std::vector<std::vector<Way>> ways(problem.node.size());
  for (size_t v = 0; v < ways.size(); ++v) {
    for (size_t c = 0; c < problem.node[v].size(); ++c) {
      for (const MemoryProblem::Option& option : problem.node[v][c]) ways[v].push_back({static_cast<int>(c), option});
    }
  }
  Truth truth;
  std::vector<size_t> at(ways.size(), 0);
  for (;;) {
    double seconds = 0;
    int64_t bytes = 0;
    for (size_t v = 0; v < ways.size(); ++v) {
      seconds += ways[v][at[v]].option.seconds;
      bytes += ways[v][at[v]].option.bytes;
    }
    for (const auto& edge : problem.edge) {
      seconds += edge.cost[ways[edge.a][at[edge.a]].candidate * problem.node[edge.b].size() +
                           ways[edge.b][at[edge.b]].candidate];
    }
    if (seconds < kImpossible && (limit < 0 || bytes <= limit)) truth.seconds = std::min(truth.seconds, seconds);
    if (seconds < kImpossible && (truth.least_bytes < 0 || bytes < truth.least_bytes)) truth.least_bytes = bytes;
    size_t v = 0;
    while (v < at.size() && ++at[v] == ways[v].size()) at[v++] = 0;
    if (v == at.size()) return truth;
  }
}

TEST(AutoPlanTest, EqualsBruteForceOnRandomJobs) {
  const uint64_t seed = TestSeed(20261123);
  int compared = 0, limited = 0;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(absl::StrCat("ADJOIN_TEST_SEED=", seed + i));
    std::mt19937_64 random(seed + i);
    std::string last;
    const std::string network = RandomNetwork(random, &last);
    const int ranks = std::vector<int>{1, 2, 3, 4, 6}[random() % 5];
    const JobSpec job = WithoutLayouts(Parsed(JobText(ranks, network, "[2, 6, 5]", last)), ranks);
    const auto serial = Planner::Build(WithoutLayouts(job, 1), {}, BuiltinLayerRules());
    ASSERT_TRUE(serial.ok()) << serial.status() << "\n" << network;
    LayerGroupsOptions options;
    options.ranks = ranks;
    options.most_candidates = 4;
    options.recompute = options.all_homes = i % 2 == 0;
    const auto search = LayoutSearch::Create(job, *serial, BuiltinLayerRules(), CostModel::Default(), options);
    ASSERT_TRUE(search.ok()) << search.status() << "\n" << network;
    double ways = 1;
    for (const auto& node : (*search)->problem().node) {
      size_t own = 0;
      for (const auto& candidate : node) own += candidate.size();
      ways *= static_cast<double>(own);
    }
    const SearchOutcome fastest = (*search)->Best(-1);
    ASSERT_FALSE(fastest.choice.empty());
    if (ways <= 2e4) {
      const Truth truth = BruteForce((*search)->problem(), -1);
      ++compared;
      EXPECT_NEAR(fastest.seconds, truth.seconds, 1e-12);
      EXPECT_NEAR(fastest.lower_bound, truth.seconds, 1e-12);
      const int64_t limit = fastest.bytes - 1 - static_cast<int64_t>(random() % (fastest.bytes / 2));
      const Truth under = BruteForce((*search)->problem(), limit);
      const SearchOutcome found = (*search)->Best(limit);
      EXPECT_EQ(found.choice.empty(), under.seconds == kImpossible);
      EXPECT_LE(found.lower_bound, under.seconds + 1e-12);
      EXPECT_GE(found.seconds, under.seconds - 1e-12);
      if (under.seconds == kImpossible) {
        EXPECT_EQ(found.least_bytes, truth.least_bytes);
      } else {
        EXPECT_LE(found.bytes, limit);
        ++limited;
      }
    }
    const JobSpec written = (*search)->Write(fastest);
    const auto plan = Planner::Build(written, {}, BuiltinLayerRules());
    ASSERT_TRUE(plan.ok()) << plan.status() << "\n" << written.DebugString();
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(limited, 50);
}

TEST(AutoPlanTest, KeepsPins) {
  const JobSpec job = Parsed(kLeNet);
  const auto chosen = Chosen(job, {.pin = {"conv1=1x1x4x1", "fc2=row", "relu1=1x1x2x2"}});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(FindLayer(chosen->spec, "conv1")->x(0), "1x1x4x1");
  EXPECT_EQ(FindLayer(chosen->spec, "relu1")->x(0), "1x1x2x2");
  EXPECT_EQ(FindLayer(chosen->spec, "fc2")->x(0), "pinned.row");
}

void ExpectRefused(const JobSpec& job, const AutoOptions& options, const std::vector<std::string>& words) {
  const auto chosen = Chosen(job, options);
  ASSERT_FALSE(chosen.ok());
  for (const std::string& word : words) {
    EXPECT_NE(chosen.status().message().find(word), std::string::npos) << chosen.status() << "\nlacks " << word;
  }
}

constexpr char kVolumes[] = R"job(name: "v" kind: PREDICT ranks: 2 seed: 1
layer { name: "down" input: "image" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "up" upsample { mode: "nearest" scale: 2 } }
layer { name: "skip" input: ["down", "up"] concat { arg: 1 } }
dataset { name: "set" field { name: "image" npy { path: ["a", "b"] } shape: [1, -1, -1, 10] } }
predict { dataset: "set" input: "skip" format: "npy" }
weights { init_from: "w" }
output_dir: "v")job";

TEST(AutoPlanTest, ChoosesForTheExtentsOfVolumesThatAreGiven) {
  const JobSpec job = Parsed(kVolumes);
  JobSpec written = job;
  written.mutable_dataset(0)->mutable_field(0)->set_shape(1, 24);
  written.mutable_dataset(0)->mutable_field(0)->set_shape(2, 400);
  const auto chosen = Chosen(job, {.extents = {{"set", {24, 400, 10}}}}), of_written = Chosen(written, {});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_TRUE(of_written.ok()) << of_written.status();
  EXPECT_EQ(chosen->memory.bytes, of_written->memory.bytes);
  EXPECT_EQ(chosen->step_seconds, of_written->step_seconds);
  EXPECT_EQ(chosen->plan.DebugString(), of_written->plan.DebugString());
  EXPECT_EQ(chosen->spec.dataset(0).DebugString(), job.dataset(0).DebugString());
  EXPECT_TRUE(Planner::Build(chosen->spec, {}, BuiltinLayerRules()).ok());
  const auto others = Chosen(job, {});
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_GT(others->memory.bytes, chosen->memory.bytes) << "128x128x10 in place of what is not known";
  // A limit of memory can be met, or not, where the extents are known.
  EXPECT_TRUE(Chosen(job, {.memory_bytes = chosen->memory.bytes, .extents = {{"set", {24, 400, 10}}}}).ok());
  ExpectRefused(job, {.memory_bytes = int64_t{1} << 30}, {"whole volumes of different extents"});
}

TEST(AutoPlanTest, ARefusalHasItsLine) {
  const auto parsed = ParseSpec(absl::StrReplaceAll(kVolumes, {{"kernel: 2", "kernel: 0"}}), "job");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ExpectRefused(parsed->spec, {.locations = &parsed->locations}, {"job:3:", "layer 1 \"pool\""});
}

TEST(AutoPlanTest, SaysWhyAPinIsImpossible) {
  const JobSpec job = Parsed(kLeNet);
  ExpectRefused(job, {.pin = {"conf1=1x1x2x2"}}, {"conf1", "did you mean \"conv1\"?"});
  ExpectRefused(job, {.pin = {"conv1=1x2x2"}}, {"conv1", "1x2x2", "dims"});
  ExpectRefused(job, {.pin = {"conv1=1x1x4x2"}}, {"takes more ranks than there are, 4"});
  ExpectRefused(job, {.pin = {"conv1=1x1x0x2"}}, {"\"0\" is no number of parts"});
  ExpectRefused(job, {.pin = {"conv1=99999999999999999999x1"}}, {"is no number of parts"});
  ExpectRefused(job, {.pin = {"conv1=99999x99999x99999x99999"}}, {"takes more ranks"});
  ExpectRefused(job, {.pin = {"conv1"}}, {"LAYER=PARTITION"});
  ExpectRefused(job, {.pin = {"conv1=gird"}}, {"neither a partition", "grid"});
  ExpectRefused(job, {.pin = {"conv1=grid", "conv1=grid"}}, {"pinned twice"});
}

TEST(AutoPlanTest, RefusesNumbersOfRanks) {
  const JobSpec job = Parsed(kLeNet);
  ExpectRefused(job, {.ranks = -1}, {"--ranks is -1"});
  ExpectRefused(job, {.ranks = 1000000}, {"--ranks is 1000000", absl::StrCat(Planner::kMaxRanks)});
}

TEST(AutoPlanTest, TakesABatchSmallerThanTheRanks) {
  JobSpec job = Parsed(kLeNet);
  job.mutable_train()->set_batch(3);
  const auto chosen = Chosen(job, {.ranks = 16});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
}

TEST(AutoPlanTest, TakesSharedWeights) {
  const JobSpec job = Parsed(JobText(4, R"(
layer { name: "flat" input: "image" flatten { arg: 1 } }
layer { name: "a" linear { out_features: 32 } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "b" weights_of: "a" linear { out_features: 32 } }
layer { name: "c" linear { out_features: 10 } })",
                                     "[2, 4, 4]", "c"));
  const auto chosen = Chosen(job, {});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
}

TEST(AutoPlanTest, TakesBlocksOfLayers) {
  for (const int ranks : {2, 4, 6}) {
    const JobSpec job = Parsed(JobText(ranks, R"(
layer { name: "rows" input: "image" reshape { arg: [8, 64] } }
layer { name: "a" transformer { heads: 4 hidden: 256 dropout: 0.1 } }
layer { name: "b" transformer { heads: 4 hidden: 256 norm_first: false } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "c" linear { out_features: 10 } })",
                                       "[8, 8, 8]", "c"));
    const auto chosen = Chosen(job, {});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto pinned = Chosen(job, {.pin = {"a=2x1x1"}});
    ASSERT_TRUE(pinned.ok()) << pinned.status();
    EXPECT_EQ(FindLayer(pinned->spec, "a")->x(0), "2x1x1");
  }
}

TEST(PinsTest, NamesTheNearestLayer) {
  EXPECT_EQ(NearestName("conf1", {"conv1", "conv2", "fc"}), "conv1");
  EXPECT_EQ(NearestName("xyz", {"encoder.layer.1"}), "");
}

TEST(ExplainRanksTest, SaysWhereMoreRanksStopHelping) {
  const std::string text = ExplainRanks({{1, 8, 100, ""}, {2, 4, 50, ""}, {4, 2, 25, ""}, {8, 1.95, 25, ""}});
  EXPECT_NE(text.find("More than 4 ranks gain less than 10 %"), std::string::npos) << text;
}

TEST(ExplainRanksTest, SaysEachWarningOnceWithItsNumbersOfRanks) {
  const std::string text =
      ExplainRanks({{1, 8, 100, "", {"samples move"}}, {2, 4, 50, "", {"rank 1 idles", "samples move"}}});
  EXPECT_NE(text.find("warning: on 1, 2 ranks: samples move\nwarning: on 2 ranks: rank 1 idles\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace adjoin
