// The archives of importer/testdata, imported and run on one rank and on two: their outputs are those that PyTorch
// wrote beside them. Likewise those of another folder, such as importer/testdata/published_models.py makes; where
// NAME.losses.npy is there, NAME is trained as well, and NAME.trained.safetensors written:
//
//   bazel test //tests/importer:pytorch_outputs_test --test_env=ADJOIN_ARCHIVES=FOLDER --test_output=all
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "importer/model_file.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"
#include "tests/importer/imported_job.h"
#include "tests/importer/trained_losses.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

// The largest difference from PyTorch's output, relative to its largest element.
absl::StatusOr<double> DifferenceOf(const ArchiveCase& test, int ranks, const JobFolder& folder) {
  ADJOIN_RETURN_IF_ERROR(CopyArrays(test, folder));
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, ImportedJob(test, ranks, folder));
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  ADJOIN_ASSIGN_OR_RETURN(const at::Tensor first, folder.ReadArray("data/output0.npy"));
  ADJOIN_RETURN_IF_ERROR(RunJob(text, {{"data", first.size(0)}}, folder).status());
  if (test.Arrays("output").size() != static_cast<size_t>(job.predict().input_size())) {
    return absl::InvalidArgumentError("it has another number of outputs");
  }
  double largest = 0;
  for (int i = 0; i < job.predict().input_size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const at::Tensor expected, folder.ReadArray(absl::StrCat("data/output", i, ".npy")));
    ADJOIN_ASSIGN_OR_RETURN(const at::Tensor computed,
                            folder.ReadArray(absl::StrCat("output/job/", job.predict().input(i), ".npy")));
    if (computed.sizes() != expected.sizes()) return absl::InvalidArgumentError("an output has another shape");
    largest = std::max(largest, (computed - expected).abs().max().item<double>() / expected.abs().max().item<double>());
  }
  return largest;
}

class PytorchOutputsTest : public testing::TestWithParam<int> {};

TEST_P(PytorchOutputsTest, AreComputedByTheImportedJob) {
  const ArchiveCase& test = ArchiveCases()[GetParam()];
  for (int ranks : {1, test.ranks}) {
    const JobFolder folder(absl::StrCat(test.archive, ranks));
    const absl::StatusOr<double> difference = DifferenceOf(test, ranks, folder);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_LE(*difference, test.tolerance) << test.archive << ", ranks: " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, PytorchOutputsTest, testing::Range(0, static_cast<int>(ArchiveCases().size())));

// Cuts of an input of so many dims over four ranks.
const std::map<size_t, const char*> kFour = {
    {2, "[2, 2]"}, {3, "[2, 2, 1]"}, {4, "[1, 1, 2, 2]"}, {5, "[1, 1, 1, 2, 2]"}};

// Where the layers that read a field of so many dims are cut.
std::string CutOfFour(size_t dims, const ImportedModel& model) {
  // A reshape that divides a dim does not read it in any parts.
  if (!model.layers[0].has_reshape()) return kFour.at(dims);
  return absl::StrCat("[4", absl::StrReplaceAll(std::string(dims - 1, ','), {{",", ", 1"}}), "]");
}

void ComputeArchive(const ArchiveCase& test, int ranks) {
  const JobFolder folder(absl::StrCat(test.sample, ranks));
  const absl::StatusOr<double> difference = DifferenceOf(test, ranks, folder);
  EXPECT_TRUE(difference.ok()) << test.sample << " on " << ranks << ": " << difference.status();
  std::filesystem::remove_all(folder.Path(""));
  if (!difference.ok()) return;
  EXPECT_LE(*difference, test.tolerance) << test.sample << ", ranks: " << ranks;
  std::cout << " " << *difference << " on " << ranks << (ranks == 1 ? " rank" : " ranks") << std::flush;
}

// Trains as training_losses.py does, on one rank. What was trained lies beside the archive then.
void TrainArchive(const ArchiveCase& test) {
  const JobFolder folder(absl::StrCat(test.sample, "-trained"));
  const auto right = PytorchLosses(test, folder);
  ASSERT_TRUE(right.ok()) << right.status();
  const auto losses = TrainedLosses(test, 1, folder);
  ASSERT_TRUE(losses.ok()) << test.sample << ": " << losses.status();
  ASSERT_EQ(losses->size(), right->size());
  double largest = 0;
  for (size_t i = 0; i < right->size(); ++i) {
    largest = std::max(largest, std::abs((*losses)[i] - (*right)[i]) / std::max((*right)[i], 1e-3));
  }
  EXPECT_LE(largest, 1e-9) << test.sample;
  std::cout << " " << largest << " of the losses";
  std::filesystem::copy_file(folder.Path("output/job/model.safetensors"),
                             absl::StrCat(test.folder, "/", test.sample, ".trained.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove_all(folder.Path(""));
}

// Imports, computes and, where losses are there, trains each; what has no layer is refused by its name and its module.
// Prints a line for each. NAME.float32.pt2 is computed on one rank only.
void ComputeArchives(const std::string& path, int least) {
  int archives = 0;
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    if (file.path().extension() == ".pt2") files.insert(file.path());
  }
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).stem();
    const auto before = std::chrono::steady_clock::now();
    const auto opened = OpenModelFile(file, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto model = ImportModel(*opened->archive, opened->graph, {});
    const std::chrono::duration<double, std::milli> import = std::chrono::steady_clock::now() - before;
    if (!model.ok()) {
      std::cout << name << ": " << model.status().message() << std::endl;
      EXPECT_TRUE(absl::StrContains(model.status().message(), "no layers for torch.ops."));
      continue;
    }
    ++archives;
    const auto text = JobText(*model, {.name = "job", .weights = "w.safetensors", .archive = name});
    ASSERT_TRUE(text.ok()) << text.status();
    std::cout << name << ": " << model->layers.size() << " layers, " << std::count(text->begin(), text->end(), '\n')
              << " lines, read in " << import.count() << " ms; differences" << std::flush;
    const size_t dims = model->inputs[0].shape.size();
    ArchiveCase test{name + ".pt2", name, "", model->compute == DType::kFloat32 ? 1e-4 : 1e-10, 4, path};
    ComputeArchive(test, 1);
    if (kFour.count(dims) > 0 && !absl::EndsWith(name, ".float32")) {
      test.partition = CutOfFour(dims, *model);
      ComputeArchive(test, 4);
    }
    if (!test.Arrays("losses").empty()) TrainArchive(test);
    std::cout << std::endl;
  }
  EXPECT_GE(archives, least) << path << " has few .pt2 that are imported";
}

// Modules that importer/testdata/random_modules.py drew.
TEST(RandomModulesTest, AreComputedByTheImportedJobOrRefused) { ComputeArchives("importer/testdata/random", 14); }

TEST(ArchivesOfAFolderTest, AreComputedByTheImportedJob) {
  const char* path = std::getenv("ADJOIN_ARCHIVES");
  if (path == nullptr) GTEST_SKIP() << "ADJOIN_ARCHIVES names no folder";
  ComputeArchives(path, 1);
}

}  // namespace
}  // namespace adjoin
