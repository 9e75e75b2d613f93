#include "coordinator/decisions/attempt_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {

std::string WorkersText(const Attempt& attempt) {
  return absl::StrJoin(attempt.holders, ", ", [](std::string* out, const auto& holder) {
    absl::StrAppend(out, holder.first, " (", holder.second.slots, ")");
  });
}

std::string RankText(const Attempt& attempt, size_t rank) {
  return absl::StrCat("rank ", rank, " on ", attempt.ranks[rank].worker);
}

std::string RanksOn(const Attempt& attempt, const std::string& worker) {
  std::vector<size_t> ranks;
  for (size_t r = 0; r < attempt.ranks.size(); ++r) {
    if (attempt.ranks[r].worker == worker) ranks.push_back(r);
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

std::string LateRanks(const Attempt& attempt, absl::Duration limit) {
  std::vector<std::string> late;
  for (size_t r = 0; r < attempt.ranks.size(); ++r) {
    if (attempt.ranks[r].state == RankState::kStarting) late.push_back(RankText(attempt, r));
  }
  return absl::StrCat(absl::StrJoin(late, ", "), " did not become ready within ", absl::FormatDuration(limit));
}

}  // namespace adjoin
