#include "coordinator/services/caller_turns.h"

#include <algorithm>
#include <utility>

#include "base/wait_unless_gone.h"

namespace adjoin {

bool CallerTurns::Take(const std::string& caller, const std::function<bool()>& gone) {
  Call call;
  absl::MutexLock lock(&mutex_);
  if (!std::exchange(taken_, true)) return true;
  std::deque<Call*>& calls = waiting_[caller];
  if (calls.empty()) next_.push_back(caller);
  calls.push_back(&call);
  if (WaitUntilGone(call.changed, mutex_, gone, [&call] { return call.has_turn; })) return true;
  StopWaiting(caller, &call);
  return false;
}

void CallerTurns::End() {
  absl::MutexLock lock(&mutex_);
  if (next_.empty()) {
    taken_ = false;
    return;
  }
  const std::string caller = std::move(next_.front());
  next_.pop_front();
  const auto found = waiting_.find(caller);
  Call* call = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    next_.push_back(caller);
  }
  call->has_turn = true;
  call->changed.NotifyAll();
}

void CallerTurns::StopWaiting(const std::string& caller, Call* call) {
  const auto found = waiting_.find(caller);
  std::deque<Call*>& calls = found->second;
  calls.erase(std::find(calls.begin(), calls.end(), call));
  if (!calls.empty()) return;
  waiting_.erase(found);
  next_.erase(std::find(next_.begin(), next_.end(), caller));
}

int CallerTurns::waiting() const {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (const auto& [caller, calls] : waiting_) count += static_cast<int>(calls.size());
  return count;
}

}  // namespace adjoin
