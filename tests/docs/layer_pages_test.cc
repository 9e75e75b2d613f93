// docs/layers.md and docs/layers/*.md: every example is planned, and the plan is what the page says; every layer has a
// page. What a block of ```textproto may look like stands in docs/layers.md.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

constexpr char kIndex[] = "docs/layers.md";
constexpr int64_t kSamples = 4096;
constexpr char kTrained[] = "trained";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Pages() {
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator("docs/layers")) pages.insert(entry.path().string());
  return {pages.begin(), pages.end()};
}

struct Example {
  int line = 0;
  std::string text;
  std::map<std::string, std::string> said;  // "y", "Mflop", "moves", and inputs by name
};

std::vector<Example> ExamplesOf(const std::string& page) {
  std::vector<Example> examples;
  bool inside = false;
  int number = 0;
  const std::string text = Read(page);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!inside && absl::StartsWith(line, "```textproto")) {
      inside = true;
      examples.emplace_back();
      examples.back().line = number;
    } else if (absl::StartsWith(line, "```")) {
      inside = false;
    } else if (inside) {
      absl::StrAppend(&examples.back().text, line, "\n");
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(": ", 1));
      if (parts.size() == 2 && absl::ConsumePrefix(&line, "# ")) {
        const std::string name = parts[0].substr(2);
        if (!absl::StrContains(name, ' ')) examples.back().said[name] = parts[1];
      }
    }
  }
  return examples;
}

struct Input {
  std::vector<int64_t> shape;
  int64_t below = 0;  // of indices; 0: float32
};

// "[4, 3, 32, 32]", "[4, 128] int64 below 1000".
absl::StatusOr<Input> InputOf(absl::string_view text) {
  const auto bad = [&] { return absl::InvalidArgumentError(absl::StrCat("not a shape: ", text)); };
  Input input;
  const size_t end = text.find(']');
  if (text.empty() || text[0] != '[' || end == absl::string_view::npos) return bad();
  for (absl::string_view extent : absl::StrSplit(text.substr(1, end - 1), ',')) {
    input.shape.emplace_back();
    if (!absl::SimpleAtoi(extent, &input.shape.back())) return bad();
  }
  absl::string_view rest = text.substr(end + 1);
  absl::ConsumePrefix(&rest, ",");
  rest = absl::StripAsciiWhitespace(rest);
  if (rest.empty()) return input;
  if (!absl::ConsumePrefix(&rest, "int64 below ") || !absl::SimpleAtoi(rest, &input.below)) return bad();
  return input;
}

void AddLoss(const std::string& layer, const std::string& target, JobSpec& job) {
  Loss& loss = *job.add_loss();
  loss.set_kind("mse");
  loss.set_input(layer);
  loss.set_target(target);
}

void AddField(const std::string& name, const Input& input, JobSpec& job) {
  Field& field = *job.mutable_dataset(0)->add_field();
  field.set_name(name);
  for (size_t dim = 1; dim < input.shape.size(); ++dim) field.add_shape(input.shape[dim]);
  Synthetic& synthetic = *field.mutable_synthetic();
  synthetic.set_samples(kSamples);
  synthetic.set_kind(input.below > 0 ? "index" : "normal");
  if (input.below > 0) synthetic.set_high(static_cast<double>(input.below));
  if (input.below > 0) field.set_dtype("int64");
}

// The layout in which the first reader of `name` reads it.
std::string LayoutOf(const JobSpec& job, const std::string& name) {
  for (const Layer& layer : job.layer()) {
    for (int i = 0; i < layer.input_size(); ++i) {
      if (layer.input(i) == name) return i < layer.x_size() ? layer.x(i) : "";
    }
  }
  return "";
}

// The part of a job with what it lacks: data, and for each floating-point input a layer that leaves it where it is
// read, as the layers before would.
absl::StatusOr<JobSpec> WithInputs(const JobSpec& part, const Example& example, int64_t& batch) {
  JobSpec job = part;
  job.set_name("example");
  job.set_kind(PREDICT);
  if (job.ranks() == 0) job.set_ranks(1);
  job.clear_layer();
  job.add_dataset()->set_name("data");
  for (const auto& [name, text] : example.said) {
    if (name == "y" || name == "Mflop" || name == "moves") continue;
    ADJOIN_ASSIGN_OR_RETURN(const Input input, InputOf(text));
    batch = input.shape[0];
    const std::string field = input.below > 0 ? name : name + ".field";
    AddField(field, input, job);
    if (input.below > 0) continue;
    Layer& layer = *job.add_layer();
    layer.set_name(name);
    layer.add_input(field);
    if (const std::string layout = LayoutOf(part, name); !layout.empty()) layer.add_x(layout);
    layer.mutable_crop()->add_arg(0);
    layer.mutable_crop()->add_arg(0);
  }
  job.mutable_layer()->MergeFrom(part.layer());
  return job;
}

// Something to train, apart from the example: not all layers have parameters.
void AddTrained(JobSpec& job) {
  LayoutSpec& layout = *job.add_layout();
  layout.set_name(kTrained);
  layout.add_partition(1);
  layout.add_partition(1);
  AddField("trained.field", {{1, 1}, 0}, job);
  google::protobuf::RepeatedPtrField<Layer> layers;
  layers.Swap(job.mutable_layer());
  Layer& layer = *job.add_layer();
  layer.set_name(kTrained);
  layer.add_input("trained.field");
  layer.add_x(kTrained);
  layer.mutable_linear()->set_out_features(1);
  job.mutable_layer()->MergeFrom(layers);
  AddLoss(kTrained, "trained.field", job);
}

