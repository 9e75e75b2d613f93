#include "coordinator/decisions/restart_policy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLongestBackoff = absl::Minutes(10);

bool IsWanted(const Restart& policy, EndCause cause) {
  if (cause == EndCause::kDrained) return true;
  if (policy.on().empty()) return cause == EndCause::kRankLost || cause == EndCause::kNodeLost;
  return std::find(policy.on().begin(), policy.on().end(), ToString(cause)) != policy.on().end();
}

bool IsInfrastructure(EndCause cause) { return cause == EndCause::kNodeLost || cause == EndCause::kDrained; }

}  // namespace

std::string ToString(EndCause cause) {
  switch (cause) {
    case EndCause::kRankLost: return "rank_lost";
    case EndCause::kNodeLost: return "node_lost";
    case EndCause::kDrained: return "drained";
    case EndCause::kError: return "error";
    case EndCause::kHopeless: return "hopeless";
  }
  return "";
}

RestartDecision DecideRestart(const Restart& policy, EndCause cause, uint64_t steps, RestartHistory history,
                              uint32_t limit) {
  RestartDecision decision;
  if (steps > history.best_step) {
    history.best_step = steps;
    history.without_progress = 0;
  } else if (history.attempts > 1 && cause != EndCause::kDrained) {
    ++history.without_progress;
  }
  decision.history = history;
  if (cause == EndCause::kHopeless || !IsWanted(policy, cause)) return decision;
  if (history.without_progress >= limit) {
    decision.why_not =
        absl::StrCat(history.without_progress, " restarts in a row came no further than step ", history.best_step);
    return decision;
  }
  if (!IsInfrastructure(cause)) {
    if (history.counted >= policy.max_restarts()) {
      if (policy.max_restarts() > 0) {
        decision.why_not = absl::StrCat("restart.max_restarts, which is ", policy.max_restarts(), ", is used up");
      }
      return decision;
    }
    ++decision.history.counted;
  }
  decision.restart = true;
  if (cause != EndCause::kDrained && policy.backoff_s() > 0) {
    const double factor = std::ldexp(1.0, static_cast<int>(std::min<uint32_t>(history.attempts, 20)) - 1);
    decision.backoff = std::min(kLongestBackoff, absl::Seconds(policy.backoff_s() * factor));
  }
  return decision;
}

}  // namespace adjoin
