#include "coordinator/coordination_service.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/placement.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

std::string Ranks(const std::vector<uint32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// "worker-0 (2), worker-1 (2)"
std::string Workers(const Attempt& attempt) {
  std::map<std::string, int> ranks;
  for (const RankRecord& rank : attempt.ranks) ++ranks[rank.worker];
  return absl::StrJoin(ranks, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " (", entry.second, ")");
  });
}

}  // namespace

CoordinationService::CoordinationService(CoordinationOptions options)
    : options_(std::move(options)), jobs_(options_.first_job_number) {}

int CoordinationService::Worker::FreeSlots() const {
  int used = 0;
  for (const auto& [job, slots] : held) used += slots;
  return static_cast<int>(hello.slots()) - used;
}

void CoordinationService::Send(ConnectionId to, uint64_t epoch, CoordinatorMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  actions_.push_back({.to = to, .close = false, .message = std::move(message)});
}

// ---------------------------------------------------------------------------------------------------------------------
// Submission, data check, cancel

std::string CoordinationService::Submit(const JobSpec& spec, PlanFunction plan_function, PlaceFunction place_of) {
  JobRecord& job = jobs_.Add(spec, std::move(plan_function));
  job.place_of = std::move(place_of);
  std::string id = job.id;
  job.submitted = options_.wall_clock();
  ForgetOldJobs();
  CheckData(job);
  Schedule();
  return id;
}

void CoordinationService::CheckData(JobRecord& job) {
  if (job.spec.dataset().empty() && job.spec.weights().init_from().empty()) {
    OnProbeResult(0, [&] {
      ProbeResult nothing_to_check;
      nothing_to_check.set_request_id(job.id);
      return nothing_to_check;
    }());
    return;
  }
  if (workers_.empty()) {
    job.data_check = DataCheck::kWaitsForWorker;
    job.accepted = true;
    return;
  }
  job.data_check = DataCheck::kAsked;
  job.checked_by = workers_.begin()->first;
  job.check_deadline = Now() + options_.probe_timeout;
  CoordinatorMessage message;
  ProbeData& probe = *message.mutable_probe_data();
  probe.set_request_id(job.id);
  *probe.mutable_dataset() = job.spec.dataset();
  probe.set_init_from(job.spec.weights().init_from());
  Send(job.checked_by, 0, std::move(message));
}

void CoordinationService::CheckWaitingJobs() {
  for (JobRecord* job : jobs_.Pending()) {
    if (job->data_check == DataCheck::kWaitsForWorker) CheckData(*job);
  }
}

void CoordinationService::OnProbeResult(ConnectionId connection, const ProbeResult& result) {
  JobRecord* job = jobs_.Find(result.request_id());
  if (job == nullptr || job->state != PENDING || job->data_check == DataCheck::kDone || job->checked_by != connection) {
    return;
  }
  if (!result.error().empty()) {
    const std::string place = job->place_of == nullptr ? "" : job->place_of(result.field());
    EndCheck(*job, absl::InvalidArgumentError(absl::StrCat(place, place.empty() ? "" : ": ", result.error(), " (as ",
                                                           workers_.at(connection).hello.name(), " sees it)")));
    return;
  }
  absl::StatusOr<PlannedJob> planned = job->plan_function({result.dataset().begin(), result.dataset().end()});
  if (!planned.ok()) {
    EndCheck(*job, planned.status());
    return;
  }
  job->planned = *std::move(planned);
  job->data_check = DataCheck::kDone;
  job->accepted = true;
}

void CoordinationService::EndCheck(JobRecord& job, const absl::Status& failure) {
  if (job.accepted) {
    End(job, FAILED, std::string(failure.message()));
  } else {
    refused_[job.id] = failure;
    jobs_.Erase(job.number);
  }
}

Admission CoordinationService::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  if (auto it = refused_.find(job_id); it != refused_.end()) {
    *reason = std::move(it->second);
    refused_.erase(it);
    return Admission::kRefused;
  }
  JobRecord* job = jobs_.Find(job_id);
  return job != nullptr && job->accepted ? Admission::kAccepted : Admission::kUndecided;
}

absl::StatusOr<JobState> CoordinationService::Cancel(const std::string& reference) {
  absl::StatusOr<JobRecord*> job = jobs_.Resolve(reference);
  if (!job.ok()) return job.status();
  if (!IsFinal((*job)->state)) {
    (*job)->accepted = true;
    End(**job, CANCELLED, "cancelled by a user");
    Schedule();
  }
  return (*job)->state;
}

