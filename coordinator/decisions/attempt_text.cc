#include "coordinator/decisions/attempt_text.h"

#include <set>
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

std::vector<std::string> LateWorkers(const Attempt& attempt) {
  std::set<std::string> late;
  for (const RankRecord& rank : attempt.ranks) {
    if (rank.state == RankState::kStarting) late.insert(rank.worker);
  }
  return {late.begin(), late.end()};
}

std::string FailedStartsText(const FailedStarts& failed) {
  return absl::StrCat("; it failed ", failed.in_row, " times in a row when it started, on ",
                      absl::StrJoin(failed.workers, ", ",
                                    [](std::string* out, const auto& worker) { absl::StrAppend(out, worker.first); }));
}

std::string RestartText(const RestartDecision& decision, const Restart& policy) {
  const std::string when =
      decision.backoff > absl::ZeroDuration() ? absl::StrCat("in ", absl::FormatDuration(decision.backoff)) : "at once";
  if (!decision.counted) return absl::StrCat(when, "; does not count against the job");
  return absl::StrCat(when, "; restart ", decision.history.counted, " of the ", policy.max_restarts(),
                      " of restart.max_restarts");
}

bool IsNote(const AttemptReport& report) { return report.rank().empty() && report.cleared() && report.store_id() != 0; }

}  // namespace adjoin
