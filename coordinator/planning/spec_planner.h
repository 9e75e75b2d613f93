// Makes plans of specs that users wrote, away from the caller's thread.
//
//   const PlanTask task = {.owner = "alice", .name = "job.textproto", .spec = written};
//   ADJOIN_ASSIGN_OR_RETURN(PlanAnswer answer, PlanAndWait(planner, task, [&] { return context->IsCancelled(); }));
//
//   ADJOIN_ASSIGN_OR_RETURN(uint64_t ticket, planner.Start(task, [](absl::StatusOr<PlanAnswer> answer) { ... }));
//   planner.GiveUp(ticket);
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_PLANNING_SPEC_PLANNER_H_
#define ADJOIN_COORDINATOR_PLANNING_SPEC_PLANNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/planning/planning.pb.h"
#include "proto/plan.pb.h"
#include "proto/rates.pb.h"

namespace adjoin {

struct PlanTask {
  std::string owner;                          // whose share of the planners it uses
  std::string name;                           // in messages: "job.textproto", "job-17"
  std::shared_ptr<const SubmittedSpec> spec;  // not null
  // Absent: the sizes of the data sets have yet to be known. The spec is checked; where its folder is known, it is also
  // planned if it reads no file, or (PlanAnswer.expected_size) files like those of a job that was planned before.
  std::optional<std::vector<DatasetSize>> sizes;
  std::string output_dir;  // of the job, where the spec has none; "": not known yet
  std::string weights;     // where those of weights.from_job are, below the output root; "": not known yet
  std::optional<FileSums> weights_file = std::nullopt;  // of the file of weights, where a worker has read it
  std::shared_ptr<const RateTable> rates = nullptr;     // of the nodes, as most have measured; null: none has
  bool accepted = false;                                // of a job that was accepted: no limit of the queue holds
  bool as_if_unseen = false;  // is not planned for the sizes that the files of an earlier job had
  std::shared_ptr<const std::string> picture_of = nullptr;  // a serialized Plan: its picture is asked for, and no plan
};

// The errors are those of the spec (kInvalidArgument, kUnimplemented), kResourceExhausted (too many of the owner's
// plans wait; it takes more memory than a plan may), kDeadlineExceeded (it takes longer than a plan may), kInternal
// (the planner failed on it, and did so again), kUnavailable (no planner can be started) and kCancelled (the planners
// were stopped, or the task was given up: nothing is known of the spec).
using PlanDone = std::function<void(absl::StatusOr<PlanAnswer> answer)>;

class SpecPlanner {
 public:
  virtual ~SpecPlanner() = default;
  // Returns a ticket for GiveUp. `done` is called once, on a thread of the planner's own, without any lock of its.
  // Errors: kResourceExhausted (see PlanDone); kCancelled (the planners were stopped). `done` is not called then.
  virtual absl::StatusOr<uint64_t> Start(PlanTask task, PlanDone done) = 0;
  // Nobody needs the plan any more: `done` may be called, or not. A ticket that is not known is ignored.
  virtual void GiveUp(uint64_t ticket) = 0;
  // Ends what is under way; `done` is called with kCancelled for all that was not done. No call of any `done` is under
  // way when it has returned. Nothing can be started afterwards.
  virtual void Stop() = 0;
};

// Returns the answer, or one of the errors of PlanDone. `given_up` is asked several times a second; when it returns
// true, the task is given up: kCancelled.
absl::StatusOr<PlanAnswer> PlanAndWait(SpecPlanner& planner, PlanTask task, const std::function<bool()>& given_up);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_SPEC_PLANNER_H_
