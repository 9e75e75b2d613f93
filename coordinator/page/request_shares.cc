#include "coordinator/page/request_shares.h"

#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

const char* WhatAllWaitFor(RequestCost cost) {
  switch (cost) {
    case RequestCost::kWorker: return "other browsers' requests wait for workers: try again";
    case RequestCost::kPlanner: return "other browsers' requests wait for planners: try again";
    case RequestCost::kLittle:
    case RequestCost::kWork: break;
  }
  return "the coordinator answers other browsers: try again";
}

}  // namespace

absl::Status RequestShares::Enter(const Caller& caller, RequestCost cost) {
  const auto at = static_cast<size_t>(cost);
  absl::MutexLock lock(&mutex_);
  const auto found = of_one_.find({caller.role, caller.name});
  if (found != of_one_.end() && !caller.local) {
    const Counts& own = found->second;
    const bool many = std::accumulate(own.begin(), own.end(), 0) >= limits_.of_one_caller;
    if (many || own[at] >= limits_.of_one[at]) {
      return absl::ResourceExhaustedError(
          absl::StrCat(ToString(caller), " has ", many ? limits_.of_one_caller : limits_.of_one[at],
                       " of such requests of browsers under way, which is the limit: try again"));
    }
  }
  if (of_all_[at] >= limits_.of_all[at]) return absl::UnavailableError(WhatAllWaitFor(cost));
  ++of_one_[{caller.role, caller.name}][at];
  ++of_all_[at];
  return absl::OkStatus();
}

void RequestShares::Leave(const Caller& caller, RequestCost cost) {
  const auto at = static_cast<size_t>(cost);
  absl::MutexLock lock(&mutex_);
  const auto own = of_one_.find({caller.role, caller.name});
  --own->second[at];
  if (own->second == Counts{}) of_one_.erase(own);
  --of_all_[at];
}

}  // namespace adjoin
