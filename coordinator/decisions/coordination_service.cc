#include "coordinator/decisions/coordination_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/decisions/stored_rows.h"

namespace adjoin {
namespace {

// Ticks come ten times a second.
constexpr absl::Duration kLongestTick = absl::Seconds(1);

}  // namespace

CoordinationService::CoordinationService(CoordinationOptions options) : options_(std::move(options)) {}

void CoordinationService::Schedule() {
  queue_.Schedule([this](JobRecord& job, const Assignment& workers) { attempts_.Start(job, workers); });
}

// ---------------------------------------------------------------------------------------------------------------------
// The store

void CoordinationService::Restore(StoredState state,
                                  const std::function<SpecFunctions(const StoredSubmission&)>& functions) {
  attempts_.Restore(state.last_epoch, state.store_id);
  outbox_.Restore(state.last_event);
  jobs_.SkipTo(state.last_job + 1);
  for (const StoredJob& row : state.jobs) {
    StoredSubmission& submission = state.submissions[row.number()];
    SpecFunctions made = row.plan_hash().empty() ? functions(submission) : SpecFunctions();
    JobRecord& job = jobs_.Add(JobFrom(row, std::move(submission), options_.Now()));
    job.plan_function = std::move(made.plan_function);
    job.place_of = std::move(made.place_of);
    homes_.Return(job);
    auto attempt = state.attempts.find(row.number());
    if (attempt != state.attempts.end()) attempts_.RestoreAttempt(job, attempt->second);
    submissions_.Restore(job);
  }
  queue_.Wake();
  if (!state.jobs.empty()) {
    outbox_.Log(absl::StrCat("the store has ", state.jobs.size(), " jobs: ", jobs_.Active().size(), " run, ",
                             jobs_.pending_count(), " wait"));
  }
}

void CoordinationService::SetStoreWritable(bool writable) {
  if (writable == queue_.is_open()) return;
  if (writable) {
    attempts_.ExtendStarts(queue_.Open());  // the messages that start their ranks were held back meanwhile
  } else {
    queue_.Close();
  }
}

void CoordinationService::Durable(const std::vector<StoredSubmission>& submissions) {
  if (submissions.empty()) return;
  submissions_.Durable(submissions);
  Schedule();
}

void CoordinationService::Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason) {
  submissions_.Withdraw(submissions, reason);
}

// ---------------------------------------------------------------------------------------------------------------------
// Users

absl::StatusOr<Submitted> CoordinationService::Submit(NewJob job) {
  absl::StatusOr<Submitted> submitted = submissions_.Submit(std::move(job));
  if (submitted.ok() && !submitted->existed) Schedule();
  return submitted;
}

void CoordinationService::Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned) {
  if (submissions_.Planned(job_id, std::move(planned))) Schedule();
}

void CoordinationService::Abandon(const std::string& job_id) { submissions_.Abandon(job_id); }

Admission CoordinationService::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  return submissions_.AdmissionOf(job_id, reason);
}

absl::StatusOr<JobRecord*> CoordinationService::Resolve(const std::string& reference, const JobCheck& may) {
  absl::StatusOr<JobRecord*> job = jobs_.Resolve(reference);
  if (!job.ok()) return job;
  if (absl::Status allowed = may(**job); !allowed.ok()) return allowed;
  return job;
}

absl::StatusOr<JobState> CoordinationService::Cancel(const std::string& reference, const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  JobRecord& job = **found;
  if (!IsFinal(job.state)) {
    submissions_.Cancel(job);
    if (job.state != PENDING) attempts_.Cancel(job, "cancelled by a user");
    queue_.End(job, CANCELLED, "cancelled by a user");
    Schedule();
  }
  return job.state;
}

absl::StatusOr<JobState> CoordinationService::Retry(const std::string& reference, const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  JobRecord& job = **found;
  if (job.state != FAILED && job.state != CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " is ", absl::AsciiStrToLower(JobState_Name(job.state)),
                                                      ": only a job that failed or was cancelled can be tried again"));
  }
  job.history.counted = 0;
  job.history.without_progress = 0;
  job.backoff = absl::ZeroDuration();
  job.not_before = options_.Now();
  job.ended = absl::Time();
  job.reason.clear();
  job.running = absl::ZeroDuration();
  homes_.Return(job);
  jobs_.SetState(job, PENDING);
  submissions_.CheckAgain(job);
  outbox_.JobChanged(job);
  outbox_.Event(job, "retried", "by a user");
  queue_.Wake();
  Schedule();
  return job.state;
}

absl::Status CoordinationService::Hold(const std::string& reference, bool held, const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  JobRecord& job = **found;
  if (job.state != PENDING) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " is ", absl::AsciiStrToLower(JobState_Name(job.state)),
                                                      ": only a job that waits can be ", held ? "held" : "released"));
  }
  if (job.held == held) return absl::OkStatus();
  job.held = held;
  outbox_.JobChanged(job);
  outbox_.Event(job, held ? "held" : "released", "by a user");
  queue_.Wake();
  Schedule();
  return absl::OkStatus();
}

bool CoordinationService::Settled(const std::string& job_id) {
  const JobRecord* job = jobs_.Find(job_id);
  return job == nullptr || (IsFinal(job->state) && job->attempt.holders.empty());
}

// ---------------------------------------------------------------------------------------------------------------------
// Workers

