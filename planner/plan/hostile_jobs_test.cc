// Jobs of a few lines that ask for much: each is refused with a reason or planned, in seconds. (hostile_numbers_test
// puts extreme numbers in ordinary jobs.)
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

// Far more seconds than any of these jobs takes.
constexpr double kSeconds = 60;

std::string Numbers(int count, const std::string& number) {
  std::string text = number;
  for (int i = 1; i < count; ++i) absl::StrAppend(&text, ", ", number);
  return text;
}

absl::StatusOr<Plan> PlanSoon(JobSpec spec) {
  const auto begin = std::chrono::steady_clock::now();
  auto plan = Planner::Build(spec, {{"data", int64_t{1} << 20}}, BuiltinLayerRules());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << seconds << " s, " << (plan.ok() ? "planned" : std::string(plan.status().message()).substr(0, 300))
            << "\n";
  EXPECT_LT(seconds, kSeconds);
  if (!plan.ok()) return plan;
  for (const ProgramPlan& program : plan->program()) {
    for (int64_t bytes : program.bytes_per_step()) EXPECT_GE(bytes, 0);
    for (const LayerPlan& layer : program.layer()) EXPECT_GE(layer.flops(), 0);
  }
  EXPECT_FALSE(Planner::Explain(*plan).empty());
  return plan;
}

// Returns a job of `layers`, the last of which is "y", with a field "x", and a field "m" where its shape is given.
JobSpec Job(int ranks, const std::string& layers, const std::string& x, int64_t batch, const std::string& m = "") {
  const std::string more = m.empty() ? "" : absl::StrCat(" field { name: \"m\" idx { path: \"m\" } shape: [", m, "] }");
  const auto parsed =
      ParseSpec(absl::StrCat("name: \"hostile\" kind: TRAIN ranks: ", ranks, "\n", layers,
                             "loss { kind: \"mse\" input: \"y\" target: \"x\" }\n"
                             "dataset { name: \"data\" field { name: \"x\" idx { path: \"x\" } shape: [",
                             x, "] }", more, " }\n", "train { dataset: \"data\" batch: ", batch,
                             " steps: 1 optimizer { sgd { lr: 0.1 } } }\n"
                             "output_dir: \"out\"\n"),
                "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

// A coordinator has no business with a user's files.
TEST(HostileJobsTest, AnIncludeIsRefusedUnread) {
  JobSpec spec = Job(1, "layer { name: \"y\" input: \"x\" linear { out_features: 4 } }\n", "4", 1);
  EXPECT_TRUE(PlanSoon(spec).ok());
  spec.add_include("/etc/passwd");
  const absl::StatusOr<Plan> plan = PlanSoon(spec);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "include \"/etc/passwd\" is still in the job"));
}

// As many losses as are possible are planned in seconds, and one more is refused.
TEST(HostileJobsTest, ManyLosses) {
  for (const int ranks : {4, 4096}) {
    JobSpec spec = Job(ranks,
                       absl::StrCat("layout { name: \"l\" partition: [", ranks,
                                    ", 1] }\n"
                                    "layer { name: \"y\" input: \"x\" x: \"l\" linear { out_features: 8 } }\n"),
                       "8", ranks);
    while (spec.loss_size() < 1000) *spec.add_loss() = spec.loss(0);
    const auto plan = PlanSoon(spec);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->program(0).loss_size(), 1000);
    *spec.add_loss() = spec.loss(0);
    EXPECT_TRUE(absl::StrContains(PlanSoon(spec).status().message(), "it has 1001 losses; at most 1000 are possible"));
  }
}

TEST(HostileJobsTest, RingsOverManyRanks) {
  for (const char* layout :
       {"partition: [1, 1000, 1]", "mesh { size: 341 } mesh { size: 3 } sbp: [\"S(1)\", \"S(2)\"]"}) {
    const auto plan =
        PlanSoon(Job(1024,
                     absl::StrCat("layout { name: \"cut\" ", layout, " }\n",
                                  "layer { name: \"y\" input: \"x\" x: \"cut\" attention { heads: 12 } }\n"),
                     "4096, 48", 1));
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
}

TEST(HostileJobsTest, KeysAndValuesLargerThanMemoryAndQueries) {
  for (const int bits : {20, 40, 41, 42, 44}) {
    const auto plan =
        PlanSoon(Job(2,
                     "layout { name: \"cut\" partition: [1, 2, 1] }\n"
                     "layer { name: \"y\" input: \"x\" input: \"m\" x: \"cut\" x: \"cut\" attention { heads: 1 } }\n",
                     absl::StrCat("1, ", 1 << 21), 1, absl::StrCat(int64_t{1} << bits, ", 1")));
    EXPECT_EQ(plan.ok(), bits == 20) << bits << " bits: " << plan.status();
  }
}

TEST(HostileJobsTest, RollsOfManyDims) {
  const auto job = [](int dims, int ranks) {
    std::string arg = "1, 1";
    for (int dim = 2; dim <= dims; ++dim) absl::StrAppend(&arg, ", ", dim, ", 1");
    return Job(ranks,
               absl::StrCat("layout { name: \"cut\" mesh { size: ", ranks, " } sbp: \"S(0)\" }\n",
                            "layer { name: \"n\" input: \"x\" x: \"cut\" norm { kind: \"layer\" } }\n",
                            "layer { name: \"y\" roll { arg: [", arg, "] } }\n"),
               Numbers(15, "2"), 4096);
  };
  EXPECT_TRUE(PlanSoon(job(6, 256)).ok());
  const auto plan = PlanSoon(job(15, 256));
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "put another roll after this one")) << plan.status();
}

TEST(HostileJobsTest, LongIndexListsOnManyRanks) {
  JobSpec spec = Job(1024,
                     "layout { name: \"cut\" mesh { size: 1024 } sbp: \"S(0)\" }\n"
                     "layer { name: \"y\" input: \"x\" x: \"cut\" index_select { arg: [1, 0] } }\n",
                     "1000000, 2", 1024);
  for (int64_t i = 1; i < 400000; ++i) spec.mutable_layer(0)->mutable_index_select()->add_arg(i * 7919 % 1000000);
  EXPECT_FALSE(PlanSoon(spec).ok()) << "the target has another shape";
}

}  // namespace
}  // namespace adjoin
