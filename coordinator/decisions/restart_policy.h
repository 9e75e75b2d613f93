// Decides whether a job goes on after an attempt has ended badly.
//
//   RestartDecision decision = DecideRestart(spec.restart(), EndCause::kNodeLost, /*steps=*/40, history, /*limit=*/3);
#ifndef ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_
#define ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace adjoin {

// Why an attempt ended other than well.
enum class EndCause {
  kRankLost,  // a process died, or made no progress
  kNodeLost,  // the infrastructure failed
  kDrained,   // a node left in good order
  kError,     // a rank reported an error
  kHopeless,  // a rank reported an error that every attempt would end with
};
std::string ToString(EndCause cause);  // "rank_lost", ... as in Restart.on

// Counts over all attempts of a job so far.
struct RestartHistory {
  uint32_t attempts = 0;          // started
  uint32_t counted = 0;           // restarts against max_restarts
  uint32_t without_progress = 0;  // restarts in a row that did not get further than any attempt before
  uint64_t best_step = 0;         // optimizer steps done by the best attempt
};

struct RestartDecision {
  bool restart = false;
  std::string why_not;     // why it does not restart, for people; may be empty
  absl::Duration backoff;  // before the next attempt
  RestartHistory history;  // after this end
};

// `steps`: done by the attempt that ended. An absent Restart.on means lost ranks and nodes. Lost nodes and drains do
// not use up max_restarts, and a drain is always followed by another attempt. `limit` restarts in a row without
// progress end the job, whatever their cause, drains aside; the first attempt is no restart. The backoff doubles with
// each restart, to at most ten minutes.
RestartDecision DecideRestart(const Restart& policy, EndCause cause, uint64_t steps, RestartHistory history,
                              uint32_t limit);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_
