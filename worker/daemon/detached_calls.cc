#include "worker/daemon/detached_calls.h"

#include <system_error>
#include <thread>
#include <utility>

namespace adjoin {

DetachedCalls::~DetachedCalls() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->closed = true;
}

bool DetachedCalls::Call(std::function<absl::Status()> call, std::function<void(const absl::Status&)> done) {
  if (shared_->running.fetch_add(1) < most_) {
    try {
      std::thread([shared = shared_, call = std::move(call), done = std::move(done)] {
        const absl::Status status = call();
        --shared->running;
        absl::MutexLock lock(&shared->mutex);
        if (!shared->closed) done(status);
      }).detach();
      return true;
    } catch (const std::system_error&) {  // no memory, or too many threads
    }
  }
  --shared_->running;
  return false;
}

}  // namespace adjoin
