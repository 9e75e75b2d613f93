// Wakes those who wait for one job, and nobody else.
//
//   JobWatches watches;
//   JobWatch watch(watches, "job-17");
//   ... look at the job ...
//   watch.Wait(/*calm=*/Deadline::After(absl::Milliseconds(100)), Deadline::After(absl::Seconds(1)));
//
//   watches.Note("job-17", JobChange::kState);       // in another thread
//
// A change between two calls of Wait is not lost: the later call returns at once. Any thread may note; a watch is one
// thread's own.
#ifndef ADJOIN_COORDINATOR_SERVICES_JOB_WATCH_H_
#define ADJOIN_COORDINATOR_SERVICES_JOB_WATCH_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "coordinator/decisions/outbox.h"

namespace adjoin {

class JobWatch;

class JobWatches {
 public:
  JobWatches() = default;
  JobWatches(const JobWatches&) = delete;
  JobWatches& operator=(const JobWatches&) = delete;

  void Note(const std::string& job_id, JobChange change);

 private:
  friend class JobWatch;
  absl::Mutex mutex_;
  std::multimap<std::string, JobWatch*> watches_ ABSL_GUARDED_BY(mutex_);  // by job
};

class JobWatch {
 public:
  // `watches` outlives the watch.
  JobWatch(JobWatches& watches, const std::string& job_id);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // Returns when the job's state has changed since the watch was made, or since Wait returned true; when anything of
  // it has, but not before `calm`; or at the deadline, with false. What is not returned for is not forgotten.
  bool Wait(Deadline calm, Deadline deadline);
  // The same without `calm`: any change counts at once.
  bool Wait(Deadline deadline);

 private:
  friend class JobWatches;
  void Note(JobChange change);

  JobWatches& watches_;
  std::multimap<std::string, JobWatch*>::iterator place_;
  absl::Mutex mutex_;
  MonotonicCondition noted_;
  bool state_ ABSL_GUARDED_BY(mutex_) = false;
  bool any_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_JOB_WATCH_H_
