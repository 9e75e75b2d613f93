// The archives of importer/testdata, imported and run on one rank and on two: their outputs are those that PyTorch
// wrote beside them. Likewise those of another folder, such as importer/testdata/published_models.py makes:
//
//   bazel test //tests/importer:pytorch_outputs_test --test_env=ADJOIN_ARCHIVES=FOLDER --test_output=all
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/archive/pt2_archive.h"
#include "importer/import_model.h"
#include "proto/job.pb.h"
#include "tests/importer/imported_job.h"
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
      const ArchiveCase test{name + ".pt2", name, ranks == 1 ? "" : cut->second, 1e-10, ranks, path};
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
