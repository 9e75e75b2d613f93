// Makes a job from the text that a user submits.
//
//   const WithService look = [&](const auto& f) { hub.Look(f); };
//   ADJOIN_ASSIGN_OR_RETURN(NewJob job, ReadNumbered(request, caller.name, planner, [&] { return gone(); }, look));
//   hub.Do([&](CoordinationService& service) { return service.Submit(std::move(job)); });
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_
#define ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/planning/spec_planner.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"
#include "proto/rates.pb.h"

namespace adjoin {

// False where the spec surely names its output_dir. It is not parsed: that is the planners' business.
bool MayLackOutputDir(const SubmitRequest& request);

// What is known of the cluster when a job is read.
struct ReadOptions {
  uint64_t number = 0;                               // as NewJob's
  std::shared_ptr<const RateTable> rates = nullptr;  // as PlanTask's
};

// Every mistake that can be found without the data files is found here. `given_up` as for PlanAndWait.
// Errors: kInvalidArgument (the spec is too large, or wrong, with the location; a plan or an idempotency key is too
// large), kUnimplemented (the spec needs something that is not supported yet); those of PlanDone.
absl::StatusOr<NewJob> ReadSubmission(const SubmitRequest& request, const std::string& owner, SpecPlanner& planner,
                                      const std::function<bool()>& given_up, ReadOptions options = {});

// Runs `f` on the service, alone, before it returns.
using WithService = std::function<void(const std::function<void(CoordinationService& service)>& f)>;

// The same with what the service knows of the cluster, for a job that is submitted next. Where its spec may lack an
// output_dir, the job has a number that was reserved for it: CoordinationService::Submit uses it or gives it back. With
// an error it has been given back. Errors also: kCancelled, where it is given up in the end.
absl::StatusOr<NewJob> ReadNumbered(const SubmitRequest& request, const std::string& owner, SpecPlanner& planner,
                                    const std::function<bool()>& given_up, const WithService& look);

// Returns the places of the fields of a job that was accepted earlier. Nothing is parsed before it is called.
PlaceFunction PlacesOf(const StoredSubmission& submission);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_SPEC_PLANNING_H_
