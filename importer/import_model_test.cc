// Imports the archives of testdata/, which PyTorch wrote, and plans the jobs. tests/importer compares what they
// compute.
#include "importer/import_model.h"

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "importer/archive/model_archive.h"
#include "importer/graph/op_graph.h"
#include "importer/job_text.h"
#include "importer/layers/op_rules.h"
#include "importer/model_file.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ModelFile OpenFixture(const std::string& name) {
  auto file = OpenModelFile("importer/testdata/" + name, {});
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : ModelFile();
}

ImportedModel Imported(const std::string& name) {
  const ModelFile file = OpenFixture(name);
  auto model = ImportModel(*file.archive, file.graph, {});
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : ImportedModel();
}

std::vector<std::string> Names(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name());
  return names;
}

class FixtureTest : public testing::TestWithParam<const char*> {};

TEST_P(FixtureTest, MakesAJobThatIsPlannedWithTheWeightsOfItsFile) {
  const ModelFile file = OpenFixture(GetParam());
  const auto model = ImportModel(*file.archive, file.graph, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto text = JobText(*model, {.name = "job", .weights = "w.safetensors", .archive = GetParam()});
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseSpec(*text, "job");
  ASSERT_TRUE(parsed.ok()) << parsed.status() << *text;
  DatasetSizes sizes;
  sizes["data"].samples = parsed->spec.dataset(0).field(0).synthetic().samples();
  const auto plan = Planner::Build(parsed->spec, sizes, BuiltinLayerRules(), &parsed->locations);
  ASSERT_TRUE(plan.ok()) << plan.status() << *text;

  const std::string path = absl::StrCat(testing::TempDir(), "/", GetParam(), ".safetensors");
  ASSERT_TRUE(WriteWeights(*file.archive, *model, path).ok());
  const auto weights = SafetensorsReader::Open(path);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->entries().size(), static_cast<size_t>(plan->parameter_size()));
  for (const ParameterPlan& parameter : plan->parameter()) {
    const SafetensorsEntry* entry = (*weights)->Find(parameter.name());
    ASSERT_NE(entry, nullptr) << parameter.name();
    const std::vector<int64_t> shape(parameter.home().shape().begin(), parameter.home().shape().end());
    // Those of attention are planned head by head, and are in files as in PyTorch.
    EXPECT_EQ(VolumeOf(entry->shape), VolumeOf(shape)) << parameter.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, FixtureTest,
                         testing::Values("lenet.pt2", "lenet.new.pt2", "resnet.pt2", "unet3d.pt2", "unet3d.new.pt2",
                                         "mixed.pt2", "transformer.pt2", "slices.pt2", "sequential.pt2", "nnunet.pt2",
                                         "nnunet_resenc.pt2", "monai_unet.pt2", "dynunet.pt2", "segresnet.pt2"));

TEST(ImportModelTest, NamesLayersAsModules) {
  EXPECT_THAT(Names(Imported("lenet.pt2")), ElementsAre("conv1", "relu", "max_pool2d", "conv2", "relu_2",
                                                        "max_pool2d_2", "view", "fc1", "tanh", "drop", "fc2"));
}

TEST(ImportModelTest, NamesLayersOfASequentialByTheirNumbers) {
  EXPECT_THAT(Names(Imported("sequential.pt2")), ElementsAre("0", "1", "2.0", "2.1", "3", "4"));
}

TEST(ImportModelTest, ReadsBothFormsOfArchivesAlike) {
  for (const char* name : {"lenet", "unet3d"}) {
    const ModelFile old_form = OpenFixture(absl::StrCat(name, ".pt2"));
    const ModelFile new_form = OpenFixture(absl::StrCat(name, ".new.pt2"));
    ASSERT_EQ(old_form.archive->tensors().size(), new_form.archive->tensors().size());
    for (const auto& [key, tensor] : old_form.archive->tensors()) {
      std::string values[2];
      int i = 0;
      for (const ModelArchive* archive : {old_form.archive.get(), new_form.archive.get()}) {
        ASSERT_NE(archive->Find(key), nullptr) << key;
        const auto append = [&](const char* data, int64_t bytes) {
          values[i].append(data, static_cast<size_t>(bytes));
          return absl::OkStatus();
        };
        ASSERT_TRUE(archive->Read(*archive->Find(key), append).ok());
        ++i;
      }
      EXPECT_EQ(values[0], values[1]) << key;
      EXPECT_FALSE(values[0].empty()) << key;
    }
  }
}

TEST(ImportModelTest, NamesWhatHasNoLayer) {
  const ModelFile file = OpenFixture("refused.pt2");
  const auto refused = ImportModel(*file.archive, file.graph, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("refused.pt2"), HasSubstr("torch.ops.aten.cumsum.default (1 time in module part)"),
                    HasSubstr("--outline")));
  const auto outline = ImportModel(*file.archive, file.graph, {.inputs = {}, .outline = true});
  ASSERT_TRUE(outline.ok()) << outline.status();
  EXPECT_THAT(Names(*outline), ElementsAre("fc", "part.cumsum", "part.cumsum_2", "transpose", "matmul"));
  EXPECT_TRUE(outline->layers.back().has_matmul());
  const auto text = JobText(*outline, {.name = "outline", .weights = "", .archive = "refused.pt2"});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, AllOf(HasSubstr("# NOT IMPORTED: torch.ops.aten.cumsum.default (2 times, first in module part)"),
                           HasSubstr("it is not known; the nearest layer is reduce { kind: \"sum\" }"),
                           HasSubstr("custom { type: \"cumsum\"")));
  EXPECT_TRUE(ParseSpec(*text, "job").ok());
}

