#include "coordinator/decisions/rate_book.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/time/rate_check.h"
#include "proto/message_limits.h"

namespace adjoin {

absl::Status RateBook::Set(const std::string& worker, const RateTable& rates) {
  Forget(worker);
  ADJOIN_RETURN_IF_ERROR(CheckRates(rates));
  const std::string bytes = rates.SerializeAsString();
  auto found = kinds_.find(bytes);
  if (found == kinds_.end()) {
    if (kinds_.size() >= kMostKinds) {
      return absl::ResourceExhaustedError(
          absl::StrCat("rates of ", kMostKinds, " kinds of nodes are kept already; give nodes of one kind one table"));
    }
    found = kinds_.emplace(bytes, Kind{std::make_shared<const RateTable>(rates), {}}).first;
  }
  found->second.workers.insert(worker);
  return absl::OkStatus();
}

void RateBook::Forget(const std::string& worker) {
  for (auto kind = kinds_.begin(); kind != kinds_.end();) {
    kind->second.workers.erase(worker);
    kind = kind->second.workers.empty() ? kinds_.erase(kind) : std::next(kind);
  }
}

void RateBook::KeepOnly(const std::function<bool(const std::string& worker)>& is_kept) {
  std::set<std::string> gone;
  for (const auto& [bytes, kind] : kinds_) {
    for (const std::string& worker : kind.workers) {
      if (!is_kept(worker)) gone.insert(worker);
    }
  }
  for (const std::string& worker : gone) Forget(worker);
}

std::shared_ptr<const RateTable> RateBook::OfMost() const {
  const Kind* most = nullptr;
  for (const auto& [bytes, kind] : kinds_) {
    if (most == nullptr || kind.workers.size() > most->workers.size()) most = &kind;
  }
  return most == nullptr ? nullptr : most->rates;
}

ReadRatesResponse RateBook::All() const {
  std::vector<const Kind*> kinds;
  for (const auto& [bytes, kind] : kinds_) kinds.push_back(&kind);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind* a, const Kind* b) { return a->workers.size() > b->workers.size(); });
  // More names than that tell nobody more.
  constexpr int kMostNames = 100;
  ReadRatesResponse response;
  for (const Kind* kind : kinds) {
    NodeRates& node = *response.add_node();
    *node.mutable_rates() = *kind->rates;
    for (const std::string& worker : kind->workers) {
      if (node.worker_size() < kMostNames) node.add_worker(worker);
    }
    if (response.ByteSizeLong() <= kMaxSentBytes / 2) continue;
    if (response.node_size() > 1) response.mutable_node()->RemoveLast();
    break;
  }
  return response;
}

}  // namespace adjoin
