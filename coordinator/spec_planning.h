// From the text that a user submits to a PlanFunction.
//
//   ADJOIN_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(request, rules));
//   service.Submit(submission.spec, submission.plan, submission.place_of);
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SPEC_PLANNING_H_
#define ADJOIN_COORDINATOR_SPEC_PLANNING_H_

#include "absl/status/statusor.h"
#include "coordinator/job_table.h"
#include "layers/plan/layer_rule.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct Submission {
  JobSpec spec;
  PlanFunction plan;
  PlaceFunction place_of;
};

// `rules` outlives what is returned. Everything that can be found wrong without the data files is found here.
// Errors: kInvalidArgument (the spec: too large, or wrong; with its place), kUnimplemented (what is not supported yet).
absl::StatusOr<Submission> ReadSubmission(const SubmitRequest& request, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SPEC_PLANNING_H_