TEST(ImportModelTest, FindsTheAttentionOfModules) {
  const ImportedModel model = Imported("transformer.pt2");
  std::vector<std::string> attention;
  for (const Layer& layer : model.layers) {
    if (layer.has_attention()) attention.push_back(absl::StrCat(layer.name(), " ", layer.attention().heads()));
  }
  EXPECT_THAT(attention, ElementsAre("block.self_attn 2", "attend 4"));
}

TEST(ImportModelTest, TakesTheNamesOfTheInputsThatItIsGiven) {
  const ModelFile file = OpenFixture("lenet.pt2");
  const auto model = ImportModel(*file.archive, file.graph, {.inputs = {"image"}, .outline = false});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->layers[0].input(), ElementsAre("image"));
  const auto refused = ImportModel(*file.archive, file.graph, {.inputs = {"image", "mask"}, .outline = false});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("forward has 1 tensor arguments (x), but --input names 2"));
}

// A program of the operators in `nodes` over x, [batch, 3, 4, 4], and results y, z and so on, of which the last one is
// returned. `batch` and `shape_of_y` are extents as JSON.
OpGraph GraphOf(const std::string& nodes, const std::string& result, const std::string& shape_of_y = "",
                const std::string& batch = R"({"as_int": 2})", const std::string& inputs = "") {
  const std::string rest = R"(, {"as_int": 3}, {"as_int": 4}, {"as_int": 4})";
  const std::string x = absl::StrCat(batch, rest), y = shape_of_y.empty() ? x : shape_of_y;
  std::string tensors;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::string>>{{"x", x}, {"y", y}, {"z", y}, {"v", y}}) {
    absl::StrAppend(&tensors, tensors.empty() ? "" : ", ", "\"", name, R"(": {"dtype": 7, "sizes": [)", shape, "]}");
  }
  const std::string program = absl::StrCat(
      R"({"schema_version": {"major": 8}, "graph_module": {"graph": {"tensor_values": {)", tensors, R"(}, "nodes": [)",
      nodes, R"(]}, "signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}})", inputs,
      R"(], "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": ")", result, R"("}}}}]}}})");
  auto graph = ReadOpGraph(nlohmann::json::parse(program), "made.pt2");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : OpGraph();
}

// One operator of `from`, with more arguments as JSON.
std::string NodeOf(const std::string& target, const std::string& from, const std::string& to,
                   const std::string& arguments = "") {
  return absl::StrCat(R"({"target": "torch.ops.aten.)", target,
                      R"(", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": ")", from, R"("}}})", arguments,
                      R"(], "outputs": [{"as_tensor": {"name": ")", to, R"("}}], "metadata": {}})");
}

std::string ErrorOf(const OpGraph& graph) {
  const ModelFile file = OpenFixture("lenet.pt2");
  return std::string(ImportModel(*file.archive, graph, {}).status().message());
}

TEST(ImportModelTest, RefusesAChangeThroughAViewThatHasNoLayer) {
  const std::string nodes = absl::StrCat(NodeOf("relu.default", "x", "y"), ", ", NodeOf("select.int", "y", "z"), ", ",
                                         NodeOf("fill_.Scalar", "z", "v"));
  EXPECT_THAT(ErrorOf(GraphOf(nodes, "y")), HasSubstr("aten.select.int"));
}

TEST(ImportModelTest, KeepsAChangeThroughASecondName) {
  const std::string limits = R"(, {"name": "min", "arg": {"as_int": 0}}, {"name": "max", "arg": {"as_int": 1}})";
  const OpGraph graph = GraphOf(absl::StrCat(NodeOf("relu.default", "x", "y"), ", ", NodeOf("alias.default", "y", "z"),
                                             ", ", NodeOf("clamp_.default", "z", "v", limits)),
                                "y");
  const ModelFile file = OpenFixture("lenet.pt2");
  const auto model = ImportModel(*file.archive, graph, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Names(*model), ElementsAre("relu", "clamp"));
  EXPECT_THAT(model->outputs, ElementsAre("clamp"));
  const OpGraph perhaps =
      GraphOf(absl::StrCat(NodeOf("relu.default", "x", "y"), ", ", NodeOf("contiguous.default", "y", "z"), ", ",
                           NodeOf("clamp_.default", "z", "v", limits)),
              "y");
  EXPECT_THAT(ErrorOf(perhaps), HasSubstr("changed in place"));
}

