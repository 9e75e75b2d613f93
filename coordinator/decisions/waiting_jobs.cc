#include "coordinator/decisions/waiting_jobs.h"

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/user_limits.h"

namespace adjoin {

// '*' is in no name.
std::string UserOf(const JobRecord& job) { return IsLimited(job) ? job.owner : absl::StrCat("*", job.owner); }

void WaitingJobs::Add(JobRecord& job) {
  if (!all_.insert({KeyOf(job), &job}).second) return;
  const std::string user = UserOf(job);
  Level& level = levels_[KeyOf(job).first];
  level.users[user].jobs.insert({job.number, &job});
  Reorder(level, user);
  ++counts_[user];
}

void WaitingJobs::Remove(const JobRecord& job) {
  if (!all_.erase(KeyOf(job))) return;
  const std::string user = UserOf(job);
  auto level = levels_.find(KeyOf(job).first);
  level->second.users.at(user).jobs.erase(job.number);
  Reorder(level->second, user);
  if (level->second.users.empty()) levels_.erase(level);
  auto count = counts_.find(user);
  if (--count->second == 0) counts_.erase(count);
}

// Drops the user where it has no job in the level.
void WaitingJobs::Reorder(Level& level, const std::string& user) {
  auto found = level.users.find(user);
  if (found == level.users.end()) return;
  OfUser& of_user = found->second;
  level.order.erase(of_user.turn);
  if (of_user.jobs.empty()) {
    level.users.erase(found);
    return;
  }
  of_user.turn = {SlotsOf(user), of_user.jobs.begin()->first, user};
  level.order.insert(of_user.turn);
}

void WaitingJobs::SetSlots(const std::string& user, uint64_t slots) {
  if (slots == 0) {
    slots_.erase(user);
  } else {
    slots_[user] = slots;
  }
  if (counts_.count(user) == 0) return;
  for (auto& [key, level] : levels_) Reorder(level, user);
}

uint64_t WaitingJobs::SlotsOf(const std::string& user) const {
  const auto found = slots_.find(user);
  return found == slots_.end() ? 0 : found->second;
}

size_t WaitingJobs::CountOf(const std::string& user) const {
  const auto found = counts_.find(user);
  return found == counts_.end() ? 0 : found->second;
}

uint32_t WaitingJobs::PositionOf(const JobRecord& job) const {
  if (all_.find(KeyOf(job)) == all_.end()) return 0;
  const size_t of_higher_priority = all_.order_of_key({KeyOf(job).first, 0});
  const size_t own_before = levels_.at(KeyOf(job).first).users.at(UserOf(job)).jobs.order_of_key(job.number);
  return static_cast<uint32_t>(of_higher_priority + own_before + 1);
}

std::optional<WaitingJobs::Turn> WaitingJobs::NextTurn(int64_t level, std::set<std::string>& seen,
                                                       std::set<Turn>& again, Turn& last) const {
  const auto found = levels_.find(level);
  if (found == levels_.end()) return std::nullopt;
  const std::set<Turn>& order = found->second.order;
  // A user that was seen may have another place in the order since.
  auto own = order.upper_bound(last);
  while (own != order.end() && seen.count(std::get<2>(*own)) > 0) ++own;
  if (!again.empty() && (own == order.end() || *again.begin() < *own)) {
    return std::move(again.extract(again.begin()).value());
  }
  if (own == order.end()) return std::nullopt;
  last = *own;
  seen.insert(std::get<2>(last));
  return last;
}

uint64_t WaitingJobs::FollowingOf(int64_t level, const std::string& user, uint64_t number) const {
  const auto found = levels_.find(level);
  if (found == levels_.end()) return 0;
  const auto of_user = found->second.users.find(user);
  if (of_user == found->second.users.end()) return 0;
  const auto next = of_user->second.jobs.upper_bound(number);
  return next == of_user->second.jobs.end() ? 0 : next->first;
}

}  // namespace adjoin
