// From the text that a user submits to a job whose plan can be made.
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

// `rules` outlives what is returned. Everything that can be found wrong without the data files is found here.
// Errors: kInvalidArgument (the spec: too large, or wrong; with its place; a plan or an idempotency key that is too large), kUnimplemented
// (what is not supported yet).
absl::StatusOr<NewJob> ReadSubmission(const SubmitRequest& request, const LayerRules& rules);

// Of a plan as it is stored and sent. Errors: kInvalidArgument (it is too large; says of what job and how far).
absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec);

// The same functions for a job that was accepted earlier. Nothing is parsed before they are called.
CoordinationService::SpecFunctions FunctionsOf(const StoredSubmission& submission, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_
