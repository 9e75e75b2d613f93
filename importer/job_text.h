// The job of an imported model, as text for people: one line per layer, and marked where something is to be filled in.
//
//   std::string text = *JobText(model, {.name = "lenet", .weights = "lenet.safetensors"});
#ifndef ADJOIN_IMPORTER_JOB_TEXT_H_
#define ADJOIN_IMPORTER_JOB_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "importer/import_model.h"
#include "proto/job.pb.h"

namespace adjoin {

struct JobTextOptions {
  std::string name;                // of the job, where there is no template
  std::string weights;             // Weights.init_from, in place of the template's source; "": the template's, or none
  std::string archive;             // for the comment
  const JobSpec* frame = nullptr;  // the rest of the job; null: random input, which the job predicts on
};

// A template's losses that name no input get the model's first output.
// Errors: kInvalidArgument: the template has layers of its own; the result is larger than a job may be.
absl::StatusOr<std::string> JobText(const ImportedModel& model, const JobTextOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_JOB_TEXT_H_
