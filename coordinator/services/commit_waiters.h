// Those who wait until what they collected is in the store. A commit wakes those that it was for, and nobody else; what
// it told them they read without the lock of the hub.
//
//   CommitWaiters waiters;                                    // guarded by a lock of the owner
//   std::shared_ptr<CommitWaiter> waiter = waiters.Add(/*upto=*/17);
//   ... without that lock: absl::Status status = waiter->Wait(deadline);
//
//   waiters.Tell(/*upto=*/20, absl::OkStatus());              // after the commit, under it
#ifndef ADJOIN_COORDINATOR_SERVICES_COMMIT_WAITERS_H_
#define ADJOIN_COORDINATOR_SERVICES_COMMIT_WAITERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class CommitWaiter {
 public:
  // Errors: what Tell was given; kDeadlineExceeded.
  absl::Status Wait(Deadline deadline) {
    absl::MutexLock lock(&mutex_);
    const auto told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return told_.has_value(); };
    if (!told_wake_.Wait(mutex_, deadline, told)) return absl::DeadlineExceededError("no commit ended");
    return *told_;
  }

 private:
  friend class CommitWaiters;
  void Tell(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      told_ = status;
    }
    told_wake_.NotifyAll();
  }
  absl::Mutex mutex_;
  MonotonicCondition told_wake_;
  std::optional<absl::Status> told_ ABSL_GUARDED_BY(mutex_);
};

// Not thread-safe.
class CommitWaiters {
 public:
  std::shared_ptr<CommitWaiter> Add(uint64_t upto) {
    return waiters_.emplace(upto, std::make_shared<CommitWaiter>())->second;
  }
  // The collections up to this one are in the store, or (an error) could not be written.
  void Tell(uint64_t upto, const absl::Status& status) {
    const auto end = waiters_.upper_bound(upto);
    for (auto it = waiters_.begin(); it != end; ++it) it->second->Tell(status);
    waiters_.erase(waiters_.begin(), end);
  }

 private:
  std::multimap<uint64_t, std::shared_ptr<CommitWaiter>> waiters_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_COMMIT_WAITERS_H_