absl::StatusOr<Plan> PlanExample(const Example& example) {
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(example.text, "example"));
  if (parsed.spec.kind() != KIND_UNSPECIFIED) {
    DatasetSizes sizes;
    for (const Dataset& dataset : parsed.spec.dataset()) sizes[dataset.name()] = kSamples;
    return Planner::Build(parsed.spec, sizes, BuiltinLayerRules());
  }
  if (parsed.spec.layer().empty()) return absl::InvalidArgumentError("no layer");
  int64_t batch = 0;
  ADJOIN_ASSIGN_OR_RETURN(JobSpec job, WithInputs(parsed.spec, example, batch));
  if (batch == 0) return absl::InvalidArgumentError("no input, as in \"# x: [4, 3, 32, 32]\"");
  Predict& predict = *job.mutable_predict();
  job.mutable_weights()->set_init_from("example.safetensors");
  predict.set_dataset("data");
  predict.set_format("npy");
  predict.set_batch(static_cast<uint32_t>(batch));
  const std::string last = job.layer(job.layer_size() - 1).name();
  predict.add_input(last);
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(job, {{"data", kSamples}}, BuiltinLayerRules()));

  // Now that the output's shape is known, it is trained towards something of this shape.
  const ProgramPlan& program = plan.program(0);
  const LayoutPlan& output = program.value(program.layer(program.layer_size() - 1).output()).layout();
  if (output.dtype() == "int64") return plan;
  job.set_kind(TRAIN);
  job.clear_predict();
  job.clear_weights();
  AddField("target", {{output.shape().begin(), output.shape().end()}, 0}, job);
  AddLoss(last, "target", job);
  AddTrained(job);
  job.mutable_train()->set_dataset("data");
  job.mutable_train()->set_batch(static_cast<uint32_t>(batch));
  job.mutable_train()->set_steps(1);
  job.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1);
  return Planner::Build(job, {{"data", kSamples}}, BuiltinLayerRules());
}

// What the plan says, in the words of the pages.
std::map<std::string, std::string> FactsOf(const Plan& plan) {
  const ProgramPlan& program = plan.program(0);
  double flops = 0;
  for (const LayerPlan& layer : program.layer()) flops += layer.name() == kTrained ? 0 : layer.flops();
  const auto& shape = program.value(program.layer(program.layer_size() - 1).output()).layout().shape();
  std::vector<std::string> moves;
  for (int i = 0; i < program.op_size(); ++i) {
    const OperatorPlan& op = program.op(i);
    int64_t bytes = 0;
    for (const int64_t of_rank : op.bytes_forward()) bytes += of_rank;
    if (i == static_cast<int>(program.report_op()) || bytes == 0) continue;
    if (absl::StartsWith(op.name(), "loss")) continue;
    moves.push_back(absl::StrCat(op.name(), " ", bytes));
  }
  return {{"y", absl::StrCat("[", absl::StrJoin(shape, ", "), "]")},
          {"Mflop", absl::StrFormat("%.3g", flops / 1e6)},
          {"moves", moves.empty() ? "nothing" : absl::StrJoin(moves, ", ")}};
}

void CheckPage(const std::string& page) {
  const std::vector<Example> examples = ExamplesOf(page);
  EXPECT_FALSE(examples.empty()) << page << " has no example";
  for (const Example& example : examples) {
    SCOPED_TRACE(absl::StrCat(page, ":", example.line));
    const auto plan = PlanExample(example);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) continue;
    for (const auto& [what, is] : FactsOf(*plan)) {
      auto said = example.said.find(what);
      EXPECT_TRUE(said == example.said.end() || said->second == is)
          << "# " << what << ": " << said->second << "\n  is now\n# " << what << ": " << is;
    }
  }
}

TEST(LayerPages, TheIndexIsPlanned) { CheckPage(kIndex); }

TEST(LayerPages, EveryExampleIsPlanned) {
  for (const std::string& page : Pages()) CheckPage(page);
}

TEST(LayerPages, EveryLinkOfTheIndexHasItsPage) {
  const std::string index = Read(kIndex);
  const std::string start = "(layers/";
  int links = 0;
  for (size_t at = index.find(start); at != std::string::npos; at = index.find(start, at + 1), ++links) {
    const std::string link = index.substr(at + 1, index.find_first_of("#)", at) - at - 1);
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat("docs/", link))) << "docs/layers.md links docs/" << link;
  }
  EXPECT_GT(links, 20);
}

TEST(LayerPages, TheIndexNamesEveryPage) {
  const std::string index = Read(kIndex);
  for (const std::string& page : Pages()) {
    EXPECT_TRUE(absl::StrContains(index, absl::StrCat("(", page.substr(5), ")"))) << page;
  }
}

TEST(LayerPages, TheIndexNamesEveryLayer) {
  const std::string index = Read(kIndex);
  const auto* op = Layer::descriptor()->FindOneofByName("op");
  for (int i = 0; i < op->field_count(); ++i) {
    const std::string& name = op->field(i)->name();
    EXPECT_TRUE(absl::StrContains(index, absl::StrCat("`", name, "`")) ||
                absl::StrContains(index, absl::StrCat("`", name, " {")))
        << name;
  }
}

}  // namespace
}  // namespace adjoin
