// Where the checkpoints of a job lie: with its home, the workers that share the output root of its last attempt. Only they can
// go on from there, so the job waits for them; it leaves them when others could have taken it for long and they could not.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

}  // namespace

// "" where any will do.
std::string CoordinationService::HomeOf(const JobRecord& job) const { return job.has_checkpoint ? job.home : ""; }

void CoordinationService::SettleHome(JobRecord& job) {
  if (!KeepsCheckpoints(job.spec)) return;
  std::set<std::string> names;
  for (const auto& [name, holder] : job.attempt.holders) names.insert(name);
  const std::string first = *names.begin();
  job.home = OutputGroup({first, 0, workers_.at(first).hello.output_id()});
  job.home_workers.assign(names.begin(), names.end());
}

// Its progress or its end says that there is a checkpoint.
void CoordinationService::KeepHome(JobRecord& job) {
  if (job.has_checkpoint || job.home.empty()) return;
  job.has_checkpoint = true;
  job.home_usable = Now();
  homed_.insert(job.number);
  Changed(job);
}

void CoordinationService::OutputKnown(const std::string& name, const std::string& output_id) {
  workers_.at(name).hello.set_output_id(output_id);
  const std::string alone = OutputGroup({name, 0, ""});
  for (JobRecord* job : jobs_.All()) {
    if (job->home != alone) continue;
    job->home = output_id;
    Changed(*job);
  }
}

// Whether others could take a job that wants to start, and its home could not even if nothing else ran there.
bool CoordinationService::LacksHome(const JobRecord& job) const {
  return job.state == PENDING && !job.held && job.has_checkpoint && !CouldEverStart(job) &&
         PlaceJob(job.spec, AllSlots(job.spec), {}, "").has_value();
}

bool CoordinationService::TickHomes() {
  if (!store_writable_ || Now() - homes_looked_at_ < kBetweenLooks) return false;
  homes_looked_at_ = Now();
  bool changed = false;
  const std::set<uint64_t> homed = homed_;
  for (uint64_t number : homed) {
    JobRecord* job = jobs_.Find(number);
    if (job == nullptr || IsFinal(job->state)) {
      homed_.erase(number);
    } else if (!LacksHome(*job)) {
      job->home_usable = Now();
    } else if (MayStart(*job) && Now() - job->home_usable >= options_.home_grace) {
      LeaveHome(*job);
      changed = true;
    }
  }
  return changed;
}

void CoordinationService::LeaveHome(JobRecord& job) {
  Event(job, "begins_anew", absl::StrCat("its checkpoints are on nodes that are gone: begins anew (they are with ",
                                         absl::StrJoin(job.home_workers, ", "), ", not there for ",
                                         absl::FormatDuration(absl::Floor(Now() - job.home_usable, absl::Seconds(1))), ")"));
  homed_.erase(job.number);
  job.has_checkpoint = false;
  job.home.clear();
  job.home_workers.clear();
  job.history.best_step = 0;  // what it does again is progress
  Changed(job);
  schedule_ = true;
}

std::string CoordinationService::HomeReason(const JobRecord& job) const {
  const std::string nodes =
      absl::StrCat("nodes that share the output root of its checkpoints (", absl::StrJoin(job.home_workers, ", "), ")");
  if (!LacksHome(job)) return nodes;
  const absl::Duration left = absl::Ceil(job.home_usable + options_.home_grace - Now(), absl::Seconds(1));
  return absl::StrCat(nodes, "; without them it begins anew on others in ",
                      absl::FormatDuration(std::max(absl::Seconds(1), left)));
}

}  // namespace adjoin
