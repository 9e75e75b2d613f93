#include "coordinator/page/request_pool.h"

#include <utility>

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
    task();
  }
}

}  // namespace adjoin
