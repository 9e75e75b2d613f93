// CoordinationService under a lock, joined to the store and to the daemons: a decision is first committed, then sent.
//
//   Hub hub(options, store.get(), [&](const std::string& job_id) { logs.Remove(job_id).IgnoreError(); });
//   absl::StatusOr<Submitted> job = hub.DoDurably([&](CoordinationService& service) { return service.Submit(...); },
//   deadline); uint64_t seen = hub.changes();
//   ... look ...;  hub.WaitForChange(seen, Deadline::After(absl::Milliseconds(200)));
//
// One thread commits: all changes since the last commit go into one transaction, so many callers share a disk's
// flush. Where the store cannot be written (a full disk), new jobs are refused, no job starts, jobs that run go on,
// and the commit is tried again until it succeeds. Another thread makes plans, without the lock. Any thread may call.
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
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "coordinator/decisions/coordination_service.h"
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
  // `store` outlives the hub. `state` is its content; `functions` as for CoordinationService::Restore. `on_forgotten`
  // is called with each job that the service has forgotten.
  Hub(CoordinationOptions options, Store* store, StoredState state,
      const std::function<CoordinationService::SpecFunctions(const StoredSubmission&)>& functions,
      std::function<void(const std::string& job_id)> on_forgotten);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Runs `f` on the service, alone. The decisions that follow are committed and sent soon.
  template <typename F>
  auto Do(F f) {
    return DoAnd(f, /*always_wake=*/true);
  }
  // The same for heartbeats, which are many: wakes those who wait for changes only where there is something to store.
  template <typename F>
  auto DoQuietly(F f) {
    return DoAnd(f, /*always_wake=*/false);
  }

  // For an `f` that returns a Status or StatusOr: returns when its effects are in the store.
  // Errors also: kUnavailable (they cannot be written now; with the reason).
  template <typename F>
  auto DoDurably(F f, Deadline deadline) -> decltype(f(std::declval<CoordinationService&>())) {
    uint64_t upto = 0;
    auto result = [&] {
      absl::MutexLock lock(&mutex_);
      auto made = f(service_);
      Collect();
      upto = collected_;
      return made;
    }();
    if (!result.ok()) return result;
    if (absl::Status kept = WaitUntilCommitted(upto, deadline); !kept.ok()) return kept;
    return result;
  }

  // For an `f` that changes nothing. The state that it sees may not be in the store yet.
  template <typename F>
  auto Look(F f) {
    absl::MutexLock lock(&mutex_);
    return f(service_);
  }

  // The same, but the state that `f` saw is in the store when this returns, so that no crash takes it back. Where the
  // store cannot be written, it returns all the same after a moment.
  template <typename F>
  auto LookAtCommitted(F f) {
    uint64_t upto = 0;
    auto result = [&] {
      absl::MutexLock lock(&mutex_);
      upto = collected_;
      return f(service_);
    }();
    WaitUntilCommitted(upto, Deadline::After(kLookTimeout)).IgnoreError();
    return result;
  }

  // Connects a daemon's stream. `connection` stays until Detach has returned.
  ConnectionId Attach(DaemonConnection* connection);
  void Detach(ConnectionId id);
  // Returns false when the daemon is not connected any more.
  bool SendTo(ConnectionId id, CoordinatorMessage message);

  uint64_t changes();
  // Returns when there was a change after `seen`, or at the deadline.
  void WaitForChange(uint64_t seen, Deadline deadline);
  // Call it for a change outside of the service: log lines.
  void NoteChange();

  // The seconds that commits took. Any thread.
  const prometheus::Histogram& commit_seconds() const { return commit_seconds_; }

 private:
  static constexpr absl::Duration kLookTimeout = absl::Seconds(2);

  template <typename F>
  auto DoAnd(F f, bool always_wake) {
    absl::MutexLock lock(&mutex_);
    // The collection runs after the return value is made and before the lock is released.
    struct AtExit {
      Hub* hub;
      bool always_wake;
      ~AtExit() { hub->Collect(always_wake); }
    } collect{this, always_wake};
    return f(service_);
  }

  void Collect(bool always_wake = true) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dispatch(std::vector<Action>& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitUntilCommitted(uint64_t upto, Deadline deadline);
  void CommitUntilStopped();
  void CommitOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AfterFailedCommit(const absl::Status& error, uint64_t upto) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AttachPlans(std::vector<Action>& actions);
  void PlanUntilStopped();
  void TickUntilStopped();

  // Waits by the monotonic clock, which absl's own waits do not use.
  template <typename Condition>
  bool Wait(MonotonicCondition& wake, absl::Duration limit, Condition holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return wake.Wait(mutex_, Deadline::After(limit), holds);
  }

  Store* const store_;
  const std::function<void(const std::string&)> on_forgotten_;
  absl::Mutex mutex_;
  MonotonicCondition work_;     // something to commit or to plan, or the end
  MonotonicCondition tick_;     // the end
  MonotonicCondition changed_;  // changes_count_, committed_ or failed_
  CoordinationService service_ ABSL_GUARDED_BY(mutex_);
  std::map<ConnectionId, DaemonConnection*> links_ ABSL_GUARDED_BY(mutex_);
  ConnectionId last_connection_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t changes_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Collected and not yet in the store.
  StoreChanges uncommitted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Action> held_actions_ ABSL_GUARDED_BY(mutex_);
  uint64_t collected_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // the last collection that was part of a commit that failed
  absl::Status store_health_ ABSL_GUARDED_BY(mutex_);
  prometheus::Histogram commit_seconds_;

  std::deque<PlanRequest> plan_requests_ ABSL_GUARDED_BY(mutex_);
  std::thread clock_, committer_, planner_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_HUB_H_
