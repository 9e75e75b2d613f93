#include "coordinator/page/list_cache.h"

#include <utility>

#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

ListCache::Options WithClock(ListCache::Options options) {
  if (options.clock == nullptr) {
    options.clock = [] { return absl::FromChrono(Deadline::Clock::now().time_since_epoch()); };
  }
  return options;
}

}  // namespace

ListCache::ListCache(std::function<absl::StatusOr<ListJobsResponse>(const ListJobsRequest&)> list, Options options)
    : list_(std::move(list)), options_(WithClock(std::move(options))) {}

absl::StatusOr<ListCache::Answer> ListCache::Of(const ListJobsRequest& request) {
  const std::string key = request.SerializeAsString();
  const absl::Duration now = options_.clock();  // before the look: what it sees is not older
  uint64_t forgotten = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = kept_.find(key);
    if (known != kept_.end() && now - known->second.made < options_.fresh) return known->second.answer;
    forgotten = forgotten_;
  }
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse response, list_(request));
  auto answer = std::make_shared<const ListJobsResponse>(std::move(response));
  absl::MutexLock lock(&mutex_);
  if (forgotten != forgotten_) return answer;
  if (kept_.size() >= options_.most && kept_.find(key) == kept_.end()) kept_.clear();
  kept_[key] = {answer, now};
  return answer;
}

void ListCache::Forget() {
  absl::MutexLock lock(&mutex_);
  kept_.clear();
  ++forgotten_;
}

}  // namespace adjoin