// ---------------------------------------------------------------------------------------------------------------------
// Workers

absl::Status CoordinationService::WorkerConnected(ConnectionId connection, const WorkerHello& hello) {
  if (hello.name().empty()) return absl::InvalidArgumentError("the worker gives no name");
  if (hello.slots() == 0) return absl::InvalidArgumentError(absl::StrCat(hello.name(), " offers no slots"));
  for (const auto& [other, worker] : workers_) {
    if (worker.hello.name() != hello.name()) continue;
    if (worker.hello.incarnation() != hello.incarnation()) {
      return absl::AlreadyExistsError(absl::StrCat("a worker named ", hello.name(), " is connected already, from ",
                                                   worker.hello.address(), ": give this one another --name"));
    }
    actions_.push_back({.to = other, .close = true, .message = {}});
    WorkerLost(other, "it connected again");
    break;
  }
  workers_[connection] = Worker{hello, Now(), {}};
  notes_.push_back(absl::StrCat("worker ", hello.name(), " connected with ", hello.slots(), " slots"));
  CoordinatorMessage message;
  message.mutable_welcome()->set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat));
  Send(connection, 0, std::move(message));
  CheckWaitingJobs();
  Schedule();
  return absl::OkStatus();
}

void CoordinationService::WorkerLost(ConnectionId connection, const std::string& why) {
  auto it = workers_.find(connection);
  if (it == workers_.end()) return;
  Worker worker = std::move(it->second);
  workers_.erase(it);
  notes_.push_back(absl::StrCat("worker ", worker.hello.name(), " is lost: ", why));
  for (JobRecord* job : jobs_.All()) {
    if (job->attempt.holders.erase(connection) == 0 || IsFinal(job->state)) continue;
    std::vector<uint32_t> lost;
    for (size_t r = 0; r < job->attempt.ranks.size(); ++r) {
      if (job->attempt.ranks[r].connection == connection) lost.push_back(r);
    }
    End(*job, FAILED, absl::StrCat(worker.hello.name(), " was lost (", why, ") with ", Ranks(lost)));
  }
  for (JobRecord* job : jobs_.Pending()) {
    if (job->data_check == DataCheck::kAsked && job->checked_by == connection) CheckData(*job);
  }
  Schedule();
}

void CoordinationService::WorkerHeard(ConnectionId connection) {
  auto worker = workers_.find(connection);
  if (worker != workers_.end()) worker->second.last_heard = Now();
}

void CoordinationService::WorkerSaid(ConnectionId connection, const WorkerMessage& message) {
  if (workers_.count(connection) == 0) return;
  WorkerHeard(connection);
  uint64_t epoch = message.header().epoch();
  switch (message.kind_case()) {
    case WorkerMessage::kProbeResult:
      OnProbeResult(connection, message.probe_result());
      break;
    case WorkerMessage::kRankReady: {
      JobRecord* job = AttemptOf(connection, message.rank_ready().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(connection, *job, message.rank_ready().rank());
      if (rank != nullptr) OnRankReady(*job, *rank, message.rank_ready());
      break;
    }
    case WorkerMessage::kRankUpdate: {
      JobRecord* job = AttemptOf(connection, message.rank_update().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(connection, *job, message.rank_update().rank());
      if (rank != nullptr) OnRankUpdate(*job, message.rank_update().rank(), *rank, message.rank_update());
      break;
    }
    case WorkerMessage::kRankEnded: {
      JobRecord* job = AttemptOf(connection, message.rank_ended().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(connection, *job, message.rank_ended().rank());
      if (rank != nullptr) OnRankEnded(*job, *rank, message.rank_ended());
      break;
    }
    case WorkerMessage::kAttemptCleared:
      if (JobRecord* job = AttemptOf(connection, message.attempt_cleared().job_id(), epoch)) OnCleared(*job, connection);
      break;
    default:
      break;
  }
  Schedule();
}

bool CoordinationService::Owns(ConnectionId connection, const std::string& job_id, uint64_t epoch) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->attempt.epoch != epoch) return false;
  const std::vector<RankRecord>& ranks = job->attempt.ranks;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankRecord& r) { return r.connection == connection; });
}

// ---------------------------------------------------------------------------------------------------------------------
// Attempts

