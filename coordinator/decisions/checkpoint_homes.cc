#include "coordinator/decisions/checkpoint_homes.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/placement/assignment.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenLooksAtHomes = absl::Seconds(1);
// A look at a job that waits goes over all workers: so many jobs times workers take some milliseconds, for which all
// messages wait.
constexpr size_t kMostInOneTick = 20'000;

// True where the home is a worker's whose output_id is not known.
bool IsOfOneWorker(const std::string& home) { return absl::StartsWith(home, OutputRoot{.of_one = true}.ToString()); }

bool Resumes(const JobRecord& job) { return !job.spec.checkpoint().resume_from().empty(); }

}  // namespace

bool CheckpointHomes::CouldStartOn(const JobRecord& job, const std::string& home,
                                   const std::vector<FreeSlots>& workers) const {
  return Assign(options_.assignment, job.spec, workers, /*before=*/{}, home, NeedOf(job)).ok();
}

std::string CheckpointHomes::InputHomeOf(const JobRecord& job) const {
  if (job.input_worker.empty()) return "";
  if (!job.input_root.empty()) return job.input_root;
  const WorkerRecord* worker = workers_.Find(job.input_worker);
  return OutputRootOf({job.input_worker, 0, worker == nullptr ? "" : worker->hello.output_id()}).ToString();
}

bool CheckpointHomes::CouldEverStart(const JobRecord& job) const {
  return CouldStartOn(job, HomeOf(job), workers_.AllFor(job.spec.resources()));
}

CheckpointHomes::WithoutHome CheckpointHomes::Without(const JobRecord& job) const {
  const bool resumes = Resumes(job) && !job.input_worker.empty();
  const bool has_home = job.has_checkpoint || resumes;
  const Resources& wanted = job.spec.resources();
  if (job.state != PENDING || job.held || !has_home) return WithoutHome::kWaits;
  if (CouldStartOn(job, HomeOf(job), workers_.AllInTimeFor(wanted))) return WithoutHome::kWaits;
  const std::vector<FreeSlots> others = workers_.AllFor(wanted);
  if (job.has_checkpoint && CouldStartOn(job, InputHomeOf(job), others)) return WithoutHome::kBeginsAnew;
  return resumes && CouldStartOn(job, /*home=*/"", others) ? WithoutHome::kFails : WithoutHome::kWaits;
}

bool CheckpointHomes::LacksHome(const JobRecord& job) const { return Without(job) != WithoutHome::kWaits; }

absl::Duration CheckpointHomes::GraceOf(WithoutHome without) const {
  return without == WithoutHome::kFails ? options_.resume_grace : options_.home_grace;
}

std::string CheckpointHomes::Nodes(const JobRecord& job) const {
  if (job.has_checkpoint) {
    return absl::StrCat("nodes that share the output root of its checkpoints (", absl::StrJoin(job.home_workers, ", "),
                        ")");
  }
  return absl::StrCat("nodes that share the output root of ", job.input_worker, ", where ",
                      Resumes(job) ? "the checkpoints are that it resumes from" : "its weights are");
}

std::string CheckpointHomes::Reason(const JobRecord& job) const {
  const WithoutHome without = Without(job);
  if (without == WithoutHome::kWaits) return Nodes(job);
  const absl::Duration left = absl::Ceil(job.home_usable + GraceOf(without) - options_.Now(), absl::Seconds(1));
  return absl::StrCat(Nodes(job), "; without them it ",
                      without == WithoutHome::kFails ? "fails in " : "begins anew on others in ",
                      absl::FormatDuration(std::max(absl::Seconds(1), left)));
}

void CheckpointHomes::BeginWhereItResumesFrom(JobRecord& job) {
  if (!Resumes(job)) return;
  Return(job);
  const JobRecord* latest = jobs_.LatestWithCheckpointsIn(job.spec.checkpoint().resume_from());
  if (latest == nullptr || !workers_.AnyKnownFor(job.spec.resources(), [&](const FreeSlots& worker) {
        return OutputRootOf(worker).ToString() == latest->home;
      })) {
    return;
  }
  job.input_worker = latest->home_workers.front();
  if (!IsOfOneWorker(latest->home)) job.input_root = latest->home;
}

