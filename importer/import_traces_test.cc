// Imports the traces of testdata/, which PyTorch 1.13 wrote. tests/importer compares what they compute.
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "importer/archive/testing/zip_bytes.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "importer/model_file.h"
#include "importer/torchscript/script_inliner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ImportedModel> Import(const std::string& name, const std::vector<std::string>& shapes,
                                     bool outline = false) {
  std::vector<ExampleInput> examples;
  for (const std::string& shape : shapes) {
    auto example = ParseExample(shape);
    if (!example.ok()) return example.status();
    examples.push_back(*std::move(example));
  }
  auto file = OpenModelFile("importer/testdata/" + name, examples);
  if (!file.ok()) return file.status();
  ImportOptions options;
  options.outline = outline;
  auto model = ImportModel(*file->archive, file->graph, options);
  if (!model.ok()) return model;
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, ".safetensors");
  const absl::Status written = WriteWeights(*file->archive, *model, path);
  return written.ok() ? std::move(model) : absl::StatusOr<ImportedModel>(written);
}

std::string Error(const std::string& name, const std::vector<std::string>& shapes) {
  return std::string(Import(name, shapes).status().message());
}

std::vector<std::string> Names(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name());
  return names;
}

TEST(ImportTracesTest, NamesLayersAsModules) {
  const auto model = Import("traced_lenet.pt", {"2x1x16x16"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Names(*model), ElementsAre("conv1", "relu", "max_pool2d", "conv2", "relu_2", "max_pool2d_2", "view",
                                         "fc1", "tanh", "drop", "fc2"));
  EXPECT_EQ(model->inputs[0].field, "x");
  EXPECT_EQ(model->compute, DType::kFloat64);
  EXPECT_EQ(model->weights[0].name, "conv1.weight");
}

// The same networks, exported by PyTorch 2.6, with more channels.
TEST(ImportTracesTest, MakesTheLayersOfAnExportedModel) {
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::string>>{{"resnet", "2x3x32x28"}, {"unet3d", "2x1x4x8x8"}}) {
    const auto traced = Import(absl::StrCat("traced_", name, ".pt"), {shape});
    const auto exported = Import(absl::StrCat(name, ".pt2"), {});
    ASSERT_TRUE(traced.ok() && exported.ok()) << traced.status() << exported.status();
    EXPECT_EQ(Names(*traced), Names(*exported));
    ASSERT_EQ(traced->layers.size(), exported->layers.size());
    for (size_t i = 0; i < traced->layers.size(); ++i) {
      const Layer &a = traced->layers[i], &b = exported->layers[i];
      EXPECT_EQ(a.op_case(), b.op_case()) << a.name();
      EXPECT_THAT(a.input(), testing::ElementsAreArray(b.input().begin(), b.input().end())) << a.name();
    }
    ASSERT_EQ(traced->weights.size(), exported->weights.size());
    for (size_t i = 0; i < traced->weights.size(); ++i) {
      EXPECT_EQ(traced->weights[i].name, exported->weights[i].name);
      EXPECT_EQ(traced->weights[i].source, exported->weights[i].source);
    }
  }
}

TEST(ImportTracesTest, SharesWeightsAsTheModelDoes) {
  const auto twice = Import("traced_twice.pt", {"2x2x6x6"});
  ASSERT_TRUE(twice.ok()) << twice.status();
  std::vector<std::string> shared;
  for (const Layer& layer : twice->layers) {
    if (!layer.weights_of().empty()) shared.push_back(layer.weights_of());
  }
  EXPECT_THAT(shared, ElementsAre("again.0", "again.0"));
  const auto tied = Import("traced_tied.pt", {"3x4:int64"});
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_EQ(tied->layers.back().weights_of(), "tokens");
}

TEST(ImportTracesTest, RefusesWhatHasNoLayerByOperatorAndModule) {
  EXPECT_THAT(Error("traced_refused.pt", {"2x3x4"}),
              AllOf(HasSubstr("torch.ops.aten.cumsum.default (1 time in module part)"), HasSubstr("--outline")));
  const auto outline = Import("traced_refused.pt", {"2x3x4"}, /*outline=*/true);
  EXPECT_TRUE(outline.ok()) << outline.status();
}

// A trace of x, 2x3, of which a module is called `part`.
std::string TraceOf(const std::string& part, const std::string& line) {
  const std::string begin("\x80\x02", 2);
  const std::string name =
      absl::StrCat("X", std::string(1, static_cast<char>(part.size())), std::string(3, '\0'), part);
  const std::string path = absl::StrCat(testing::TempDir(), "/made.pt");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << ZipBytes(
      {{"m/data.pkl", absl::StrCat(begin, "c__torch__\nNet\n)\x81}(", name, "c__torch__\nPart\n)\x81}bub.")},
       {"m/constants.pkl", absl::StrCat(begin, ").")},
       {"m/code/__torch__.py",
        absl::StrCat("class Net(Module):\n  def forward(self: Net,\n    x: Tensor) -> Tensor:\n    ", line,
                     "\nclass Part(Module):\n  a : int\n")}});
  return path;
}

