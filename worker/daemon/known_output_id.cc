#include "worker/daemon/known_output_id.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/logging.h"

namespace adjoin {

void KnownOutputId::Look() {
  {
    absl::MutexLock lock(&mutex_);
    if (looking_) return;
    looking_ = true;
  }
  const auto found = std::make_shared<std::string>();
  const auto read = [found, read = read_]() -> absl::Status {
    absl::StatusOr<std::string> id = read();
    if (!id.ok()) return id.status();
    *found = *std::move(id);
    return absl::OkStatus();
  };
  const auto done = [this, found](const absl::Status& status) {
    std::string error(status.message());
    {
      absl::MutexLock lock(&mutex_);
      looking_ = false;
      if (status.ok()) id_ = *found;
      last_error_.swap(error);
      if (last_error_ != error && !last_error_.empty()) {
        LogWarning(absl::StrCat(last_error_, ": with which other nodes this one shares its --output-root is ",
                                id_.empty() ? "not known" : "as it was"));
      }
    }
    changed_.NotifyAll();
  };
  if (calls_.Call(read, done)) return;
  absl::MutexLock lock(&mutex_);
  looking_ = false;  // no thread for it now
}

std::string KnownOutputId::LookAgain(absl::Duration wait) {
  Look();
  absl::MutexLock lock(&mutex_);
  changed_.Wait(mutex_, Deadline::After(wait), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !looking_; });
  return id_;
}

std::string KnownOutputId::Get() {
  {
    absl::MutexLock lock(&mutex_);
    if (!id_.empty()) return id_;
  }
  Look();
  absl::MutexLock lock(&mutex_);
  return id_;
}

}  // namespace adjoin
