#include "coordinator/page/request_pool.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/caught.h"
#include "base/logging.h"

namespace adjoin {

RequestPool::RequestPool(const Options& options) : options_(options) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { WorkUntilStopped(); });
}

bool RequestPool::Add(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || tasks_.size() >= options_.waiting) return false;
  tasks_.push_back(std::move(task));
  added_.Signal();
  return true;
}

void RequestPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    added_.SignalAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void RequestPool::WorkUntilStopped() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) added_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    const absl::Status status = Caught("a request of a browser", [&] {
      task();
      return absl::OkStatus();
    });
    if (!status.ok()) LogError(std::string(status.message()));
  }
}

}  // namespace adjoin
