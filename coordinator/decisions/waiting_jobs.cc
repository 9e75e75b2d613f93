#include "coordinator/decisions/waiting_jobs.h"

#include <limits>

namespace adjoin {

void WaitingJobs::Add(JobRecord& job) {
  if (!all_.insert({KeyOf(job), &job}).second) return;
  levels_[KeyOf(job).first][job.owner].insert({job.number, &job});
  ++counts_[job.owner];
}

void WaitingJobs::Remove(const JobRecord& job) {
  if (!all_.erase(KeyOf(job))) return;
  auto level = levels_.find(KeyOf(job).first);
  auto owned = level->second.find(job.owner);
  owned->second.erase(job.number);
  if (owned->second.empty()) level->second.erase(owned);
  if (level->second.empty()) levels_.erase(level);
  auto count = counts_.find(job.owner);
  if (--count->second == 0) counts_.erase(count);
}

size_t WaitingJobs::CountOf(const std::string& owner) const {
  const auto found = counts_.find(owner);
  return found == counts_.end() ? 0 : found->second;
}

uint32_t WaitingJobs::PositionOf(const JobRecord& job) const {
  if (all_.find(KeyOf(job)) == all_.end()) return 0;
  const size_t of_higher_priority = all_.order_of_key({KeyOf(job).first, 0});
  const size_t own_before = levels_.at(KeyOf(job).first).at(job.owner).order_of_key(job.number);
  return static_cast<uint32_t>(of_higher_priority + own_before + 1);
}

uint64_t WaitingJobs::FollowingOf(int64_t level, const std::string& owner, uint64_t number) const {
  const auto found = levels_.find(level);
  if (found == levels_.end()) return 0;
  const auto owned = found->second.find(owner);
  if (owned == found->second.end()) return 0;
  const auto next = owned->second.upper_bound(number);
  return next == owned->second.end() ? 0 : next->first;
}

}  // namespace adjoin