JobRecord* CoordinationService::AttemptOf(ConnectionId connection, const std::string& job_id, uint64_t epoch) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->attempt.epoch != epoch || job->attempt.holders.count(connection) == 0) return nullptr;
  return job;
}

RankRecord* CoordinationService::RankOf(ConnectionId connection, JobRecord& job, uint32_t rank) {
  if (rank >= job.attempt.ranks.size() || job.attempt.ranks[rank].connection != connection) return nullptr;
  return &job.attempt.ranks[rank];
}

void CoordinationService::Schedule() {
  for (JobRecord* job : jobs_.Pending()) {
    if (job->data_check != DataCheck::kDone) continue;
    std::vector<FreeSlots> free;
    for (const auto& [connection, worker] : workers_) free.push_back({connection, worker.FreeSlots()});
    auto of_rank = PlaceRanks(job->spec.ranks(), job->spec.resources().max_ranks_per_node(), std::move(free));
    if (!of_rank.has_value()) return;  // first come, first served: nobody overtakes the job that waits longest
    Start(*job, *of_rank);
  }
}

void CoordinationService::Start(JobRecord& job, const std::vector<ConnectionId>& of_rank) {
  Attempt attempt;
  attempt.epoch = ++last_epoch_;
  attempt.start_deadline = Now() + options_.start_timeout;
  std::map<ConnectionId, StartRanks> starts;
  for (size_t r = 0; r < of_rank.size(); ++r) {
    RankRecord rank;
    rank.connection = of_rank[r];
    rank.worker = workers_.at(of_rank[r]).hello.name();
    attempt.ranks.push_back(std::move(rank));
    attempt.holders.insert(of_rank[r]);
    starts[of_rank[r]].add_rank(r);
  }
  job.attempt = std::move(attempt);
  job.started = options_.wall_clock();
  jobs_.SetState(job, STARTING);
  notes_.push_back(absl::StrCat(job.id, " starts on ", Workers(job.attempt), ", epoch ", job.attempt.epoch));
  for (auto& [connection, start] : starts) {
    workers_.at(connection).held[job.number] = start.rank_size();
    start.set_job_id(job.id);
    start.set_world_size(of_rank.size());
    start.set_plan(job.planned.plan);
    start.set_plan_hash(job.planned.hash);
    start.set_single_node(starts.size() == 1);
    CoordinatorMessage message;
    *message.mutable_start_ranks() = std::move(start);
    Send(connection, job.attempt.epoch, std::move(message));
  }
}

void CoordinationService::OnRankReady(JobRecord& job, RankRecord& rank, const RankReady& ready) {
  if (job.state != STARTING || rank.state != RankState::kStarting) return;
  rank.state = RankState::kReady;
  rank.pid = ready.pid();
  rank.transport_address = ready.transport_address();
  std::vector<RankRecord>& ranks = job.attempt.ranks;
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.state != RankState::kReady; })) return;

  ConnectRanks connect;
  connect.set_job_id(job.id);
  for (RankRecord& each : ranks) {
    connect.add_transport_address(each.transport_address);
    each.state = RankState::kRunning;
  }
  for (ConnectionId holder : job.attempt.holders) {
    CoordinatorMessage message;
    *message.mutable_connect_ranks() = connect;
    Send(holder, job.attempt.epoch, std::move(message));
  }
  jobs_.SetState(job, RUNNING);
  notes_.push_back(absl::StrCat(job.id, " runs"));
}

void CoordinationService::OnRankUpdate(JobRecord& job, uint32_t number, RankRecord& rank, const RankUpdate& update) {
  if (!update.transport().empty()) rank.transport = update.transport();
  if (!update.has_progress()) return;
  rank.progress = update.progress();
  if (number == 0) job.progress = update.progress();
}

void CoordinationService::OnRankEnded(JobRecord& job, RankRecord& rank, const RankEnded& ended) {
  if (IsFinal(job.state)) return;
  const bool succeeded = ended.end() == RANK_SUCCEEDED;
  rank.state = succeeded ? RankState::kSucceeded : RankState::kFailed;
  if (!succeeded) {
    std::string reason = absl::StrCat("rank ", ended.rank(), " on ", rank.worker, " ", ended.error());
    if (ended.end() != RANK_PEER_FAILED) {
      End(job, FAILED, reason);
    } else if (!job.attempt.peer_failure.has_value()) {
      job.attempt.peer_failure = PeerFailure{reason, Now() + options_.peer_failure_grace};
    }
    return;
  }
  job.artifacts.insert(ended.artifact().begin(), ended.artifact().end());
  const std::vector<RankRecord>& ranks = job.attempt.ranks;
  if (std::all_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.state == RankState::kSucceeded; })) {
    End(job, SUCCEEDED, "");
  }
}