TEST(ImportTracesTest, JobsCanBeReadWhateverIsInATrace) {
  for (const std::string text : {"\xff", "caf\xc3\xa9", "a\x1b[31m", "\xed\xa0\x80", "\\377"}) {
    const auto file = OpenModelFile(TraceOf("part", absl::StrCat("return ops.mine.filter(x, \"", text, "\")")),
                                    {{{2, 3}, std::nullopt}});
    ASSERT_TRUE(file.ok()) << file.status();
    const auto model = ImportModel(*file->archive, file->graph, {.inputs = {}, .outline = true});
    ASSERT_TRUE(model.ok()) << model.status();
    const auto job = JobText(*model, {.name = "made", .weights = "", .archive = "made.pt"});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(ParseSpec(*job, "job").ok()) << *job << ParseSpec(*job, "job").status();
  }
  EXPECT_TRUE(OpenModelFile(TraceOf("part", "return torch.relu(x)"), {{{2, 3}, std::nullopt}}).ok());
  EXPECT_THAT(
      std::string(
          OpenModelFile(TraceOf("part\xff", "return torch.relu(x)"), {{{2, 3}, std::nullopt}}).status().message()),
      HasSubstr("has the attribute part\\xff; right would be a name of UTF-8"));
}

TEST(ImportTracesTest, OutlinesOperatorsWhoseShapesAreNotKnown) {
  for (const char* line : {"return ops.mine.filter(x)", "return ops.mine.filter(ops.mine.other(x))",
                           "y = ops.mine.filter(x)\n    return torch.relu(y)",
                           "y = ops.mine.filter(x)\n    return torch.add(y, ops.mine.other(y), alpha=1)",
                           "y = ops.mine.filter(x)\n    return torch.view(y, [2, 3])",
                           "y = ops.mine.filter(x)\n    return torch.squeeze(y, 0)",
                           "y = ops.mine.filter(x)\n    return torch.matmul(y, torch.t(y))",
                           "y = ops.mine.filter(x)\n    return torch.cat([torch.relu(x), y], 1)"}) {
    const auto file = OpenModelFile(TraceOf("part", line), {{{2, 3}, std::nullopt}});
    ASSERT_TRUE(file.ok()) << line << ": " << file.status();
    EXPECT_THAT(std::string(ImportModel(*file->archive, file->graph, {.inputs = {}}).status().message()),
                HasSubstr("it is not known"))
        << line;
    const auto model = ImportModel(*file->archive, file->graph, {.inputs = {}, .outline = true});
    ASSERT_TRUE(model.ok()) << line << ": " << model.status();
    ASSERT_EQ(model->outputs.size(), 1) << line;
    EXPECT_EQ(model->outputs[0], model->layers.back().name()) << line;
    const auto job = JobText(*model, {.name = "made", .weights = "", .archive = "made.pt"});
    ASSERT_TRUE(job.ok()) << line << ": " << job.status();
    EXPECT_TRUE(ParseSpec(*job, "job").ok()) << *job << ParseSpec(*job, "job").status();
  }
}

TEST(ImportTracesTest, RefusesScripts) {
  EXPECT_THAT(Error("traced_scripted.pt", {"2x4"}),
              AllOf(HasSubstr("code/__torch__.py:"), HasSubstr("__torch__.Scripted.forward has `if`"),
                    HasSubstr("torch.jit.trace")));
}

TEST(ImportTracesTest, NeedsTheShapesOfItsArguments) {
  EXPECT_THAT(Error("traced_lenet.pt", {}), AllOf(HasSubstr("which are 1 (x)"), HasSubstr("--example-shape")));
  EXPECT_THAT(Error("traced_mixed.pt", {"2x2x6x8"}), HasSubstr("which are 2 (image, row), and --example-shape has 1"));
  EXPECT_THAT(
      Error("traced_lenet.pt", {"2x1x28x28"}),
      AllOf(HasSubstr("torch.ops.aten.linear.default in module fc1: its input is [2, 216] and its weight [16, 54]"),
            HasSubstr("traced with")));
  EXPECT_THAT(Error("traced_tied.pt", {"3x4"}), HasSubstr("2x16:int64"));
  EXPECT_THAT(Error("lenet.pt2", {"2x1x28x28"}), HasSubstr("tells the extents of its arguments"));
  for (const char* wrong : {"", "2x", "x2", "2x-3", "0x2", "2x3:", "2x3:text", "2*3", "99999999999x2"}) {
    EXPECT_THAT(Error("traced_lenet.pt", {wrong}), HasSubstr("right would be such as 2x3x64x64")) << wrong;
  }
}

}  // namespace
}  // namespace adjoin
