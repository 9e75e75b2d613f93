// Which of the jobs that wait starts next, and on which workers.
//
//   JobQueue queue(options, jobs, workers, homes, outbox);
//   queue.Wake();                                              // slots became free, or a job came
//   queue.Schedule([&](JobRecord& job, const Assignment& workers) { attempts.Start(job, workers); });
//
// Jobs start in the order of the queue. Behind the first that finds no slots, others start only where they cannot
// delay it (backfill.h). Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_QUEUE_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_QUEUE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/backfill.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/start_failures.h"
#include "coordinator/decisions/worker_table.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

class JobQueue {
 public:
  // All arguments outlive the queue.
  JobQueue(const CoordinationOptions& options, JobTable& jobs, const WorkerTable& workers, const CheckpointHomes& homes,
           const StartFailures& starts, Outbox& outbox)
      : options_(options), jobs_(jobs), workers_(workers), homes_(homes), starts_(starts), outbox_(outbox) {}
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // Something changed that may let a job start: the next Schedule looks through the queue.
  void Wake() { awake_ = true; }
  bool awake() const { return awake_; }
  // Wakes the queue where the backoff of a job is over.
  void Tick();

  // Calls `start` for each job that starts now; the slots of the job are held when it returns.
  void Schedule(const std::function<void(JobRecord& job, const Assignment& workers)>& start);
  // The first job of the queue that could not start for want of slots; "" where there is none.
  const std::string& blocked_head() const { return blocked_head_; }

  // While the queue is closed, no job starts. Open returns for how long it was closed.
  void Close(const std::string& why);
  absl::Duration Open();
  bool is_open() const { return open_; }
  const std::string& why_closed() const { return why_closed_; }

  // The job has ended, in this state, and waits for nothing more.
  void End(JobRecord& job, JobState state, const std::string& reason);

 private:
  // The workers for the job's next attempt: rather none on which it failed to start. Sets `avoids` where the job keeps
  // away from some for now. Errors: those of Assign.
  // `behind`: where the job is not the first of the queue, what it may take.
  absl::StatusOr<Assignment> Choose(const JobRecord& job, const Backfill* behind, bool* avoids);
  // What jobs behind `head` may take.
  Backfill BackfillBehind(const JobRecord& head) const;

  const CoordinationOptions& options_;
  JobTable& jobs_;
  const WorkerTable& workers_;
  const CheckpointHomes& homes_;
  const StartFailures& starts_;
  Outbox& outbox_;
  bool awake_ = false;
  absl::Duration wake_at_ = absl::InfiniteDuration();  // a job's backoff is over then
  std::string blocked_head_;
  bool open_ = true;
  std::string why_closed_;
  absl::Duration closed_at_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_QUEUE_H_
