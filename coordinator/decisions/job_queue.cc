#include "coordinator/decisions/job_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "coordinator/decisions/backfill.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {

void JobQueue::Tick() {
  if (options_.Now() < wake_at_) return;
  wake_at_ = absl::InfiniteDuration();
  Wake();
}

void JobQueue::Schedule(const std::function<void(JobRecord& job, const Assignment& workers)>& start) {
  if (!awake_ || !open_) return;
  awake_ = false;
  blocked_head_.clear();
  int budget = 0;  // slots that jobs behind a blocked head may take
  jobs_.VisitPending([&](JobRecord& job) {
    if (job.not_before > options_.Now()) wake_at_ = std::min(wake_at_, job.not_before);
    if (!MayStart(job, options_.Now())) return true;
    const int ranks = static_cast<int>(job.spec.ranks());
    if (!blocked_head_.empty()) {
      if (budget <= 0) return false;
      if (ranks > budget) return true;
    }
    Assignment before;
    for (const RankRecord& rank : job.attempt.ranks) before.push_back(rank.worker);
    const absl::StatusOr<Assignment> workers = Assign(
        options_.assignment, job.spec, workers_.FreeFor(job.spec.resources()), std::move(before), homes_.HomeOf(job));
    job.unassigned.clear();
    if (workers.ok()) {
      if (!blocked_head_.empty()) budget -= ranks;
      start(job, *workers);
      return true;
    }
    if (!absl::IsResourceExhausted(workers.status())) job.unassigned = std::string(workers.status().message());
    if (blocked_head_.empty()) {
      blocked_head_ = job.id;
      budget = BackfillBudgetBehind(job);
    }
    return true;
  });
}

int JobQueue::BackfillBudgetBehind(const JobRecord& head) const {
  int free = 0;
  std::map<uint64_t, int> slots_of;  // by job that runs
  for (const auto& [name, worker] : workers_.All()) {
    if (workers_.IsUsable(worker)) free += std::max(0, worker.FreeSlots());
    for (const auto& [number, slots] : worker.held) slots_of[number] += slots;
  }
  const Resources& wanted = head.spec.resources();
  const int ranks = static_cast<int>(head.spec.ranks());
  // The head waits for more than a number of slots: it is unknown which slots it could do without.
  const bool particular = wanted.max_ranks_per_node() > 0 || !wanted.node_label().empty() ||
                          (NeedsSharedOutput(head.spec) && !ShareAll(workers_.AllFor(wanted))) ||
                          homes_.LacksHome(head) || free >= ranks;
  if (particular)
    return homes_.CouldEverStart(head) ? 0 : free;  // it waits for more workers where it could never start
  std::vector<int> running;
  for (const auto& [number, slots] : slots_of) running.push_back(slots);
  return BackfillBudget(ranks, free, running);
}

void JobQueue::Close() {
  open_ = false;
  closed_at_ = options_.Now();
  Wake();
}

absl::Duration JobQueue::Open() {
  open_ = true;
  Wake();
  return options_.Now() - closed_at_;
}

void JobQueue::End(JobRecord& job, JobState state, const std::string& reason) {
  jobs_.SetState(job, state);
  job.reason = reason;
  job.unassigned.clear();
  job.ended = options_.wall_clock();
  job.held = false;
  if (!job.plan_hash.empty()) {
    job.plan_function = nullptr;  // the plan is in the store
    job.place_of = nullptr;
  }
  outbox_.JobChanged(job);
  outbox_.Event(job, absl::AsciiStrToLower(JobState_Name(state)), reason);
  Wake();
}

}  // namespace adjoin