absl::Status CoordinationService::WorkerConnected(ConnectionId connection, const WorkerHello& hello) {
  const std::string& name = hello.name();
  if (absl::Status allowed = workers_.CheckName(hello); !allowed.ok()) return allowed;
  if (const WorkerRecord* known = workers_.Find(name)) {
    const bool same = known->hello.incarnation() == hello.incarnation();
    workers_.CloseConnection(name);
    submissions_.ForgetChecksOf(name);  // the request was lost with the old connection
    if (!same) attempts_.OnNewIncarnation(hello, known->last_heard);
  }
  workers_.Attach(connection, hello);
  const std::string output_id = workers_.At(name).hello.output_id();
  if (!output_id.empty()) homes_.OutputKnown(name, output_id);
  const int attempts = hello.attempt_size();
  outbox_.Log(
      absl::StrCat("worker ", name, " connected with ", hello.slots(), " slots",
                   attempts == 0 ? "" : absl::StrCat(" and ", attempts, attempts == 1 ? " attempt" : " attempts")));

  CoordinatorMessage message;
  message.mutable_welcome()->set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat));
  message.mutable_welcome()->set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  workers_.Send(name, 0, std::move(message), /*urgent=*/true);
  attempts_.OnHello(hello);
  submissions_.CheckWaitingJobs();
  queue_.Wake();
  Schedule();
  return absl::OkStatus();
}

void CoordinationService::WorkerDisconnected(ConnectionId connection, const std::string& why) {
  const std::string name = workers_.NameOf(connection);
  if (name.empty()) return;
  workers_.Detach(connection);
  submissions_.ForgetChecksOf(name);
  outbox_.Log(absl::StrCat("worker ", name, " is not connected: ", why));
  submissions_.CheckWaitingJobs();
}

void CoordinationService::WorkerSaid(ConnectionId connection, const WorkerMessage& message) {
  const std::string name = workers_.NameOf(connection);
  if (name.empty()) return;
  const uint64_t epoch = message.header().epoch();
  const WorkerRecord& worker = workers_.At(name);
  const bool was_usable = workers_.IsUsable(worker);
  workers_.Heard(name);
  switch (message.kind_case()) {
    case WorkerMessage::kHeartbeat: OnHeartbeat(name, message.heartbeat()); break;
    case WorkerMessage::kProbeResult: submissions_.OnProbeResult(name, message.probe_result()); break;
    case WorkerMessage::kRankReady: attempts_.OnRankReady(name, epoch, message.rank_ready()); break;
    case WorkerMessage::kRankUpdate: attempts_.OnRankUpdate(name, epoch, message.rank_update()); break;
    case WorkerMessage::kRankEnded: attempts_.OnRankEnded(name, epoch, message.rank_ended()); break;
    case WorkerMessage::kAttemptCleared: attempts_.OnCleared(name, epoch, message.attempt_cleared().job_id()); break;
    default: break;
  }
  if (!was_usable && workers_.IsUsable(worker)) {
    submissions_.CheckWaitingJobs();
    queue_.Wake();
  }
  Schedule();
}

void CoordinationService::OnHeartbeat(const std::string& name, const Heartbeat& heartbeat) {
  const WorkerRecord& worker = workers_.At(name);
  if (heartbeat.incarnation() != 0 && heartbeat.incarnation() != worker.hello.incarnation()) return;
  if (heartbeat.draining() && !worker.draining) outbox_.Log(absl::StrCat("worker ", name, " drains"));
  workers_.SetDraining(name, heartbeat.draining());
  if (!heartbeat.output_id().empty() && heartbeat.output_id() != worker.hello.output_id()) {
    workers_.SetOutputId(name, heartbeat.output_id());
    homes_.OutputKnown(name, heartbeat.output_id());
    queue_.Wake();
  }
  for (const AttemptPulse& pulse : heartbeat.attempt()) attempts_.OnPulse(name, pulse);
  CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(heartbeat.sequence());
  workers_.Send(name, 0, std::move(message), /*urgent=*/true);
}

bool CoordinationService::Owns(ConnectionId connection, const std::string& job_id, uint64_t epoch) {
  const std::string name = workers_.NameOf(connection);
  const JobRecord* job = jobs_.Find(job_id);
  if (name.empty() || job == nullptr || job->attempt.epoch != epoch) return false;
  const std::vector<RankRecord>& ranks = job->attempt.ranks;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankRecord& rank) { return rank.worker == name; });
}

void CoordinationService::OnLost(const std::string& name, const std::string& why) {
  submissions_.ForgetChecksOf(name);
  workers_.Lose(name);
  outbox_.Log(absl::StrCat("worker ", name, " is lost: ", why));
  attempts_.OnLost(name, why);
  submissions_.CheckWaitingJobs();
  queue_.Wake();
}

// ---------------------------------------------------------------------------------------------------------------------
// Time

// The coordinator itself stood still, with its machine or for want of a core, and messages of daemons wait to be
// read. A daemon then counts as heard of later than it was. That is safe: its lease is only waited for longer.
void CoordinationService::ForgivePause() {
  const absl::Duration pause = options_.Now() - last_tick_;
  last_tick_ = options_.Now();
  if (pause <= kLongestTick) return;
  workers_.ForgivePause(pause);
  attempts_.ForgivePause(pause);
  submissions_.ForgivePause(pause);
  homes_.ForgivePause(pause);
}

bool CoordinationService::TickWorkers() {
  const auto silent = workers_.Silent();
  for (const auto& [name, limit] : silent) {
    OnLost(name, absl::StrCat("nothing heard for ", absl::FormatDuration(limit)));
  }
  return workers_.ForgetLost() || !silent.empty();
}

bool CoordinationService::Tick() {
  ForgivePause();
  bool changed = TickWorkers();
  changed = leases_.Tick() || changed;
  queue_.Tick();
  changed = attempts_.Tick() || changed;
  changed = submissions_.Tick() || changed;
  if (queue_.is_open() && homes_.Tick()) {
    queue_.Wake();
    changed = true;
  }
  changed = changed || queue_.awake();
  Schedule();
  return changed;
}

}  // namespace adjoin
