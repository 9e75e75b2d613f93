// Training an imported archive as PyTorch trained it (importer/testdata/training_losses.py).
//
//   const ArchiveCase test{"lenet.pt2", "lenet", "[1, 1, 2, 1]", 1e-4};
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> right, PytorchLosses(test, folder));
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> losses, TrainedLosses(test, /*ranks=*/2, folder));
#ifndef ADJOIN_TESTS_IMPORTER_TRAINED_LOSSES_H_
#define ADJOIN_TESTS_IMPORTER_TRAINED_LOSSES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "tests/importer/imported_job.h"
#include "tests/predict/job_run.h"

namespace adjoin {

// Imports and trains: the loss of each step, and that of the validation after the last one. The weights are then in
// output/job/model.safetensors. Errors: those of the import and of the job.
absl::StatusOr<std::vector<double>> TrainedLosses(const ArchiveCase& test, int ranks, const JobFolder& folder);

// What PyTorch wrote of the same steps, NAME.losses.npy. Errors: that there is no such file, or none that can be read.
absl::StatusOr<std::vector<double>> PytorchLosses(const ArchiveCase& test, const JobFolder& folder);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_IMPORTER_TRAINED_LOSSES_H_
