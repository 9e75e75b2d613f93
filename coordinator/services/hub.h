// CoordinationService under a lock, joined to the store and to the daemons: a decision is first committed, then sent.
//
//   Hub hub(options, store.get(), &planner, std::move(stored_state), place_of,
//           [&](const std::string& job_id) { logs.Remove(job_id).IgnoreError(); });
//   absl::StatusOr<Submitted> job = hub.DoDurably([&](CoordinationService& service) { return service.Submit(...); },
//   deadline);
//   JobWatch watch(hub.watches(), job->job_id);
//   ... look ...;  watch.Wait(Deadline::After(absl::Milliseconds(200)));
//
// One thread commits: all changes since the last commit go into one transaction, so many callers share a disk's
// flush. Where the store cannot be written (a full disk), new jobs are refused, no job starts, jobs that run go on,
// and the commit is tried again until it succeeds. Where it refuses the rows of one job, that job is refused or fails.
// Plans are made by a SpecPlanner, without the lock. Any thread may call.
#ifndef ADJOIN_COORDINATOR_SERVICES_HUB_H_
#define ADJOIN_COORDINATOR_SERVICES_HUB_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/planning/spec_planner.h"
#include "coordinator/services/caller_turns.h"
#include "coordinator/services/commit_waiters.h"
#include "coordinator/services/job_watch.h"
#include "coordinator/store/apply_by_job.h"
#include "coordinator/store/store.h"
#include "prometheus/histogram.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// One daemon's stream, as the hub sees it.
class DaemonConnection {
 public:
  virtual ~DaemonConnection() = default;
  // Neither blocks nor calls back.
  virtual void Send(CoordinatorMessage message) = 0;
  // Breaks the stream off.
  virtual void Break() = 0;
};

class Hub {
 public:
  // `store` and `planner` outlive the hub; its end stops `planner`. `state` is the store's content; `place_of` as for
  // CoordinationService::Restore. `on_forgotten` is called with each job that the service has forgotten.
  Hub(CoordinationOptions options, Store* store, SpecPlanner* planner, StoredState state,
      const CoordinationService::PlaceFunctions& place_of, std::function<void(const std::string& job_id)> on_forgotten);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Runs `f` on the service, alone. The decisions that follow are committed and sent soon.
  template <typename F>
  auto Do(F f) {
    absl::MutexLock lock(&mutex_);
    // The collection runs after the return value is made and before the lock is released.
    struct AtExit {
      Hub* hub;
      ~AtExit() { hub->Collect(); }
    } collect{this};
    return f(service_);
  }

  // For an `f` that returns a Status or StatusOr: returns when its effects are in the store.
  // Errors also: kUnavailable (they cannot be written now; with the reason).
  template <typename F>
  auto DoDurably(F f, Deadline deadline) -> decltype(f(std::declval<CoordinationService&>())) {
    std::shared_ptr<CommitWaiter> waiter;
    auto result = [&] {
      absl::MutexLock lock(&mutex_);
      auto made = f(service_);
      Collect();
      if (made.ok()) waiter = AwaitCollected();
      return made;
    }();
    if (!result.ok()) return result;
    if (absl::Status kept = Committed(waiter.get(), deadline); !kept.ok()) return kept;
    return result;
  }

  // For an `f` that changes nothing which is to be stored or sent. The state that it sees may not be in the store yet.
  template <typename F>
  auto Look(F f) {
    absl::MutexLock lock(&mutex_);
    return f(service_);
  }

  // The same, but the state that `f` saw is in the store when this returns, so that no crash takes it back. Where the
  // store cannot be written, it returns all the same after a moment.
  template <typename F>
  auto LookAtCommitted(F f) {
    std::shared_ptr<CommitWaiter> waiter;
    auto result = [&] {
      absl::MutexLock lock(&mutex_);
      waiter = AwaitCollected();
      return f(service_);
    }();
    Committed(waiter.get(), Deadline::After(kLookTimeout)).IgnoreError();
    return result;
  }

