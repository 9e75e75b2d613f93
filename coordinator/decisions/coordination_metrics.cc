// What CoordinationService tells programs that watch it.
#include <algorithm>

#include "coordinator/decisions/coordination_service.h"

namespace adjoin {
namespace {

ClusterSnapshot::RunningJob Measure(const JobRecord& job) {
  ClusterSnapshot::RunningJob now;
  now.id = job.id;
  now.step = job.progress.step();
  if (job.progress.steps_per_second() > 0) now.step_seconds = 1 / job.progress.steps_per_second();
  int measured = 0;
  for (const RankRecord& rank : job.attempt.ranks) {
    now.bytes_sent += rank.progress.bytes_sent();
    if (rank.progress.compute_seconds() <= 0) continue;
    now.compute_seconds += rank.progress.compute_seconds();
    now.sync_seconds += rank.progress.sync_seconds();
    ++measured;
  }
  now.compute_seconds /= std::max(measured, 1);
  now.sync_seconds /= std::max(measured, 1);
  return now;
}

}  // namespace

ClusterSnapshot CoordinationService::Snapshot() {
  ClusterSnapshot now;
  absl::Time oldest = absl::InfiniteFuture();
  for (const JobRecord* job : jobs_.All()) {
    if (!job->accepted) continue;
    ++now.jobs[job->state];
    if (job->state != PENDING) continue;
    ++now.queue_length;
    oldest = std::min(oldest, job->submitted);
  }
  // Wall clocks may be set back.
  if (now.queue_length > 0) now.queue_oldest_seconds = std::max(0.0, absl::ToDoubleSeconds(options_.wall_clock() - oldest));
  for (const auto& [name, worker] : workers_) {
    now.workers.push_back({name, StateOf(worker), absl::ToDoubleSeconds(Now() - worker.last_heard), worker.hello.slots(),
                           static_cast<uint32_t>(std::max(0, worker.FreeSlots()))});
  }
  for (const JobRecord* job : jobs_.Active()) {
    if (job->state == RUNNING) now.running.push_back(Measure(*job));
  }
  now.submits = counters_.submitted;
  now.restarts = counters_.restarts;
  now.goodput_seconds = counters_.goodput_seconds;
  now.lost_seconds = counters_.lost_seconds;
  return now;
}

}  // namespace adjoin
