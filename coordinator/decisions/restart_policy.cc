#include "coordinator/decisions/restart_policy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLongestBackoff = absl::Minutes(10);
constexpr absl::Duration kFirstIdlePause = absl::Milliseconds(500);
constexpr absl::Duration kLongestIdlePause = absl::Minutes(1);

bool IsWanted(const Restart& policy, EndCause cause) {
  if (cause == EndCause::kDrained) return true;
  if (cause == EndCause::kHopeless) return false;
  if (policy.on().empty()) return cause != EndCause::kError;
  return std::find(policy.on().begin(), policy.on().end(), ToString(cause)) != policy.on().end();
}

// What the job itself may have caused.
bool IsOwnFailure(EndCause cause) { return cause == EndCause::kRankLost || cause == EndCause::kError; }

bool UsesUpRestarts(EndCause cause) { return IsOwnFailure(cause) || cause == EndCause::kRankKilled; }

// So that attempts that end at once do not follow each other without a pause.
absl::Duration IdlePause(uint32_t idle) {
  if (idle == 0) return absl::ZeroDuration();
  return std::min(kLongestIdlePause, kFirstIdlePause * std::ldexp(1.0, static_cast<int>(std::min(idle, 20u)) - 1));
}

absl::Duration NextBackoff(const Restart& policy, absl::Duration last) {
  const absl::Duration first = absl::Seconds(policy.backoff_s());
  if (first <= absl::ZeroDuration()) return absl::ZeroDuration();
  return std::min(kLongestBackoff, std::max(first, 2 * last));
}

}  // namespace

std::string ToString(EndCause cause) {
  switch (cause) {
    case EndCause::kRankLost:
    case EndCause::kRankKilled: return "rank_lost";
    case EndCause::kNodeLost: return "node_lost";
    case EndCause::kDrained: return "drained";
    case EndCause::kError: return "error";
    case EndCause::kHopeless: return "hopeless";
  }
  return "";
}

RestartDecision DecideRestart(const Restart& policy, const AttemptEnd& end, RestartHistory history, uint32_t limit) {
  RestartDecision decision;
  const bool checkpointed = end.checkpoint_step > end.resumed_step;
  if (end.steps > history.best_step || checkpointed) {
    history.best_step = std::max(history.best_step, end.steps);
    history.without_progress = 0;
    history.backoff = absl::ZeroDuration();
  } else if (IsOwnFailure(end.cause) && history.counted > 0) {
    ++history.without_progress;
  }
  if (end.steps > end.resumed_step || checkpointed) history.idle = 0;
  decision.history = history;
  const bool wanted = IsWanted(policy, end.cause) || (end.reported.has_value() && IsWanted(policy, *end.reported));
  if (!wanted) return decision;
  if (IsOwnFailure(end.cause) && history.without_progress >= limit) {
    decision.why_not =
        absl::StrCat(history.without_progress, " restarts in a row came no further than step ", history.best_step);
    return decision;
  }
  decision.counted = UsesUpRestarts(end.cause);
  if (decision.counted) {
    if (history.counted >= policy.max_restarts()) {
      if (policy.max_restarts() > 0) {
        decision.why_not = absl::StrCat("restart.max_restarts, which is ", policy.max_restarts(), ", is used up");
      }
      decision.counted = false;
      return decision;
    }
    ++decision.history.counted;
    decision.backoff = decision.history.backoff = NextBackoff(policy, history.backoff);
  }
  decision.restart = true;
  if (end.cause == EndCause::kNodeLost || end.cause == EndCause::kRankKilled) {
    decision.backoff = std::max(decision.backoff, IdlePause(history.idle));
    if (end.steps <= end.resumed_step && !checkpointed) ++decision.history.idle;
  }
  return decision;
}

}  // namespace adjoin
