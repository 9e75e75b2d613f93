// The ranks and workers of an attempt, in the words that events and reasons use.
#ifndef ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_TEXT_H_
#define ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/restart_policy.h"

namespace adjoin {

// "worker-0 (2), worker-1 (2)": the workers and their slots.
std::string WorkersText(const Attempt& attempt);
// "rank 2 on worker-1"
std::string RankText(const Attempt& attempt, size_t rank);
// "ranks 2, 3": those of the worker.
std::string RanksOn(const Attempt& attempt, const std::string& worker);
// "rank 2 on worker-1 did not become ready within 2m": the ranks that are still starting.
std::string LateRanks(const Attempt& attempt, absl::Duration limit);
// The workers of these ranks.
std::vector<std::string> LateWorkers(const Attempt& attempt);
// "; it failed 3 times in a row when it started, on worker-0, worker-2"
std::string FailedStartsText(const FailedStarts& failed);
// "in 5s; restart 2 of the 3 of restart.max_restarts", "at once; does not count against the job"
std::string RestartText(const RestartDecision& decision, const Restart& policy);

// True where the report only names the latest attempt that the daemon had: nothing of it is left to report.
bool IsNote(const AttemptReport& report);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_ATTEMPT_TEXT_H_
