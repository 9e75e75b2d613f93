#include "worker/checkpoint/background_task.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"
#include "primitives/status_exception.h"

namespace adjoin {

struct BackgroundTask::State {
  absl::Mutex mutex;
  MonotonicCondition changed;
  bool done = false;
  absl::Status result;

  void End(absl::Status status) {
    {
      absl::MutexLock lock(&mutex);
      result = std::move(status);
      done = true;
    }
    changed.NotifyAll();
  }
};

namespace {

// Destroys the work, with all that it owns, before its result can be taken.
absl::Status Do(std::function<absl::Status()> work) {
  try {
    return work();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace

BackgroundTask::~BackgroundTask() {
  Wait(Deadline::After(absl::Seconds(kFarewellSeconds)));
  GiveUp();
}

void BackgroundTask::Start(std::function<absl::Status()> work) {
  GiveUp();
  state_ = std::make_shared<State>();
  try {
    thread_ = std::thread([state = state_, work = std::move(work)]() mutable {
      absl::Status result = Do(std::move(work));
      state->End(std::move(result));
    });
  } catch (const std::system_error& error) {
    state_->End(absl::ResourceExhaustedError(absl::StrCat("no thread: ", error.what())));
  } catch (...) {
    state_->End(StatusFromCurrentException());
  }
}

bool BackgroundTask::Wait(Deadline deadline) {
  if (state_ == nullptr) return true;
  absl::MutexLock lock(&state_->mutex);
  return state_->changed.Wait(state_->mutex, deadline, [this] { return state_->done; });
}

std::optional<absl::Status> BackgroundTask::TakeResult() {
  if (state_ == nullptr) return std::nullopt;
  absl::MutexLock lock(&state_->mutex);
  if (!state_->done) return std::nullopt;
  return state_->result;
}

void BackgroundTask::GiveUp() {
  if (!thread_.joinable()) return;
  if (Wait(Deadline::After(absl::ZeroDuration()))) {
    thread_.join();  // at its very end
  } else {
    thread_.detach();
  }
  state_.reset();
}

}  // namespace adjoin
