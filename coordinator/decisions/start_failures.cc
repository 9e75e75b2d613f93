#include "coordinator/decisions/start_failures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {
namespace {

constexpr absl::Duration kFirstTime = absl::Seconds(30);
constexpr absl::Duration kLongestTime = absl::Minutes(10);
constexpr size_t kEnoughWitnesses = 2;
constexpr int kEnoughWorkers = 3;
constexpr uint32_t kEnoughFailures = 3;  // in a row
constexpr uint32_t kEnoughAgainstOthers = 2;
constexpr size_t kMostDoubted = 10000;
constexpr absl::Duration kTimeOfOthers = absl::Seconds(2);  // who have not failed there: a trial is theirs first

// 30 s the first time.
absl::Duration TimeOf(int times) {
  return std::min(kLongestTime, kFirstTime * std::ldexp(1.0, std::min(times, 20) - 1));
}

}  // namespace

bool StartFailures::CouldRunWhere(const JobRecord& job,
                                  const std::function<bool(const std::string& worker)>& may) const {
  std::vector<FreeSlots> usable;
  for (const FreeSlots& worker : workers_.AllInTimeFor(job.spec.resources())) {
    if (may(std::string(worker.worker))) usable.push_back(worker);
  }
  return Assign(options_.assignment, job.spec, usable, /*before=*/{}, homes_.HomeOf(job), NeedOf(job)).ok();
}

bool StartFailures::CouldRunElsewhere(const JobRecord& job) const {
  return CouldRunWhere(job, [&](const std::string& worker) { return !job.failed_starts.On(worker); });
}

// True where other jobs have started on a worker since this one failed there.
bool StartFailures::OthersStartWhere(const JobRecord& job) const {
  return std::any_of(job.failed_starts.workers.begin(), job.failed_starts.workers.end(), [&](const auto& failed) {
    const WorkerRecord* worker = workers_.Find(failed.first);
    return worker != nullptr && worker->last_start > job.failed_starts.since;
  });
}

absl::Duration StartFailures::AvoidedUntil(const JobRecord& job, const std::string& worker) const {
  // Starts of other jobs tell nothing of this one's files.
  const auto files = job.failed_starts.without_files.find(worker);
  const absl::Duration until =
      files == job.failed_starts.without_files.end() ? -absl::InfiniteDuration() : files->second.avoid_until;
  const auto there = job.failed_starts.workers.find(worker);
  const WorkerRecord* record = workers_.Find(worker);
  if (there == job.failed_starts.workers.end() || (record != nullptr && record->last_start > there->second.failed_at)) {
    return until;
  }
  return std::max({until, there->second.avoid_until, workers_.TrialAt(worker) + kTimeOfOthers});
}

// True where attempts have started on the worker and nothing but this job speaks against it since.
bool StartFailures::IsTrusted(const std::string& worker, uint64_t but) const {
  const WorkerRecord* record = workers_.Find(worker);
  if (record == nullptr || record->last_start == -absl::InfiniteDuration()) return false;
  const auto found = doubts_.find(worker);
  if (found == doubts_.end()) return true;
  const Doubts& doubts = found->second;
  return doubts.times == 0 && std::all_of(doubts.witnesses.begin(), doubts.witnesses.end(),
                                          [but](const Witness& witness) { return witness.job == but; });
}

bool StartFailures::IsLast(const std::string& worker) const {
  return std::none_of(workers_.All().begin(), workers_.All().end(),
                      [&](const auto& other) { return other.first != worker && workers_.IsUsable(other.second); });
}

