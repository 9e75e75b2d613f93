#include "coordinator/decisions/job_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
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
#include "coordinator/placement/shared_output.h"
#include "proto/message_limits.h"

namespace adjoin {

namespace {

// What decides whether the job finds slots: two jobs with the same text do or do not alike. "" where more than this
// decides, as after attempts that failed to start.
std::string RequestOf(const JobRecord& job) {
  if (!job.attempt.ranks.empty() || !job.failed_starts.workers.empty() || job.has_checkpoint) return "";
  return absl::StrCat(job.spec.ranks(), NeedsSharedOutput(job.spec) ? " shared " : " ",
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
  blocked_head_.clear();
  int budget = 0;  // slots that jobs behind a blocked head may take
  // What asked for slots and found none. A pass only takes slots, so none of it can find any later in the pass.
  std::set<std::string> in_vain;
  jobs_.VisitPending([&](JobRecord& job) {
    if (job.not_before > options_.Now()) wake_at_ = std::min(wake_at_, job.not_before);
    if (!MayStart(job, options_.Now())) return true;
    const int ranks = static_cast<int>(job.spec.ranks());
    if (!blocked_head_.empty()) {
      if (budget <= 0) return false;
      if (ranks > budget) return true;
    }
    const std::string request = RequestOf(job);
    if (!request.empty() && in_vain.count(request) > 0) {
      job.unassigned.clear();
      return true;
    }
    bool avoids = false;
    const absl::StatusOr<Assignment> workers = Choose(job, &avoids);
    job.unassigned.clear();
    if (workers.ok()) {
      if (!blocked_head_.empty()) budget -= ranks;
      start(job, *workers);
      return true;
    }
    if (avoids) return true;  // as during a backoff, others go first
    if (absl::IsResourceExhausted(workers.status())) in_vain.insert(request);
    if (!absl::IsResourceExhausted(workers.status())) job.unassigned = std::string(workers.status().message());
    if (blocked_head_.empty()) {
      blocked_head_ = job.id;
      budget = BackfillBudgetBehind(job);
    }
    return true;
  });
}

absl::StatusOr<Assignment> JobQueue::Choose(const JobRecord& job, bool* avoids) {
  Assignment before;
  for (const RankRecord& rank : job.attempt.ranks) before.push_back(rank.worker);
  const auto assign = [&](const std::vector<FreeSlots>& free) {
    return Assign(options_.assignment, job.spec, free, before, homes_.HomeOf(job));
  };
  const std::vector<FreeSlots> free = workers_.FreeFor(job.spec.resources());
  const auto& failed = job.failed_starts.workers;
  if (failed.empty()) return assign(free);
  std::vector<FreeSlots> others;
  absl::Duration until = absl::ZeroDuration();
  for (const FreeSlots& worker : free) {
    const auto there = failed.find(worker.worker);
    if (there == failed.end()) {
      others.push_back(worker);
    } else if (starts_.Avoids(job, worker.worker)) {
      until = std::max(until, there->second.avoid_until);
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

int JobQueue::BackfillBudgetBehind(const JobRecord& head) const {
  int free = 0;
  for (const FreeSlots& worker : workers_.FreeFor(Resources())) free += worker.slots;
  if (free == 0) return 0;
  std::map<uint64_t, int> slots_of;  // by job that runs
  for (const auto& [name, worker] : workers_.All()) {
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
  outbox_.JobChanged(job);
  outbox_.Event(job, absl::AsciiStrToLower(JobState_Name(state)), reason);
  Wake();
}

}  // namespace adjoin
