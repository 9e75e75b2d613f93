// Makes a job that can be planned from the text that a user submits.
//
//   ADJOIN_ASSIGN_OR_RETURN(NewJob job, ReadSubmission(request, rules));
//   job.owner = caller.name;
//   service.Submit(std::move(job));
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_
#define ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/store/store.h"
#include "layers/rules/layer_rule.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// `rules` outlives the result. Every mistake that can be found without the data files is found here.
// Errors: kInvalidArgument (the spec is too large, or wrong, with the location; a plan or an idempotency key is too
// large), kUnimplemented (the spec needs something that is not supported yet).
absl::StatusOr<NewJob> ReadSubmission(const SubmitRequest& request, const LayerRules& rules);

// Checks the size of a plan as it is stored and sent. Errors: kInvalidArgument (too large; names the size of the job
// and the limit).
absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec);

// Returns the functions of a job that was accepted earlier. Nothing is parsed before they are called.
CoordinationService::SpecFunctions FunctionsOf(const StoredSubmission& submission, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_
