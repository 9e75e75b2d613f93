// Traces that users ask of jobs that run: which may be asked for, and the order to the daemon of rank 0.
//
//   ADJOIN_RETURN_IF_ERROR(traces.Ask(job, {.request_id = "7f3a", .steps = 5}));
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_TRACES_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_TRACES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/worker_table.h"

namespace adjoin {

struct TraceOrder {
  std::string request_id;
  uint32_t steps = 0;
};

class JobTraces {
 public:
  static constexpr uint32_t kMostSteps = 1000;
  static constexpr size_t kMostIdBytes = 64;
  // An order of which the rank has said nothing for so long may be lost, and another one may be given.
  static constexpr absl::Duration kAnswerTime = absl::Seconds(60);

  // All arguments outlive this.
  JobTraces(const CoordinationOptions& options, WorkerTable& workers, Outbox& outbox)
      : options_(options), workers_(workers), outbox_(outbox) {}
  JobTraces(const JobTraces&) = delete;
  JobTraces& operator=(const JobTraces&) = delete;

  // The same request again changes nothing.
  // Errors: kInvalidArgument (steps; an id that is none), kFailedPrecondition (the job does not train, or not now; a
  // trace of it is being made), kUnavailable (the worker of rank 0 is not connected).
  absl::Status Ask(JobRecord& job, const TraceOrder& order);

 private:
  const CoordinationOptions& options_;
  WorkerTable& workers_;
  Outbox& outbox_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_TRACES_H_