void CoordinationService::OnCleared(JobRecord& job, ConnectionId connection) {
  job.attempt.holders.erase(connection);
  workers_.at(connection).held.erase(job.number);
  if (!IsFinal(job.state)) {
    for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
      const RankRecord& rank = job.attempt.ranks[r];
      if (rank.connection != connection || rank.state == RankState::kSucceeded || rank.state == RankState::kFailed) continue;
      End(job, FAILED, absl::StrCat("rank ", r, " on ", rank.worker, " is gone and its daemon did not say why"));
      return;
    }
  }
}

void CoordinationService::End(JobRecord& job, JobState state, const std::string& reason) {
  jobs_.SetState(job, state);
  job.reason = reason;
  job.ended = options_.wall_clock();
  job.attempt.peer_failure.reset();
  job.plan_function = nullptr;  // they and the plan are large, and of no more use
  job.place_of = nullptr;
  job.planned.plan = std::string();
  notes_.push_back(absl::StrCat(job.id, " ", absl::AsciiStrToLower(JobState_Name(state)), reason.empty() ? "" : ": ", reason));
  if (state == SUCCEEDED) return;
  for (RankRecord& rank : job.attempt.ranks) {
    if (rank.state != RankState::kSucceeded && rank.state != RankState::kFailed) rank.state = RankState::kKilled;
  }
  for (ConnectionId holder : job.attempt.holders) {
    CoordinatorMessage message;
    message.mutable_stop_attempt()->set_job_id(job.id);
    message.mutable_stop_attempt()->set_reason(reason);
    Send(holder, job.attempt.epoch, std::move(message));
  }
}

void CoordinationService::ForgetOldJobs() {
  std::vector<const JobRecord*> ended;
  for (const JobRecord* job : jobs_.All()) {
    if (IsFinal(job->state) && job->attempt.holders.empty()) ended.push_back(job);
  }
  for (size_t i = 0; i + options_.keep_jobs < ended.size(); ++i) {
    forgotten_.push_back(ended[i]->id);
    jobs_.Erase(ended[i]->number);
  }
}

bool CoordinationService::Tick() {
  bool changed = false;
  absl::Duration now = Now();
  std::vector<ConnectionId> silent;
  for (const auto& [connection, worker] : workers_) {
    if (now - worker.last_heard >= options_.worker_timeout) silent.push_back(connection);
  }
  for (ConnectionId connection : silent) {
    actions_.push_back({.to = connection, .close = true, .message = {}});
    WorkerLost(connection, absl::StrCat("nothing heard for ", absl::FormatDuration(options_.worker_timeout)));
    changed = true;
  }
  for (JobRecord* job : jobs_.Pending()) {
    if (job->data_check != DataCheck::kAsked || now < job->check_deadline) continue;
    EndCheck(*job, absl::DeadlineExceededError(absl::StrCat(
                       workers_.at(job->checked_by).hello.name(), " did not check the data files within ",
                       absl::FormatDuration(options_.probe_timeout))));
    changed = true;
  }
  for (JobRecord* job : jobs_.Active()) {
    if (job->attempt.peer_failure.has_value() && now >= job->attempt.peer_failure->until) {
      End(*job, FAILED, job->attempt.peer_failure->reason);
      changed = true;
    } else if (job->state == STARTING && now >= job->attempt.start_deadline) {
      End(*job, FAILED, LateRanks(*job));
      changed = true;
    }
  }
  if (changed) Schedule();
  return changed;
}

std::string CoordinationService::LateRanks(const JobRecord& job) const {
  std::vector<std::string> late;
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    const RankRecord& rank = job.attempt.ranks[r];
    if (rank.state == RankState::kStarting) late.push_back(absl::StrCat("rank ", r, " on ", rank.worker));
  }
  return absl::StrCat(absl::StrJoin(late, ", "), " did not become ready within ",
                      absl::FormatDuration(options_.start_timeout));
}

}  // namespace adjoin
