// Traces that are asked of a job while it runs, on their way from the thread that hears of them to the session's.
//
//   TraceRequests requests;
//   requests.Ask({.id = "7f3a", .steps = 5});                          // any thread
//   if (std::optional<TraceRequests::Request> asked = requests.Take()) ...
//
// Any thread. Rank 0's only: it tells the other ranks.
#ifndef ADJOIN_WORKER_SESSION_TRACE_REQUESTS_H_
#define ADJOIN_WORKER_SESSION_TRACE_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

class TraceRequests {
 public:
  struct Request {
    std::string id;
    uint32_t steps = 0;
  };

  // Takes the place of one that was not taken yet.
  void Ask(Request request) {
    absl::MutexLock lock(&mutex_);
    request_ = std::move(request);
  }

  std::optional<Request> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(request_, std::nullopt);
  }

 private:
  absl::Mutex mutex_;
  std::optional<Request> request_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_TRACE_REQUESTS_H_