EndCause StartFailures::Judge(JobRecord& job, const StartFailure& failure) {
  const absl::Duration now = options_.Now();
  FailedStarts& own = job.failed_starts;
  const bool from_outside = failure.worker_lost || failure.killed;
  if (failure.files_fault && failure.cause == EndCause::kNodeLost && !from_outside && !failure.node_fault) {
    for (const std::string& worker : failure.workers) {
      FailedStarts::Place& there = own.without_files[worker];
      there.failed_at = now;
      there.avoid_until = now + TimeOf(++there.times);
    }
    return failure.cause;
  }
  if (own.workers.empty()) own.since = now;
  bool others_had_started = false;
  for (const std::string& worker : failure.workers) {
    FailedStarts::Place& there = own.workers[worker];
    const WorkerRecord* record = workers_.Find(worker);
    others_had_started =
        others_had_started || (there.times > 0 && record != nullptr && record->last_start > there.failed_at);
    there.failed_at = now;
    if (++there.times > 1 || !from_outside) there.avoid_until = now + TimeOf(there.times);
    if (failure.node_fault) {
      NodeFault(worker, failure.reason);
    } else if (failure.worker_lost) {  // once, for all jobs that started there
      Doubt(worker, {.incarnation = record == nullptr ? 0 : record->hello.incarnation()}, failure.reason);
    } else if (own.workers.size() == 1) {
      Doubt(worker, {.job = job.number}, failure.reason);
    }
  }
  if (own.workers.size() > 1) Withdraw(job.number, /*is_gone=*/false);
  if (from_outside || failure.node_fault) return failure.cause;
  ++own.in_row;
  if (others_had_started) ++own.against_others;
  // Bad jobs that are each other's reason to distrust the workers would otherwise be started for ever.
  const bool against_others = own.against_others >= kEnoughAgainstOthers;
  if (failure.cause == EndCause::kNodeLost) {
    const bool is_own = against_others || (own.in_row >= kEnoughFailures && OthersStartWhere(job));
    return is_own ? EndCause::kRankLost : failure.cause;
  }
  if (against_others) return failure.cause;
  const auto trusted = std::count_if(own.workers.begin(), own.workers.end(),
                                     [&](const auto& there) { return IsTrusted(there.first, job.number); });
  // That the job's files could not be reached somewhere does not speak against starting there.
  const auto untried = [&](const std::string& worker) { return own.workers.count(worker) == 0; };
  return trusted < kEnoughWorkers && CouldRunWhere(job, untried) ? EndCause::kNodeLost : failure.cause;
}

bool StartFailures::Connected(JobRecord& job) {
  bool lifted = false;
  for (const RankRecord& rank : job.attempt.ranks) {
    lifted = doubts_.erase(rank.worker) > 0 || lifted;
    if (!workers_.Trust(rank.worker)) continue;
    lifted = true;
    outbox_.Log(absl::StrCat("worker ", rank.worker, " is no longer set aside"));
  }
  // It starts here, so it was not the job.
  const FailedStarts failed = std::exchange(job.failed_starts, {});
  for (const auto& [worker, there] : failed.workers) {
    const bool here = std::any_of(job.attempt.ranks.begin(), job.attempt.ranks.end(),
                                  [name = &worker](const RankRecord& rank) { return rank.worker == *name; });
    if (!here && workers_.Find(worker) != nullptr && workers_.At(worker).last_start < failed.since) {
      Doubt(worker, {.job = job.number}, absl::StrCat(job.id, " ", kStartedElsewhere));
    }
  }
  return lifted;
}

void StartFailures::NodeFault(const std::string& worker, const std::string& reason) {
  if (doubts_.size() >= kMostDoubted) doubts_.clear();  // names of workers that are gone
  Doubts& doubts = doubts_[worker];
  doubts.node_fault = true;
  SetAside(worker, doubts, reason);
}

void StartFailures::Doubt(const std::string& worker, Witness witness, const std::string& reason) {
  if (doubts_.size() >= kMostDoubted) doubts_.clear();
  Doubts& doubts = doubts_[worker];
  doubts.witnesses.insert(witness);
  const bool enough = doubts.times > 0 || doubts.witnesses.size() >= kEnoughWitnesses;  // of a trial, one failure is
  if (enough && !IsLast(worker)) SetAside(worker, doubts, reason);
}

void StartFailures::Gone(const JobRecord& job) {
  if (!job.failed_starts.workers.empty()) Withdraw(job.number, /*is_gone=*/true);
}

// Workers that too few others speak against are no longer set aside: where the job only failed elsewhere, too, as jobs
// also do that meet two broken workers, those that have failed no trial yet; where it is gone, all. Jobs that fail
// everywhere would otherwise keep workers from others long after.
void StartFailures::Withdraw(uint64_t job, bool is_gone) {
  for (auto& [worker, doubts] : doubts_) {
    if (doubts.witnesses.erase({.job = job}) == 0 || doubts.node_fault) continue;
    const bool is_open = is_gone ? doubts.times > 0 : doubts.times == 1;
    if (!is_open || doubts.witnesses.size() >= kEnoughWitnesses) continue;
    doubts.times = 0;
    if (workers_.EndSetAside(worker)) outbox_.Log(absl::StrCat("worker ", worker, " is no longer set aside"));
  }
}

void StartFailures::SetAside(const std::string& worker, Doubts& doubts, const std::string& reason) {
  if (workers_.IsSetAside(worker)) return;  // for an attempt that had started before
  const absl::Duration time = TimeOf(++doubts.times);
  workers_.SetAside(worker, options_.Now() + time, reason, doubts.node_fault);
  outbox_.Log(absl::StrCat("worker ", worker, " is set aside for ", absl::FormatDuration(time), ": ", reason));
}

}  // namespace adjoin
