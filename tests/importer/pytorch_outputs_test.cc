// The archives of importer/testdata, imported and run on one rank and on two: their outputs are those that PyTorch
// wrote beside them. Likewise those of another folder, such as importer/testdata/published_models.py makes:
//
//   bazel test //tests/importer:pytorch_outputs_test --test_env=ADJOIN_ARCHIVES=FOLDER --test_output=all
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/archive/pt2_archive.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "planner/spec/spec_parser.h"
#include "proto/job.pb.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

struct Case {
  std::string archive;
  std::string sample;     // the files of its input and output
  std::string partition;  // of the input
  double tolerance;       // relative to the largest output
  int ranks = 2;          // of the partition
  std::string folder = "importer/testdata";
};

const Case kCases[] = {
    {"lenet.pt2", "lenet", "[1, 1, 2, 1]", 1e-4},
    {"lenet.new.pt2", "lenet", "[2, 1, 1, 1]", 1e-4},
    {"resnet.pt2", "resnet", "[1, 1, 1, 2]", 1e-10},
    {"unet3d.pt2", "unet3d", "[1, 1, 2, 1, 1]", 1e-10},
    {"unet3d.new.pt2", "unet3d", "[1, 1, 1, 2, 1]", 1e-10},
    {"mixed.pt2", "mixed", "[1, 1, 2, 1]", 1e-10},
    {"transformer.pt2", "transformer", "[1, 2]", 1e-10},
    {"slices.pt2", "slices", "[1, 1, 2, 1]", 1e-10},
    {"sequential.pt2", "sequential", "[1, 1, 2, 1]", 1e-10},
    {"nnunet.pt2", "nnunet", "[1, 1, 1, 2, 2]", 1e-10, 4},
    {"nnunet_resenc.pt2", "nnunet_resenc", "[1, 1, 2, 1, 2]", 1e-10, 4},
    {"monai_unet.pt2", "monai_unet", "[1, 1, 2, 2, 1]", 1e-10, 4},
    {"dynunet.pt2", "dynunet", "[1, 1, 2, 1, 2]", 1e-10, 4},
    {"segresnet.pt2", "segresnet", "[2, 1, 1, 1, 2]", 1e-10, 4},
};

// The imported job, which reads the sample's input from a file.
absl::StatusOr<JobSpec> JobOf(const Case& test, int ranks, const JobFolder& folder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Pt2Archive> archive,
                          Pt2Archive::Open(absl::StrCat(test.folder, "/", test.archive)));
  ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*archive, {}));
  ADJOIN_RETURN_IF_ERROR(WriteWeights(*archive, model, folder.Path("data/w.safetensors")));
  ADJOIN_ASSIGN_OR_RETURN(const std::string text,
                          JobText(model, {.name = "job", .weights = "w.safetensors", .archive = test.archive}));
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, "job"));
  JobSpec job = parsed.spec;
  job.mutable_dataset(0)->mutable_field(0)->mutable_npy()->add_path("input.npy");
  if (ranks == 1) return job;
  job.set_ranks(static_cast<uint32_t>(ranks));
  google::protobuf::TextFormat::ParseFromString(absl::StrCat("name: \"cut\" partition: ", test.partition),
                                                job.add_layout());
  for (Layer& layer : *job.mutable_layer()) {
    const bool reads_field =
        layer.input_size() == 0 ? &layer == &job.layer(0) : layer.input(0) == model.inputs[0].field;
    if (reads_field && layer.input_size() <= 1) layer.add_x("cut");
  }
  return job;
}

// The largest difference from PyTorch's output, relative to its largest element.
absl::StatusOr<double> DifferenceOf(const Case& test, int ranks, const JobFolder& folder) {
  for (const char* which : {"input", "output"}) {
    std::filesystem::copy_file(absl::StrCat(test.folder, "/", test.sample, ".", which, ".npy"),
                               folder.Path(absl::StrCat("data/", which, ".npy")));
  }
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, JobOf(test, ranks, folder));
  ADJOIN_ASSIGN_OR_RETURN(const at::Tensor expected, folder.ReadArray("data/output.npy"));
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  ADJOIN_RETURN_IF_ERROR(RunJob(text, {{"data", expected.size(0)}}, folder).status());
  ADJOIN_ASSIGN_OR_RETURN(const at::Tensor computed,
                          folder.ReadArray(absl::StrCat("output/job/", job.predict().input(0), ".npy")));
  if (computed.sizes() != expected.sizes()) return absl::InvalidArgumentError("the output has another shape");
  return (computed - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

class PytorchOutputsTest : public testing::TestWithParam<int> {};

TEST_P(PytorchOutputsTest, AreComputedByTheImportedJob) {
  const Case& test = kCases[GetParam()];
  for (int ranks : {1, test.ranks}) {
    const JobFolder folder(absl::StrCat(test.archive, ranks));
    const absl::StatusOr<double> difference = DifferenceOf(test, ranks, folder);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(*difference, test.tolerance) << test.archive << ", ranks: " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, PytorchOutputsTest, testing::Range(0, static_cast<int>(std::size(kCases))));

// Cuts of an input [2, channels, rows, columns] or [2, channels, slices, rows, columns] over four ranks.
const std::map<size_t, const char*> kFour = {{4, "[1, 1, 2, 2]"}, {5, "[1, 1, 1, 2, 2]"}};

TEST(ArchivesOfAFolderTest, AreComputedByTheImportedJob) {
  const char* path = std::getenv("ADJOIN_ARCHIVES");
  if (path == nullptr) GTEST_SKIP() << "ADJOIN_ARCHIVES names no folder";
  int archives = 0;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    if (file.path().extension() != ".pt2") continue;
    ++archives;
    const std::string name = file.path().stem();
    const auto before = std::chrono::steady_clock::now();
    const auto archive = Pt2Archive::Open(file.path());
    ASSERT_TRUE(archive.ok()) << archive.status();
    const auto model = ImportModel(**archive, {});
    const std::chrono::duration<double> import = std::chrono::steady_clock::now() - before;
    if (!model.ok()) {
      std::cout << name << ": " << model.status().message() << std::endl;
      continue;
    }
    std::cout << name << ": " << model->layers.size() << " layers, read in " << import.count() << " s; differences";
    const auto cut = kFour.find(model->inputs[0].shape.size());
    for (int ranks : {1, 4}) {
      if (ranks == 4 && cut == kFour.end()) continue;
      const Case test{name + ".pt2", name, ranks == 1 ? "" : cut->second, 1e-10, ranks, path};
      const JobFolder folder(absl::StrCat(name, ranks));
      const absl::StatusOr<double> difference = DifferenceOf(test, ranks, folder);
      ASSERT_TRUE(difference.ok()) << name << ": " << difference.status();
      EXPECT_LE(*difference, test.tolerance) << name << ", ranks: " << ranks;
      std::cout << " " << *difference << " on " << ranks << (ranks == 1 ? " rank" : " ranks");
    }
    std::cout << std::endl;
  }
  EXPECT_GT(archives, 0) << path << " has no .pt2";
}

}  // namespace
}  // namespace adjoin
