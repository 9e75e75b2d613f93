#include "coordinator/decisions/job_queue.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "coordinator/decisions/backfill.h"
#include "coordinator/decisions/memory_behind.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/decisions/user_limits.h"
#include "coordinator/placement/rank_programs.h"
#include "coordinator/placement/shared_output.h"
#include "proto/message_limits.h"

namespace adjoin {

namespace {

// What decides whether the job finds slots: two jobs with the same text do or do not alike. "" where more than this
// decides, as after attempts that failed to start.
std::string RequestOf(const JobRecord& job) {
  if (!job.attempt.ranks.empty() || job.failed_starts.Any() || job.has_checkpoint || !job.input_worker.empty()) {
    return "";
  }
  const RankNeed need = NeedOf(job);
  return absl::StrCat(job.spec.ranks(), NeedsSharedOutput(job.spec) ? " shared " : " ", need.memory, " ", need.gpu, " ",
                      job.spec.resources().SerializeAsString());
}

}  // namespace

void JobQueue::Tick() {
  if (options_.Now() < wake_at_) return;
  wake_at_ = absl::InfiniteDuration();
  Wake();
}

void JobQueue::Schedule(const std::function<void(JobRecord& job, const Assignment& workers)>& start) {
  if (!awake_ || !open_) return;
  awake_ = false;
  // What waited for slots keeps its place before others of its priority, whoever has fewer slots meanwhile: or else
  // jobs that come later could take what it waits for, again and again.
  const std::string head = std::exchange(blocked_head_, "");
  Backfill behind;  // what jobs behind a blocked head may take
  // What asked for slots and found none. A pass only takes slots, so none of it can find any later in the pass.
  std::set<std::string> in_vain;
  using Next = WaitingJobs::Next;
  jobs_.VisitPending(jobs_.Find(head), [&](JobRecord& job) {
    if (job.not_before > options_.Now()) wake_at_ = std::min(wake_at_, job.not_before);
    if (!MayStart(job, options_.Now())) return Next::kJob;
    if (!blocked_head_.empty() && behind.IsUsedUp()) return Next::kStop;
    const int ranks = static_cast<int>(job.spec.ranks());
    if (IsLimited(job) && !MayTakeSlots(options_.user_limits, job.owner, job.spec.ranks(), jobs_.SlotsOfUserOf(job))) {
      job.unassigned.clear();
      // The user's later jobs do not get ahead of it, unless it could never start.
      return job.spec.ranks() > options_.user_limits.slots.Of(job.owner) ? Next::kJob : Next::kUser;
    }
    const bool with_gpus = job.spec.resources().gpus() > 0;
    if (!blocked_head_.empty() && !behind.Allows(ranks, with_gpus)) return Next::kJob;
    const std::string request = RequestOf(job);
    if (!request.empty() && in_vain.count(request) > 0) {
      job.unassigned.clear();
      return Next::kJob;
    }
    bool avoids = false;
    const absl::StatusOr<Assignment> workers = Choose(job, blocked_head_.empty() ? nullptr : &behind, &avoids);
    job.unassigned.clear();
    if (workers.ok()) {
      if (!blocked_head_.empty()) behind.Take(ranks, with_gpus);
      start(job, *workers);
      return Next::kJob;
    }
    if (avoids) return Next::kJob;  // as during a backoff, others go first
    if (absl::IsResourceExhausted(workers.status())) in_vain.insert(request);
    if (!absl::IsResourceExhausted(workers.status())) job.unassigned = std::string(workers.status().message());
    if (blocked_head_.empty()) {
      blocked_head_ = job.id;
      behind = BackfillBehind(job);
    }
    return Next::kJob;
  });
}

absl::StatusOr<Assignment> JobQueue::Choose(const JobRecord& job, const Backfill* behind, bool* avoids) {
  Assignment before;
  for (const RankRecord& rank : job.attempt.ranks) before.push_back(rank.worker);
  const RankNeed need = NeedOf(job);
  const auto assign = [&](const std::vector<FreeSlots>& free) {
    return Assign(options_.assignment, job.spec, free, before, homes_.HomeOf(job), need);
  };
  const bool beside_gpus = behind != nullptr && behind->KeepsGpuSlotsFrom(job.spec.resources().gpus() > 0);
  std::vector<FreeSlots> free = workers_.FreeFor(job.spec.resources(), beside_gpus);
  if (behind != nullptr) behind->memory().Limit(need.memory, workers_, free);
  if (!job.failed_starts.Any()) return assign(free);
  std::vector<FreeSlots> others;
  absl::Duration until = absl::ZeroDuration();
  for (const FreeSlots& worker : free) {
    const std::string name(worker.worker);
    if (job.failed_starts.On(name)) {
      until = std::max(until, starts_.AvoidedUntil(job, name));
    } else {
      others.push_back(worker);
    }
  }
  absl::StatusOr<Assignment> elsewhere = assign(others);
  if (elsewhere.ok()) return elsewhere;
  if (until > options_.Now() && starts_.CouldRunElsewhere(job)) {
    wake_at_ = std::min(wake_at_, until);
    *avoids = true;
    return elsewhere;
  }
  return assign(free);
}

Backfill JobQueue::BackfillBehind(const JobRecord& head) const {
  int slots = 0, gpus = 0, beside_gpus = 0;
  for (const FreeSlots& worker : workers_.FreeFor(Resources())) {
    slots += worker.slots;
    gpus += worker.gpus;
    beside_gpus += std::max(0, worker.slots - worker.gpus);
  }
  if (slots == 0) return {};
  const Resources& wanted = head.spec.resources();
  const int ranks = static_cast<int>(head.spec.ranks());
  const bool with_gpus = wanted.gpus() > 0;
  // The head waits for more than a number of slots, or of GPUs: it is unknown which it could do without.
  const MemoryBehind memory = MemoryBehind::Of(NeedOf(head).memory, workers_);
  const bool shares = NeedsSharedOutput(head.spec) || !head.input_worker.empty();
  bool particular = memory.may_bind() || wanted.max_ranks_per_node() > 0 || !wanted.node_label().empty() ||
                    (with_gpus ? gpus : slots) >= ranks || (with_gpus && workers_.AnyLacksSlotsForGpus());
  // What goes over all workers comes last.
  if (!particular && (shares || ranks > 1)) {
    const std::vector<FreeSlots> all = workers_.AllFor(wanted);
    particular = (shares && !ShareAll(all)) || (ranks > 1 && !HaveOneProgram(all));
  }
  particular = particular || homes_.LacksHome(head);
  // It waits for more workers where it could never start.
  if (particular && !homes_.CouldEverStart(head)) return Backfill::OfSlots(slots);
  std::vector<int> running;
  for (const auto& [number, held] : workers_.HeldByJob()) running.push_back(with_gpus ? held.gpus : held.slots);
  if (with_gpus) {
    return Backfill::BesideGpus(beside_gpus, particular ? 0 : BackfillBudget(ranks, gpus, running), memory);
  }
  // Workers on which no rank of the head ever fits are of no use to it.
  if (memory.may_bind()) return Backfill::OfSlots(memory.SlotsOutside(workers_), memory);
  return Backfill::OfSlots(particular ? 0 : BackfillBudget(ranks, slots, running), memory);
}

void JobQueue::Close(const std::string& why) {
  why_closed_ = why;
  if (!std::exchange(open_, false)) return;
  closed_at_ = options_.Now();
  Wake();
}

absl::Duration JobQueue::Open() {
  open_ = true;
  why_closed_.clear();
  Wake();
  return options_.Now() - closed_at_;
}

void JobQueue::End(JobRecord& job, JobState state, const std::string& reason) {
  jobs_.SetState(job, state);
  job.reason = PrintableText(reason, kMaxErrorBytes);
  job.unassigned.clear();
  job.ended = options_.wall_clock();
  job.held = false;
  job.written = nullptr;  // it is in the store, and a plan for another try is made from the spec
  job.place_of = nullptr;
  if (state == SUCCEEDED) {
    job.replaced_by = 0;
    for (JobRecord* other : jobs_.SharingOutput(job)) {
      if (!IsFinal(other->state) || !LeftResults(*other)) continue;
      other->replaced_by = job.number;
      outbox_.JobChanged(*other);
    }
  }
  outbox_.JobChanged(job);
  outbox_.Event(job, absl::AsciiStrToLower(JobState_Name(state)), reason);
  Wake();
}

}  // namespace adjoin