TEST(ImportModelTest, ReadsNumbersThatAreNotFinite) {
  const auto pad = [](const std::string& value) {
    return GraphOf(
        NodeOf("pad.default", "x", "y",
               absl::StrCat(R"(, {"name": "pad", "arg": {"as_ints": [1, 1]}}, {"name": "value", "arg": )", value, "}")),
        "y");
  };
  EXPECT_THAT(ErrorOf(pad(R"({"as_float": "-Infinity"})")), HasSubstr("its value is not 0"));
  EXPECT_THAT(ErrorOf(pad(R"({"as_float": "NaN"})")), HasSubstr("its value is not 0"));
  EXPECT_THAT(ErrorOf(pad(R"({"as_float": "many"})")), HasSubstr("its argument value"));
  EXPECT_THAT(ErrorOf(pad(R"({"as_sym_float": {"as_name": "s"}})")), HasSubstr("its argument value"));
  EXPECT_THAT(ErrorOf(GraphOf(NodeOf("hardtanh.default", "x", "y",
                                     R"(, {"name": "min_val", "arg": {"as_float": 0.0}})"
                                     R"(, {"name": "max_val", "arg": {"as_float": "Infinity"}})"),
                              "y")),
              HasSubstr("not finite"));
}

TEST(ImportModelTest, TakesTheDimsOfAPoolFromItsOperator) {
  EXPECT_THAT(
      ErrorOf(GraphOf(NodeOf("max_pool3d.default", "x", "y", R"(, {"name": "kernel_size", "arg": {"as_ints": [2]}})"),
                      "y")),
      HasSubstr("its input has 4 dims; right would be [batch, channels, 3 spatial dims]"));
}

TEST(ImportModelTest, TellsTheBatchFromOtherExtentsThatAreNotFixed) {
  const std::string batch = R"({"as_expr": {"expr_str": "s0"}})", more = R"({"as_expr": {"expr_str": "3*s0"}})";
  const std::string view = NodeOf("view.default", "x", "y");
  EXPECT_EQ(ErrorOf(GraphOf(view, "y", absl::StrCat(batch, R"(, {"as_int": 48})"), batch)), "");
  EXPECT_THAT(ErrorOf(GraphOf(view, "y", absl::StrCat(more, R"(, {"as_int": 16})"), batch)),
              HasSubstr("its batch is in dim 0, together with others"));
  EXPECT_THAT(ErrorOf(GraphOf(view, "y", absl::StrCat(batch, R"(, {"as_int": 16})"), batch)),
              HasSubstr("from one sample to another"));
}

TEST(ImportModelTest, LeavesOutConstantInputs) {
  const OpGraph graph = GraphOf(NodeOf("relu.default", "x", "y"), "y", "", R"({"as_int": 2})",
                                R"(, {"constant_input": {"name": "flag", "value": {"as_bool": true}}})");
  EXPECT_THAT(graph.inputs, ElementsAre("x"));
}

TEST(OpRulesTest, AreAllInTheDocumentation) {
  std::ifstream file("docs/import.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const OpRules* rules : AllOpRules()) {
    for (const auto& [op, rule] : *rules) {
      EXPECT_NE(page.str().find(absl::StrCat("`", op, "`")), std::string::npos) << op;
    }
  }
}

TEST(JobTextTest, FillsATemplate) {
  const ImportedModel model = Imported("lenet.pt2");
  const auto frame = ParseSpec(R"(name: "mine" kind: TRAIN ranks: 2 loss { kind: "cross_entropy" target: "label" }
                   weights { from_job: "old" strict: false }
                   dataset { name: "data" field { name: "x" npy { path: "train_[0].npy" } } })",
                               "t");
  ASSERT_TRUE(frame.ok());
  const auto text =
      JobText(model, {.name = "", .weights = "w.safetensors", .archive = "lenet.pt2", .frame = &frame->spec});
  ASSERT_TRUE(text.ok()) << text.status();
  const auto job = ParseSpec(*text, "job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.name(), "mine");
  EXPECT_EQ(job->spec.loss(0).input(), "fc2");
  EXPECT_EQ(job->spec.layer_size(), 11);
  EXPECT_EQ(job->spec.weights().init_from(), "w.safetensors");
  EXPECT_FALSE(job->spec.weights().strict());
  EXPECT_EQ(job->spec.dataset(0).field(0).npy().path(0), "train_[0].npy");
  const auto again = JobText(model, {.name = "", .weights = "", .archive = "", .frame = &job->spec});
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("the template has a layer, conv1"));
}

}  // namespace
}  // namespace adjoin
