// The settings of CoordinationService, which all its parts read.
#ifndef ADJOIN_COORDINATOR_DECISIONS_COORDINATION_OPTIONS_H_
#define ADJOIN_COORDINATOR_DECISIONS_COORDINATION_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>

#include "absl/time/time.h"
#include "coordinator/decisions/idempotency_keys.h"
#include "coordinator/decisions/progress_watch.h"
#include "coordinator/decisions/user_limits.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

// Returns 64 bits that no process has drawn before; never 0.
inline uint64_t DrawTag() {
  std::random_device device;
  uint64_t tag = 0;
  while (tag == 0) tag = uint64_t{device()} << 32 | device();
  return tag;
}

struct CoordinationOptions {
  std::function<absl::Time()> wall_clock;           // for people, and for ages over a restart (base/age_clock.h)
  std::function<absl::Duration()> monotonic_clock;  // for deadlines; from any fixed start
  std::function<uint64_t()> draw_tag = &DrawTag;    // for each new job
  absl::Duration heartbeat = absl::Seconds(1);
  // All daemons together send no more than these: where very many are connected, each sends its heartbeats further
  // apart, and is waited for longer (WorkerTable::Lateness). All ranks together report their progress no more often,
  // either, but each at least every longest_progress.
  double heartbeats_per_second = 1000;
  absl::Duration longest_progress = absl::Seconds(10);
  absl::Duration suspect_after = absl::Seconds(3);    // a daemon that is silent for so long gets nothing new
  absl::Duration dead_after = absl::Seconds(10);      // the attempts of a daemon that is silent for so long have ended
  absl::Duration reattach = absl::Seconds(30);        // the same after the coordinator's own start
  absl::Duration lease = absl::Seconds(120);          // through which ranks run on without the coordinator
  absl::Duration lease_margin = absl::Seconds(5);     // for the kill when it ends, and for clocks that differ
  absl::Duration start_timeout = absl::Seconds(120);  // for all ranks of an attempt to be ready
  absl::Duration probe_timeout = absl::Seconds(30);   // for a worker to check a job's data files
  absl::Duration peer_failure_grace = absl::Seconds(1);
  absl::Duration home_grace = absl::Minutes(10);  // for a job to wait for the nodes that have its checkpoints
  absl::Duration resume_grace = absl::Hours(1);   // likewise those of another job, without which it cannot begin
  ProgressLimits progress;
  uint32_t restarts_without_progress = 3;     // in a row end a job
  size_t max_queued_jobs = 100000;            // that wait; more are refused
  size_t max_queued_bytes = size_t{2} << 30;  // of memory for the specs of those that wait or run; more are refused
  UserLimits user_limits;                     // of users' jobs; admins and local callers have none
  size_t keep_jobs = 1000;                    // of one owner, that have ended; beyond that their oldest are forgotten
  size_t keep_jobs_total = 10000;             // of all owners; beyond that, the oldest of the owner with the most
  size_t keep_bytes_total = size_t{1} << 30;  // of memory for the specs of all that have ended; beyond that likewise
  IdempotencyKeys::Limits keys;
  AssignmentPolicy assignment = &AssignCompactly;

  absl::Duration Now() const { return monotonic_clock(); }
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_COORDINATION_OPTIONS_H_
