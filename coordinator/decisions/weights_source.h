// The weights that a job takes from an earlier one (Weights.from_job): the model that it has published, or one of its
// checkpoints, of which a worker that sees them chooses.
//
//   ADJOIN_RETURN_IF_ERROR(NameWeightsJob(jobs, workers, "alice", /*any_folder=*/false, spec));   // now "job-3"
//   ADJOIN_ASSIGN_OR_RETURN(WeightsSource source, FindWeights(jobs, workers, spec.weights()));
//   source.IsSeenBy("worker-0", workers.At("worker-0"));
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_WEIGHTS_SOURCE_H_
#define ADJOIN_COORDINATOR_DECISIONS_WEIGHTS_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct WeightsSource {
  std::string job;            // its id
  std::string published;      // the file, below the output root; "": a checkpoint is to be chosen
  CheckpointRead checkpoint;  // which one
  // The workers that see the files: these, and all whose output_id is `output_id`, where that is known.
  std::vector<std::string> workers;
  std::string output_id;

  bool IsSeenBy(const std::string& name, const WorkerRecord& worker) const;
};

// Names the job of weights.from_job by its id, as other jobs may get its name. A name means one of the caller's own
// jobs, or else anybody's. `any_folder`: it may be another owner's.
// Errors: kNotFound, kInvalidArgument (several jobs have the name: lists them), kPermissionDenied (its folders are
// another owner's), those of FindWeights. They begin with the field.
absl::Status NameWeightsJob(const JobTable& jobs, const WorkerTable& workers, const std::string& caller,
                            bool any_folder, JobSpec& spec);

// `weights`: from_job is an id.
// Errors: kNotFound (the job is no more), kInvalidArgument (it trains nothing), kFailedPrecondition (it has left no
// weights, or others have taken their place).
absl::StatusOr<WeightsSource> FindWeights(const JobTable& jobs, const WorkerTable& workers, const Weights& weights);

// True where `path`, below the output root, names a checkpoint that a worker may choose from `read`: of that folder,
// that job and, where it is given, that step.
bool IsFor(const CheckpointRead& read, const std::string& path);

// What a worker is asked about the weights of a job with these parameters.
ModelProbe ProbeOf(const Weights& weights, const WeightsSource& source, const std::vector<ModelTensor>& model);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WEIGHTS_SOURCE_H_
