// The threads that answer requests, and the short queue before them.
//
//   RequestPool pool({.threads = 8, .waiting = 64});
//   if (!pool.Add([=] { answer(request); })) ... 503 ...
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_REQUEST_POOL_H_
#define ADJOIN_COORDINATOR_PAGE_REQUEST_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

class RequestPool {
 public:
  struct Options {
    int threads = 8;
    size_t waiting = 64;
  };
  explicit RequestPool(const Options& options);
  ~RequestPool() { Stop(); }
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Returns false where as many wait already, or after Stop: `task` is not called then.
  bool Add(std::function<void()> task);
  // Returns when all tasks that were added are done.
  void Stop();

 private:
  void WorkUntilStopped();

  const Options options_;
  absl::Mutex mutex_;
  absl::CondVar added_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_REQUEST_POOL_H_
