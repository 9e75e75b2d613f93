// Jobs that apply or measure what another job has trained: `adjoin predict` and `adjoin evaluate`.
//
//   DerivedJobOptions options;
//   options.kind = PREDICT;
//   options.dataset = "test";
//   ADJOIN_ASSIGN_OR_RETURN(DerivedJob derived, DeriveJob(trained_spec, options));
#ifndef ADJOIN_CLI_DERIVED_JOB_H_
#define ADJOIN_CLI_DERIVED_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace adjoin {

struct DerivedJobOptions {
  Kind kind = PREDICT;              // or EVALUATE
  std::string dataset;              // empty: the only one of `data`, or else what the job evaluates or validates on
  std::string from_job;             // the id of the job, whose checkpoint is taken; empty: the model that it published
  bool best = false;                // with from_job: the checkpoint of the best validation
  uint64_t step = 0;                // likewise: the checkpoint of this step
  JobSpec data;                     // data sets that replace those of the same name or are added; has nothing else
  std::string name;                 // empty: the job's, with "-predict" or "-evaluate"
  std::string output_dir;           // likewise
  uint32_t batch = 0;               // 0: for PREDICT 1, for EVALUATE as in the job
  std::vector<std::string> input;   // of PREDICT; empty: what the losses read
  std::string format = "npy";       // of PREDICT
  bool classes = false;             // of PREDICT
  std::vector<std::string> metric;  // of EVALUATE; empty: the job's, or else "loss"
};

struct DerivedJob {
  JobSpec spec;
  std::vector<std::string> notices;  // what was changed and a user may not expect, a line each
};

// Takes network, layouts, number types and resources from `trained`, one data set, and its model from its output_dir,
// or from a checkpoint.
// Errors: kInvalidArgument: a job of another kind than TRAIN or without output_dir, no such data set, none named where
// several are possible, no loss whose input could be predicted, `data` with anything but data sets.
absl::StatusOr<DerivedJob> DeriveJob(const JobSpec& trained, const DerivedJobOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_CLI_DERIVED_JOB_H_
