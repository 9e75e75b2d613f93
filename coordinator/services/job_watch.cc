#include "coordinator/services/job_watch.h"

namespace adjoin {

void JobWatches::Note(const std::string& job_id, JobChange change) {
  absl::MutexLock lock(&mutex_);
  auto [it, end] = watches_.equal_range(job_id);
  for (; it != end; ++it) it->second->Note(change);
}

JobWatch::JobWatch(JobWatches& watches, const std::string& job_id) : watches_(watches) {
  absl::MutexLock lock(&watches_.mutex_);
  place_ = watches_.watches_.emplace(job_id, this);
}

JobWatch::~JobWatch() {
  absl::MutexLock lock(&watches_.mutex_);
  watches_.watches_.erase(place_);
}

void JobWatch::Note(JobChange change) {
  {
    absl::MutexLock lock(&mutex_);
    any_ = true;
    if (change == JobChange::kState) state_ = true;
  }
  noted_.NotifyAll();
}

bool JobWatch::Wait(Deadline calm, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  const auto state = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_; };
  const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return any_; };
  const bool calm_first = calm.when() <= deadline.when();
  noted_.Wait(mutex_, calm_first ? calm : deadline, state);
  if (!state_ && (!calm_first || !noted_.Wait(mutex_, deadline, any))) return false;
  any_ = state_ = false;
  return true;
}

bool JobWatch::Wait(Deadline deadline) {
  const Deadline now = Deadline::After(absl::ZeroDuration());
  return Wait(now.when() < deadline.when() ? now : deadline, deadline);
}

}  // namespace adjoin
