// The daemons that may still have processes of a job's attempt, and when they have none for certain: the job keeps
// their slots, and does not start again, until then.
//
//   Leases leases(options, jobs, workers, queue, outbox);
//   leases.Release(job, "worker-0", "");                         // the daemon reported that no process is left
//   if (leases.Tick()) ...                                      // some lease ran out
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_LEASES_H_
#define ADJOIN_COORDINATOR_DECISIONS_LEASES_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/worker_table.h"

namespace adjoin {

class Leases {
 public:
  // All arguments outlive the leases.
  Leases(const CoordinationOptions& options, JobTable& jobs, WorkerTable& workers, JobQueue& queue, Outbox& outbox)
      : options_(options), jobs_(jobs), workers_(workers), queue_(queue), outbox_(outbox) {}
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // The worker has no process of the job's attempt any more. `event`: for the job's history; "" for none.
  void Release(JobRecord& job, const std::string& worker, const std::string& event);
  // Another node has the worker's name now: the processes on the node before live until their lease, known since
  // `last_heard`, is over.
  void Orphan(JobRecord& job, const std::string& worker, absl::Duration last_heard);
  // Releases the workers whose lease is over. True where there were any.
  bool Tick();

 private:
  bool TickOrphans();
  bool TickLostWorkers();

  const CoordinationOptions& options_;
  JobTable& jobs_;
  WorkerTable& workers_;
  JobQueue& queue_;
  Outbox& outbox_;
  std::set<uint64_t> orphans_;  // jobs that have a holder with a lease_end, by number
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_LEASES_H_
