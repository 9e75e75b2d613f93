// The archives of importer/testdata, imported and trained on one rank and on several: each step's loss, and the loss in
// evaluation afterwards, are those that PyTorch wrote beside them (training_losses.py).
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/importer/imported_job.h"
#include "tests/importer/trained_losses.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

class PytorchTrainingTest : public testing::TestWithParam<int> {};

TEST_P(PytorchTrainingTest, IsThatOfTheImportedJob) {
  const ArchiveCase& test = ArchiveCases()[GetParam()];
  const auto expected = PytorchLosses(test, JobFolder(test.archive));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int ranks : {1, test.ranks}) {
    SCOPED_TRACE(absl::StrCat(test.archive, ", ranks: ", ranks));
    const auto losses = TrainedLosses(test, ranks, JobFolder(absl::StrCat(test.archive, ranks)));
    ASSERT_TRUE(losses.ok()) << losses.status();
    ASSERT_EQ(losses->size(), expected->size());
    for (size_t i = 0; i < losses->size(); ++i) {
      EXPECT_NEAR((*losses)[i], (*expected)[i], 1e-9 * std::max((*expected)[i], 1e-3)) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, PytorchTrainingTest, testing::Range(0, static_cast<int>(ArchiveCases().size())));

}  // namespace
}  // namespace adjoin