void CheckpointHomes::Settle(JobRecord& job) {
  if (!KeepsCheckpoints(job.spec)) return;
  job.home_workers.clear();
  for (const auto& [name, holder] : job.attempt.holders) job.home_workers.push_back(name);
  const std::string& first = job.home_workers.front();
  job.home = OutputRootOf({first, 0, workers_.At(first).hello.output_id()}).ToString();
  if (IsOfOneWorker(job.home)) alone_.insert(job.number);
}

void CheckpointHomes::Keep(JobRecord& job) {
  if (job.has_checkpoint || job.home.empty()) return;
  job.has_checkpoint = true;
  Return(job);
  outbox_.JobChanged(job);
}

void CheckpointHomes::Return(JobRecord& job) {
  job.home_usable = options_.Now();
  if (job.has_checkpoint || Resumes(job)) homed_.insert(job.number);
  if (IsOfOneWorker(job.home)) alone_.insert(job.number);
}

void CheckpointHomes::OutputKnown(const std::string& worker, const std::string& output_id) {
  const std::string alone = OutputRootOf({worker, 0, ""}).ToString();
  for (auto it = alone_.begin(); it != alone_.end();) {
    JobRecord* job = jobs_.Find(*it);
    if (job != nullptr && job->home == alone) {
      job->home = output_id;
      outbox_.JobChanged(*job);
    }
    it = job == nullptr || !IsOfOneWorker(job->home) ? alone_.erase(it) : std::next(it);
  }
}

bool CheckpointHomes::Tick(const std::function<void(JobRecord& job, const std::string& why)>& fail) {
  if (next_ == 0) {
    if (options_.Now() - looked_at_ < kBetweenLooksAtHomes) return false;
    looked_at_ = options_.Now();
  }
  // A job may have had its home for so long after it was last seen to have it.
  const absl::Duration unseen = std::max(last_round_, options_.Now() - looked_at_);
  bool changed = false;
  size_t done = 0;
  auto it = homed_.lower_bound(next_);
  while (it != homed_.end() && done < kMostInOneTick) {
    JobRecord* job = jobs_.Find(*it);
    if (job == nullptr || IsFinal(job->state)) {
      it = homed_.erase(it);
      continue;
    }
    ++it;  // Leave takes the job out
    done += job->state == PENDING ? 1 + workers_.All().size() : 1;
    const WithoutHome without = Without(*job);
    const absl::Duration gone = options_.Now() - job->home_usable;
    if (without == WithoutHome::kWaits) {
      job->home_usable = options_.Now();
    } else if (MayStart(*job, options_.Now()) && gone >= GraceOf(without) + unseen) {
      changed = true;
      if (without == WithoutHome::kBeginsAnew) {
        Leave(*job);
      } else {
        fail(*job, absl::StrCat("waited ", absl::FormatDuration(absl::Floor(gone, absl::Seconds(1))), " for ",
                                Nodes(*job), ", while others could have taken it: `adjoin retry ", job->id,
                                "` when they are back, or submit it anew with a checkpoint.resume_from that other "
                                "nodes have"));
      }
    }
  }
  next_ = it == homed_.end() ? 0 : *it;
  if (next_ == 0) last_round_ = options_.Now() - looked_at_;
  return changed;
}

void CheckpointHomes::Leave(JobRecord& job) {
  const absl::Duration gone = absl::Floor(options_.Now() - job.home_usable, absl::Seconds(1));
  outbox_.Event(
      job, "begins_anew",
      absl::StrCat("its checkpoints are on nodes that are gone: begins anew (they are with ",
                   absl::StrJoin(job.home_workers, ", "), ", not there for ", absl::FormatDuration(gone), ")"));
  if (!Resumes(job)) homed_.erase(job.number);
  job.home_usable = options_.Now();
  job.has_checkpoint = false;
  job.home.clear();
  job.home_workers.clear();
  job.history.best_step = 0;  // steps that it does again are progress
  outbox_.JobChanged(job);
}

void CheckpointHomes::ForgivePause(absl::Duration pause) {
  for (uint64_t number : homed_) {
    if (JobRecord* job = jobs_.Find(number)) job->home_usable += pause;
  }
}

}  // namespace adjoin
