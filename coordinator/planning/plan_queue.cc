#include "coordinator/planning/plan_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

// An owner who has used less is like one who never came.
constexpr double kForgottenSeconds = 1e-3;

}  // namespace

absl::Status PlanQueue::Add(Entry entry) {
  Owner& owner = owners_[entry.owner];
  const size_t count = owner.waiting[0].size() + owner.waiting[1].size();
  if (!entry.exempt && (count >= options_.most_waiting || owner.bytes + entry.bytes > options_.most_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(count, " submissions of yours wait for their plans, with ",
                                                     owner.bytes, " bytes; at most ", options_.most_waiting,
                                                     " may, with ", options_.most_bytes,
                                                     " bytes: submit again when some of them are answered"));
  }
  const Place place = {entry.work, ++arrivals_, entry.ticket};
  owner.waiting[IsLong(entry)].insert(place);
  owner.bytes += entry.bytes;
  waiting_[entry.ticket] = {std::move(entry), place};
  return absl::OkStatus();
}

double PlanQueue::UsedAt(const Owner& owner, absl::Duration now) const {
  const double used = owner.used * std::exp2(-absl::FDivDuration(now - owner.used_at, options_.memory));
  return used < kForgottenSeconds ? 0 : used;
}

bool PlanQueue::LeavesEnough(const Owner& owner) const {
  const int left = owner.long_under_way > 0 && options_.planners > 2 ? 2 : 1;
  return long_under_way_ + 1 + left <= options_.planners;
}

const PlanQueue::Place* PlanQueue::First(const Owner& owner) const {
  if (!owner.waiting[0].empty()) return &*owner.waiting[0].begin();
  if (owner.waiting[1].empty() || !LeavesEnough(owner)) return nullptr;
  return &*owner.waiting[1].begin();
}

std::optional<uint64_t> PlanQueue::Take(absl::Duration now) {
  if (under_way_.size() >= static_cast<size_t>(options_.planners)) return std::nullopt;
  const Place* best = nullptr;
  std::tuple<int, double, uint64_t> best_rank;
  for (auto it = owners_.begin(); it != owners_.end();) {
    const Owner& owner = it->second;
    const double used = UsedAt(owner, now);
    if (owner.under_way == 0 && used == 0 && owner.waiting[0].empty() && owner.waiting[1].empty()) {
      it = owners_.erase(it);
      continue;
    }
    ++it;
    const Place* first = First(owner);
    if (first == nullptr) continue;
    const std::tuple<int, double, uint64_t> rank = {owner.under_way, used, std::get<1>(*first)};
    if (best != nullptr && best_rank <= rank) continue;
    best = first;
    best_rank = rank;
  }
  if (best == nullptr) return std::nullopt;
  const uint64_t ticket = std::get<2>(*best);
  auto it = waiting_.find(ticket);
  const Entry entry = it->second.entry;
  EraseWaiting(it);
  const bool is_long = IsLong(entry);
  Owner& owner = owners_[entry.owner];
  ++owner.under_way;
  owner.long_under_way += is_long;
  long_under_way_ += is_long;
  under_way_[ticket] = {entry.owner, is_long, now};
  return ticket;
}

void PlanQueue::EraseWaiting(std::map<uint64_t, Waiting>::iterator it) {
  const Entry& entry = it->second.entry;
  Owner& owner = owners_[entry.owner];
  owner.waiting[IsLong(entry)].erase(it->second.place);
  owner.bytes -= entry.bytes;
  waiting_.erase(it);
}

void PlanQueue::End(uint64_t ticket, absl::Duration now) {
  auto it = under_way_.find(ticket);
  if (it == under_way_.end()) return;
  Owner& owner = owners_[it->second.owner];
  --owner.under_way;
  owner.used = UsedAt(owner, now) + absl::ToDoubleSeconds(now - it->second.since);
  owner.used_at = now;
  owner.long_under_way -= it->second.is_long;
  long_under_way_ -= it->second.is_long;
  under_way_.erase(it);
}

bool PlanQueue::Remove(uint64_t ticket) {
  auto it = waiting_.find(ticket);
  if (it == waiting_.end()) return false;
  EraseWaiting(it);
  return true;
}

bool PlanQueue::MayGoOn(uint64_t ticket) {
  auto it = under_way_.find(ticket);
  if (it == under_way_.end() || it->second.is_long) return true;
  const std::string& name = it->second.owner;
  if (Owner& owner = owners_[name]; LeavesEnough(owner)) {
    it->second.is_long = true;
    ++owner.long_under_way;
    ++long_under_way_;
    return true;
  }
  return std::none_of(owners_.begin(), owners_.end(), [&](const auto& other) {
    return !other.second.waiting[0].empty() ||
           (other.first != name && !other.second.waiting[1].empty() && LeavesEnough(other.second));
  });
}

PlanQueue::Entry PlanQueue::AsLong(Entry entry) const {
  entry.work = std::max(entry.work, options_.long_work);
  entry.exempt = true;  // it was let in before
  return entry;
}

}  // namespace adjoin
