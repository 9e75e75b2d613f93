#include "tests/fuzz/simulated_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/whole_answers.h"
#include "tests/fuzz/check.h"

namespace adjoin {
namespace {

absl::StatusOr<PlannedJob> MakePlan(const std::vector<DatasetSize>&) { return PlannedJob{"plan", "hash"}; }

// Does the same as Store::Apply and Store::Load, in memory.
void Apply(const StoreChanges& changes, StoredState& state) {
  for (const StoredSubmission& row : changes.submissions) {
    state.submissions[row.job()] = row;
    state.last_job = std::max(state.last_job, row.job());
  }
  for (const StoredJob& row : changes.jobs) {
    FuzzCheck(state.submissions.count(row.number()) > 0, "a job is stored with what was submitted");
    auto same = std::find_if(state.jobs.begin(), state.jobs.end(),
                             [&](const StoredJob& each) { return each.number() == row.number(); });
    if (same == state.jobs.end()) {
      state.jobs.push_back(row);
    } else {
      *same = row;
    }
  }
  std::sort(state.jobs.begin(), state.jobs.end(),
            [](const StoredJob& a, const StoredJob& b) { return a.number() < b.number(); });
  for (const StoredAttempt& row : changes.attempts) {
    StoredAttempt& stored = state.attempts[row.job()];
    if (row.epoch() >= stored.epoch()) stored = row;
  }
  for (const JobEvent& event : changes.events) {
    FuzzCheck(event.sequence() > state.last_event, "events are numbered in order");
    state.last_event = event.sequence();
  }
  if (changes.last_epoch > 0) {
    FuzzCheck(changes.last_epoch >= state.last_epoch, "epochs grow");
    state.last_epoch = changes.last_epoch;
  }
  if (changes.age.has_value()) {
    FuzzCheck(!state.age.has_value() || changes.age->age >= state.age->age, "ages grow");
    state.age = changes.age;
  }
  for (const StoredKey& row : changes.keys) {
    auto same = [&](const StoredKey& each) { return each.owner == row.owner && each.key == row.key; };
    state.keys.erase(std::remove_if(state.keys.begin(), state.keys.end(), same), state.keys.end());
    if (row.job != 0) state.keys.push_back(row);
  }
  for (const StoredFolder& row : changes.folders) {
    auto same = [&](const StoredFolder& each) { return each.folder == row.folder && each.owner == row.owner; };
    state.folders.erase(std::remove_if(state.folders.begin(), state.folders.end(), same), state.folders.end());
    if (row.job != 0) state.folders.push_back(row);
  }
  for (uint64_t number : changes.forgotten) {
    state.jobs.erase(std::remove_if(state.jobs.begin(), state.jobs.end(),
                                    [&](const StoredJob& job) { return job.number() == number; }),
                     state.jobs.end());
    state.submissions.erase(number);
    state.attempts.erase(number);
  }
}

}  // namespace

SimulatedCluster::SimulatedCluster(int daemons, uint32_t slots) : slots_(slots), daemons_(daemons) {
  store_.store_id = kStoreId;
  for (size_t i = 0; i < daemons_.size(); ++i) daemons_[i].name = absl::StrCat("worker-", i);
  StartCoordinator();
}

bool SimulatedCluster::IsOfDaemon(ConnectionId connection) const {
  return std::any_of(daemons_.begin(), daemons_.end(),
                     [&](const Daemon& daemon) { return daemon.connection == connection && connection != 0; });
}

bool SimulatedCluster::IsCommitted(const std::string& job_id) {
  const absl::StatusOr<JobSummary> job = SummaryOf(*service_, job_id);
  return job.ok() && std::any_of(store_.jobs.begin(), store_.jobs.end(), [&](const StoredJob& row) {
           return row.number() == JobNumberOf(job_id) && row.state() == job->state();
         });
}

void SimulatedCluster::StartCoordinator() {
  CoordinationOptions options;
  options.monotonic_clock = [this] { return now_; };
  options.wall_clock = [this] { return absl::FromUnixSeconds(1700000000) + now_ + wall_ahead_; };
  options.lease = kLease;
  service_ = std::make_unique<CoordinationService>(options);
  service_->Restore(store_);
}

// ---------------------------------------------------------------------------------------------------------------------
// Time

void SimulatedCluster::Advance(absl::Duration time) {
  now_ += time;
  // Daemons and ranks hold to the lease by their own clocks, whatever the coordinator does.
  for (Daemon& daemon : daemons_) {
    if (now_ < daemon.lease_from + kLease) continue;
    for (const Pick& pick : Alive(daemon)) EndRank(daemon, pick.key, pick.rank, RANK_LOST);
  }
}

void SimulatedCluster::Tick() { service_->Tick(); }

// ---------------------------------------------------------------------------------------------------------------------
// Users

std::string SimulatedCluster::JobId(uint32_t job) const {
  return absl::StrCat("job-", store_.last_job == 0 ? 1 : 1 + job % store_.last_job);
}

void SimulatedCluster::Submit(const JobSpec& spec, const std::string& key) {
  NewJob job;
  job.spec = spec;
  job.idempotency_key = key;
  job.priority = static_cast<int32_t>(spec.seed() % 3);
  service_->Submit(std::move(job)).IgnoreError();
}

void SimulatedCluster::Cancel(uint32_t job) { service_->Cancel(JobId(job)).IgnoreError(); }

void SimulatedCluster::Retry(uint32_t job) {
  if (service_->Retry(JobId(job)).ok()) retried_.insert(JobId(job));
}

void SimulatedCluster::Hold(uint32_t job, bool held) { service_->Hold(JobId(job), held).IgnoreError(); }

// ---------------------------------------------------------------------------------------------------------------------
// The coordinator

void SimulatedCluster::MakePlans(bool ok) {
  for (PlanRequest& request : service_->TakePlanRequests()) plan_requests_.push_back(std::move(request));
  std::vector<PlanRequest> requests = std::move(plan_requests_);
  plan_requests_.clear();
  for (const PlanRequest& request : requests) {
    service_->Planned(request.job_id, ok ? MakePlan(request.sizes)
                                         : absl::StatusOr<PlannedJob>(absl::InvalidArgumentError("no such plan")));
  }
}

void SimulatedCluster::Commit() {
  const StoreChanges changes = service_->TakeChanges();
  std::vector<Action> actions = service_->TakeActions();
  std::map<uint64_t, JobState> before;
  for (const StoredJob& job : store_.jobs) before[job.number()] = job.state();
  Apply(changes, store_);
  for (const StoredJob& job : store_.jobs) {
    auto was = before.find(job.number());
    if (was == before.end() || !IsFinal(was->second) || job.state() == was->second) continue;
    const std::string id = absl::StrCat("job-", job.number());
    FuzzCheck(retried_.count(id) > 0, absl::StrCat(id, " had ended and is ", JobState_Name(job.state())));
  }
  retried_.clear();
  service_->Durable(changes.submissions);
  Deliver(std::move(actions));
}

void SimulatedCluster::FailCommit() {
  StoreChanges changes = service_->TakeChanges();
  std::vector<Action> actions = service_->TakeActions();
  std::vector<uint64_t> numbers;
  for (const StoredSubmission& submission : changes.submissions) numbers.push_back(submission.job());
  service_->Withdraw(changes.submissions, absl::UnavailableError("the disk is full"));
  changes.Withdraw(numbers);
  // The rest is written once there is room again; this store has it at once.
  Apply(changes, store_);
  retried_.clear();
  Deliver(std::move(actions));
}

void SimulatedCluster::CrashCoordinator() {
  // An urgent message may have been sent just before.
  std::vector<Action> urgent;
  for (Action& action : service_->TakeActions()) {
    if (action.urgent) urgent.push_back(std::move(action));
  }
  Deliver(std::move(urgent));
  for (Daemon& daemon : daemons_) {
    // Some of what was on its way to a daemon arrives; nothing that was on its way to the coordinator does.
    daemon.connection = 0;
    daemon.outbox.clear();
  }
  plan_requests_.clear();
  retried_.clear();
  StartCoordinator();
}

void SimulatedCluster::Deliver(std::vector<Action> actions) {
  for (Action& action : actions) {
    if (action.message.has_start_ranks()) {
      const uint64_t epoch = action.message.header().epoch();
      if (started_epochs_.insert(epoch).second) {
        FuzzCheck(epoch > last_started_epoch_ || epoch + 64 > last_started_epoch_, "epochs of new attempts grow");
        FuzzCheck(epoch <= store_.last_epoch, "an attempt's epoch is stored before it starts");
        last_started_epoch_ = std::max(last_started_epoch_, epoch);
      }
    }
    for (size_t i = 0; i < daemons_.size(); ++i) {
      Daemon& daemon = daemons_[i];
      if (daemon.connection != action.to || action.to == 0) continue;
      if (action.close) {
        daemon.connection = 0;
        daemon.inbox.clear();
        daemon.outbox.clear();
        service_->WorkerDisconnected(action.to, "closed");
      } else {
        daemon.inbox.push_back(std::move(action.message));
      }
      break;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Properties

void SimulatedCluster::Check() {
  std::map<std::string, std::set<uint64_t>> running;
  for (const Daemon& daemon : daemons_) {
    const std::vector<Pick> picks = Alive(daemon);
    uint32_t gpus = 0;
    for (const Pick& pick : picks) gpus += daemon.attempts.at(pick.key).gpus;
    const int has = GpusOf(static_cast<int>(&daemon - daemons_.data()));
    FuzzCheck(gpus <= static_cast<uint32_t>(has), absl::StrCat(daemon.name, " has ranks for ", gpus, " GPUs on ", has));
    FuzzCheck(picks.size() <= slots_, absl::StrCat(daemon.name, " has ", picks.size(), " ranks in ", slots_, " slots"));
    for (const Pick& pick : picks) running[pick.key.first].insert(pick.key.second);
  }
  for (const auto& [job, epochs] : running) {
    FuzzCheck(epochs.size() <= 1, absl::StrCat(job, " runs ", epochs.size(), " times at once"));
  }
  const ListJobsResponse list = *WholeList(*service_);
  for (const WorkerSummary& worker : list.worker()) {
    FuzzCheck(worker.free_slots() <= worker.slots(),
              absl::StrCat(worker.name(), " has ", worker.free_slots(), " of ", worker.slots(), " slots free"));
    FuzzCheck(worker.free_gpus() <= worker.gpus(),
              absl::StrCat(worker.name(), " has ", worker.free_gpus(), " of ", worker.gpus(), " GPUs free"));
  }
}

void SimulatedCluster::Settle() {
  MakePlans(true);
  Commit();
  for (size_t i = 0; i < daemons_.size(); ++i) {
    const int index = static_cast<int>(i);
    Connect(index);
    while (!daemons_[i].inbox.empty()) DaemonReads(index);
    Heartbeat(index, /*draining=*/false);
    const std::vector<Pick> picks = Alive(daemons_[i]);
    for (uint32_t which = 0; which < picks.size(); ++which) RankReady(index, which);
    for (const Pick& pick : picks) {
      const DaemonAttempt& attempt = daemons_[i].attempts.at(pick.key);
      if (attempt.stopping) {
        EndRank(daemons_[i], pick.key, pick.rank, RANK_PEER_FAILED);
      } else if (attempt.ranks.at(pick.rank).connected()) {
        EndRank(daemons_[i], pick.key, pick.rank, RANK_SUCCEEDED);
      }
    }
    while (!daemons_[i].outbox.empty()) CoordinatorReads(index);
  }
  Check();
  Advance(absl::Seconds(1));
  Tick();
}

std::string SimulatedCluster::WhatWaits() {
  const ListJobsResponse list = *WholeList(*service_);
  for (const JobSummary& job : list.job()) {
    if (IsFinal(job.state()) || job.held()) continue;
    return absl::StrCat(job.job_id(), " is ", JobState_Name(job.state()), " (", job.reason(), ")");
  }
  for (const WorkerSummary& worker : list.worker()) {
    if (worker.free_slots() != worker.slots()) return absl::StrCat(worker.name(), " keeps slots that nothing uses");
    if (worker.free_gpus() != worker.gpus()) return absl::StrCat(worker.name(), " keeps GPUs that nothing uses");
  }
  return "";
}

void SimulatedCluster::ExpectEverythingEnds() {
  // The longest waits one after the other: a lease, the backoff, the time to start.
  constexpr int kRounds = 600;
  std::string waits = "nothing was tried";
  for (int round = 0; round < kRounds && !waits.empty(); ++round) {
    Settle();
    waits = WhatWaits();
  }
  FuzzCheck(waits.empty(), absl::StrCat(waits, " though all is well"));
}

}  // namespace adjoin
