// Looks again and again whether the server of an open call is still trusted.
//
//   ServerCheck check;
//   ADJOIN_ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(coordinator, tls, token_file, &check));
//   const auto begun = Deadline::Clock::now();
//   ... a channel, and a call with its context ...
//   ServerWatch watch(check, begun, [&](const absl::Status& why) { context.TryCancel(); });
//   while (stream->Read(&message)) ...
#ifndef ADJOIN_BASE_SECURITY_SERVER_WATCH_H_
#define ADJOIN_BASE_SECURITY_SERVER_WATCH_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

// Judges again the server that was let in last with some credentials, where that was since then: give the time before
// the channel was made. Errors: kUnauthenticated (it would not be let in any more). Any thread.
using ServerCheck = std::function<absl::Status(Deadline::Clock::time_point since)>;

class ServerWatch {
 public:
  // Calls `over` with the error of the first check that fails, on a thread of the watch's own, and never after the
  // destructor has returned. An empty `check` never fails. `look`: from one check to the next.
  ServerWatch(ServerCheck check, Deadline::Clock::time_point since, std::function<void(const absl::Status& why)> over,
              absl::Duration look = absl::Seconds(1)) {
    if (check == nullptr) return;
    thread_ = std::thread([this, check = std::move(check), since, over = std::move(over), look] {
      absl::Status status;
      while (status.ok()) {
        if (EndsWithin(look)) return;
        status = check(since);
      }
      over(status);
    });
  }
  ~ServerWatch() {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

 private:
  bool EndsWithin(absl::Duration time) {
    absl::MutexLock lock(&mutex_);
    return changed_.Wait(mutex_, Deadline::After(time),
                         [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
  }

  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_SERVER_WATCH_H_
