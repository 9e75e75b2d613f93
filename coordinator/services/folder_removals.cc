#include "coordinator/services/folder_removals.h"

#include <utility>

#include "base/wait_unless_gone.h"

namespace adjoin {

void FolderRemovals::Open(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  open_[request_id] = std::nullopt;
}

absl::StatusOr<FoldersRemoved> FolderRemovals::Await(const std::string& request_id, Deadline deadline,
                                                     const std::function<bool()>& given_up) {
  absl::MutexLock lock(&mutex_);
  const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto request = open_.find(request_id);
    return request == open_.end() || request->second.has_value();
  };
  WaitUnlessGone(changed_, mutex_, deadline, given_up, over);
  const auto request = open_.find(request_id);
  std::optional<FoldersRemoved> answer;
  if (request != open_.end()) {
    answer = std::move(request->second);
    open_.erase(request);
  }
  if (!answer.has_value()) return absl::DeadlineExceededError("no answer came in time");
  return *std::move(answer);
}

void FolderRemovals::Answer(const FoldersRemoved& answer) {
  {
    absl::MutexLock lock(&mutex_);
    const auto request = open_.find(answer.request_id());
    if (request == open_.end()) return;
    request->second = answer;
  }
  changed_.NotifyAll();
}

}  // namespace adjoin
