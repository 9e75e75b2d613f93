// Decides whether a job goes on after an attempt has ended badly.
//
//   RestartDecision decision = DecideRestart(spec.restart(), {.cause = EndCause::kNodeLost, .steps = 40}, history,
//                                            /*limit=*/3);
//
// What the cluster did to a job does not count against the job:
//
//   cause         restarts without `restart`   counts against max_restarts   counts as "came no further"   pause
//   kRankLost     no                           yes                           yes                           backoff_s
//   kRankKilled   no                           yes                           no                            both
//   kNodeLost     yes                          no                            no                            of its own
//   kDrained      always                       no                            no                            none
//   kError        no                           yes                           yes                           backoff_s
//   kHopeless     never
//
// `backoff_s` doubles from one such end to the next, to ten minutes, and begins again after progress: a step that no
// attempt had done before, or a checkpoint. The pause of its own is nothing the first time; it is half a second and
// doubles, to a minute, while attempts end before they have done a step.
#ifndef ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_
#define ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace adjoin {

// Why an attempt ended other than well.
enum class EndCause {
  kRankLost,    // a process crashed, ended without a result, or made no progress
  kRankKilled,  // a process was killed from outside: by people, by the system, for want of memory
  kNodeLost,    // the infrastructure failed
  kDrained,     // a node left in good order
  kError,       // a rank reported an error
  kHopeless,    // a rank reported an error that every attempt would end with
};
std::string ToString(EndCause cause);  // "rank_lost" (also kRankKilled), ... as in Restart.on

// How an attempt ended.
struct AttemptEnd {
  EndCause cause = EndCause::kRankLost;
  uint64_t steps = 0;            // of training, done when it ended; those of the attempts before it included
  uint64_t resumed_step = 0;     // it began with the checkpoint of this step; 0: at the beginning
  uint64_t checkpoint_step = 0;  // of the newest checkpoint that it wrote itself; 0: none
  std::optional<EndCause> reported = std::nullopt;  // where the cluster is held to be the cause: what was reported
};

// Counts over all attempts of a job so far.
struct RestartHistory {
  uint32_t attempts = 0;          // started
  uint32_t counted = 0;           // restarts against max_restarts
  uint32_t without_progress = 0;  // restarts in a row, of those that count so, that came no further
  uint64_t best_step = 0;         // optimizer steps done by the best attempt
  absl::Duration backoff =
      absl::ZeroDuration();  // after the last end that backoff_s applied to; zero: there was progress since
  uint32_t idle = 0;         // ends in a row that were not the job's, of attempts that did no step
};

struct RestartDecision {
  bool restart = false;
  std::string why_not;     // why it does not restart, for people; may be empty
  bool counted = false;    // against max_restarts
  absl::Duration backoff;  // before the next attempt
  RestartHistory history;  // after this end
};

// An absent Restart.on means lost ranks and nodes; a drain is always followed by another attempt. `limit` restarts in a
// row that came no further end the job; the first attempt is no restart.
RestartDecision DecideRestart(const Restart& policy, const AttemptEnd& end, RestartHistory history, uint32_t limit);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_RESTART_POLICY_H_
