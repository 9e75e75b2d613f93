// The archives of importer/testdata as jobs that read the arrays which PyTorch wrote beside them.
//
//   const ArchiveCase test{"lenet.pt2", "lenet", "[1, 1, 2, 1]", 1e-4};
//   ADJOIN_RETURN_IF_ERROR(CopyArrays(test, folder));
//   ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, ImportedJob(test, /*ranks=*/2, folder));
#ifndef ADJOIN_TESTS_IMPORTER_IMPORTED_JOB_H_
#define ADJOIN_TESTS_IMPORTER_IMPORTED_JOB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "tests/predict/job_run.h"

namespace adjoin {

struct ArchiveCase {
  std::string archive;
  std::string sample;     // the files of its inputs and outputs
  std::string partition;  // of what layers read that read a field
  double tolerance;       // relative to the largest output
  int ranks = 2;          // of the partition
  std::string folder = "importer/testdata";

  // Paths of NAME.<kind>.npy, or of NAME.<kind>.0.npy, NAME.<kind>.1.npy, ...
  std::vector<std::string> Arrays(const std::string& kind) const;
};

// Those of the repository.
const std::vector<ArchiveCase>& ArchiveCases();

// Copies inputs and outputs to data/input0.npy, data/output0.npy and so on.
absl::Status CopyArrays(const ArchiveCase& test, const JobFolder& folder);

// Imports the archive: a job that predicts on the inputs, with weights in data/w.safetensors. On more than one rank
// the layers are cut that read a field.
absl::StatusOr<JobSpec> ImportedJob(const ArchiveCase& test, int ranks, const JobFolder& folder);

// The same job, which trains as importer/testdata/training_losses.py does, in float64.
absl::StatusOr<JobSpec> TrainingJob(const ArchiveCase& test, int ranks, const JobFolder& folder);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_IMPORTER_IMPORTED_JOB_H_
