#include "worker/daemon/detached_calls.h"

#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

void RunOnThread(std::function<void()> run) { std::thread(std::move(run)).detach(); }

}  // namespace

DetachedCalls::DetachedCalls(size_t most, StartThread start_thread)
    : most_(most), start_thread_(start_thread != nullptr ? std::move(start_thread) : StartThread(RunOnThread)) {}

DetachedCalls::~DetachedCalls() {
  absl::MutexLock lock(&shared_->mutex);
  shared_->closed = true;
}

absl::Status DetachedCalls::Call(std::function<absl::Status()> call, std::function<void(const absl::Status&)> done) {
  if (shared_->running.fetch_add(1) >= most_) {
    --shared_->running;
    return absl::ResourceExhaustedError(absl::StrCat(most_, " calls are under way already"));
  }
  try {
    start_thread_([shared = shared_, call = std::move(call), done = std::move(done)] {
      const absl::Status status = call();
      --shared->running;
      absl::MutexLock lock(&shared->mutex);
      if (!shared->closed) done(status);
    });
  } catch (const std::system_error& error) {  // no memory, or too many threads
    --shared_->running;
    return absl::UnavailableError(absl::StrCat("no thread can be started: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
