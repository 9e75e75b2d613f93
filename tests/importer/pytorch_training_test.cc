// The archives of importer/testdata, imported and trained on one rank and on several: each step's loss, and the loss in
// evaluation afterwards, are those that PyTorch wrote beside them (training_losses.py).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/core/Tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/job.pb.h"
#include "tests/importer/imported_job.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

// The loss of each step, and that of the validation after the last one.
absl::StatusOr<std::vector<double>> LossesOf(const ArchiveCase& test, int ranks, const JobFolder& folder) {
  ADJOIN_RETURN_IF_ERROR(CopyArrays(test, folder));
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, TrainingJob(test, ranks, folder));
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  ADJOIN_RETURN_IF_ERROR(RunJob(text, {{"data", job.train().batch()}}, folder).status());
  std::ifstream file(folder.Path("output/job/metrics.jsonl"));
  std::vector<double> losses;
  for (const char* type : {"step", "validation"}) {
    file.clear();
    file.seekg(0);
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["type"] == type) losses.push_back(parsed["loss"]);
    }
  }
  return losses;
}

class PytorchTrainingTest : public testing::TestWithParam<int> {};

TEST_P(PytorchTrainingTest, IsThatOfTheImportedJob) {
  const ArchiveCase& test = ArchiveCases()[GetParam()];
  const JobFolder expected_folder(test.archive);
  std::filesystem::copy_file(test.Arrays("losses").at(0), expected_folder.Path("data/losses.npy"));
  const auto expected = expected_folder.ReadArray("data/losses.npy");
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int ranks : {1, test.ranks}) {
    SCOPED_TRACE(absl::StrCat(test.archive, ", ranks: ", ranks));
    const JobFolder folder(absl::StrCat(test.archive, ranks));
    const auto losses = LossesOf(test, ranks, folder);
    ASSERT_TRUE(losses.ok()) << losses.status();
    ASSERT_EQ(static_cast<int64_t>(losses->size()), expected->numel());
    for (size_t i = 0; i < losses->size(); ++i) {
      const double right = (*expected)[static_cast<int64_t>(i)].item<double>();
      EXPECT_NEAR((*losses)[i], right, 1e-9 * std::max(right, 1e-3)) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, PytorchTrainingTest, testing::Range(0, static_cast<int>(ArchiveCases().size())));

}  // namespace
}  // namespace adjoin
