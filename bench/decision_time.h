// How long one decision of the coordinator takes, without network and disk.
//
//   DecisionTimes times = MeasureDecisions(/*workers=*/1000, /*queued=*/10000, /*decisions=*/200);
#ifndef ADJOIN_BENCH_DECISION_TIME_H_
#define ADJOIN_BENCH_DECISION_TIME_H_

#include <vector>

#include "absl/status/status.h"

namespace adjoin {

// In seconds, one for each decision.
struct DecisionTimes {
  std::vector<double> start;      // a job is submitted and starts at once: most workers are free
  std::vector<double> submit;     // a job is submitted and joins the queue: no worker is free
  std::vector<double> behind;     // a job is submitted and starts, behind one that waits for more workers than are free
  std::vector<double> next_job;   // a job's last process is gone: which job starts in its place
  std::vector<double> heartbeat;  // a daemon is heard
  std::vector<double> tick;       // deadlines pass
};

// How many decisions of each kind can be measured: half of the workers are free for jobs behind one that waits, and
// each submission that waits is one of the queued jobs.
int MostDecisions(int workers, int queued);
// Errors: kInvalidArgument (`decisions` is not from 1 to MostDecisions; names the flags of bench/control_plane).
absl::Status CheckDecisions(int workers, int queued, int decisions);

// `workers` daemons with one slot each, and `queued` jobs of one rank that wait once all slots are taken. `decisions`:
// how many of each kind, which CheckDecisions allows.
DecisionTimes MeasureDecisions(int workers, int queued, int decisions);

}  // namespace adjoin

#endif  // ADJOIN_BENCH_DECISION_TIME_H_