  // For an `f` that looks at much and changes nothing: calls it until it returns true, and leaves the lock free between
  // two calls for as long as the first of them held it, so that nothing else waits for more than one of them. Callers
  // take turns, and a call ends early when it is `gone`. The state that it sees may not be in the store yet.
  template <typename F>
  void Browse(const std::string& caller, const std::function<bool()>& gone, F f) {
    const CallerTurns::Turn turn(browsers_, caller, gone);
    for (bool complete = !turn.taken(); !complete && !gone();) {
      Deadline::Clock::duration held;
      {
        absl::MutexLock lock(&mutex_);
        const Deadline::Clock::time_point begin = Deadline::Clock::now();
        complete = f(service_);
        held = Deadline::Clock::now() - begin;
      }
      if (!complete) absl::SleepFor(absl::FromChrono(held));
    }
  }
  // What was seen before is in the store when this returns, as with LookAtCommitted.
  void AwaitCommit() {
    LookAtCommitted([](CoordinationService&) { return true; });
  }

  // Connects a daemon's stream. `connection` stays until Detach has returned.
  ConnectionId Attach(DaemonConnection* connection);
  void Detach(ConnectionId id);
  // Returns false when the daemon is not connected any more.
  bool SendTo(ConnectionId id, CoordinatorMessage message);

  // Wakes those who wait for a job. A change outside of the service, as log lines are, is for its maker to note.
  JobWatches& watches() { return watches_; }

  // The seconds that commits took. Any thread.
  const prometheus::Histogram& commit_seconds() const { return commit_seconds_; }

 private:
  static constexpr absl::Duration kLookTimeout = absl::Seconds(2);

  // Leaves the lines to the thread that writes the log.
  void Tell(std::vector<Note> notes);
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dispatch(std::vector<Action>& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null where all that was collected is in the store.
  std::shared_ptr<CommitWaiter> AwaitCollected() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status Committed(CommitWaiter* waiter, Deadline deadline);
  void CommitUntilStopped();
  void CommitOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These jobs' rows cannot be written: submissions are refused, others fail.
  void TakeOutRefused(const std::vector<RefusedJob>& refused, const std::vector<StoredSubmission>& submissions,
                      std::vector<Action>& actions, std::vector<Note>& notes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AfterFailedCommit(const absl::Status& error, uint64_t upto) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AttachPlans(std::vector<Action>& actions);
  void StartPlan(PlanRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `ticket` is guarded by the lock as well.
  void OnPlanned(const std::string& job_id, const uint64_t& ticket, absl::StatusOr<PlanAnswer> answer);
  void TickUntilStopped();
  void WriteNotesUntilStopped();

  // Waits by the monotonic clock, which absl's own waits do not use.
  template <typename Condition>
  bool Wait(MonotonicCondition& wake, absl::Duration limit, Condition holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return wake.Wait(mutex_, Deadline::After(limit), holds);
  }

  Store* const store_;
  SpecPlanner* const planner_;
  const std::function<void(const std::string&)> on_forgotten_;
  CallerTurns browsers_;
  absl::Mutex mutex_;
  MonotonicCondition work_;  // something to commit, or the end
  MonotonicCondition tick_;  // the end
  CoordinationService service_ ABSL_GUARDED_BY(mutex_);
  std::map<ConnectionId, DaemonConnection*> links_ ABSL_GUARDED_BY(mutex_);
  ConnectionId last_connection_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Collected and not yet in the store.
  StoreChanges uncommitted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Action> held_actions_ ABSL_GUARDED_BY(mutex_);
  std::vector<Note> held_notes_ ABSL_GUARDED_BY(mutex_);  // of jobs that are not in the store yet
  uint64_t collected_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // the last collection that was part of a commit that failed
  CommitWaiters commit_waiters_ ABSL_GUARDED_BY(mutex_);
  absl::Status store_health_ ABSL_GUARDED_BY(mutex_);
  prometheus::Histogram commit_seconds_;

  std::map<std::string, uint64_t> plans_ ABSL_GUARDED_BY(mutex_);  // tickets of those under way, by job id
  // For the log, which is written without the lock: whoever reads it may be slow.
  absl::Mutex notes_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  MonotonicCondition noted_;
  std::deque<Note> notes_ ABSL_GUARDED_BY(notes_mutex_);
  uint64_t notes_lost_ ABSL_GUARDED_BY(notes_mutex_) = 0;
  bool notes_end_ ABSL_GUARDED_BY(notes_mutex_) = false;

  JobWatches watches_;
  std::thread clock_, committer_, scribe_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_HUB_H_
