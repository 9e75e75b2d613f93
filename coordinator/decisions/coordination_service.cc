#include "coordinator/decisions/coordination_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/decisions/attempt_text.h"
#include "coordinator/decisions/stored_rows.h"

namespace adjoin {
namespace {

// Ticks come ten times a second.
constexpr absl::Duration kLongestTick = absl::Seconds(1);
constexpr absl::Duration kRanksReport = absl::Milliseconds(100);

}  // namespace

CoordinationService::CoordinationService(CoordinationOptions options) : options_(std::move(options)) {}

void CoordinationService::Schedule() {
  queue_.Schedule([this](JobRecord& job, const Assignment& workers) { attempts_.Start(job, workers); });
}

// ---------------------------------------------------------------------------------------------------------------------
// The store

void CoordinationService::Restore(StoredState state, const PlaceFunctions& place_of) {
  attempts_.Restore(state.last_epoch, state.store_id);
  outbox_.Restore(state.last_event);
  jobs_.SkipTo(state.last_job + 1);
  if (state.last_epoch > 0) submissions_.AwaitWorkers();
  submissions_.RestoreKeys(state.keys, state.age);
  for (const StoredFolder& row : state.folders) {
    for (StoredFolder& changed : jobs_.folders().Keep(row.folder, row.owner, row.job)) {
      if (changed.job == 0) outbox_.FolderChanged(std::move(changed));
    }
  }
  for (const StoredJob& row : state.jobs) {
    StoredSubmission& submission = state.submissions[row.number()];
    PlaceFunction made = place_of != nullptr && row.plan_hash().empty() ? place_of(submission) : nullptr;
    JobRecord& job = jobs_.Add(JobFrom(row, std::move(submission), options_.Now()));
    job.place_of = std::move(made);
    homes_.Return(job);
    auto attempt = state.attempts.find(row.number());
    if (attempt != state.attempts.end()) attempts_.RestoreAttempt(job, attempt->second);
    submissions_.Restore(job);
  }
  queue_.Wake();
  if (!state.lost.empty()) {
    for (JobRecord* job : jobs_.All()) {
      if (!IsFinal(job->state)) {
        outbox_.Event(*job, "state_lost",
                      absl::StrCat("the coordinator went on without what was missing: ", state.lost));
      }
    }
  }
  if (!state.jobs.empty()) {
    outbox_.Log(absl::StrCat("the store has ", state.jobs.size(), " jobs: ", jobs_.Active().size(), " run, ",
                             jobs_.pending_count(), " wait"));
  }
}

void CoordinationService::SetStoreHealth(const absl::Status& health) {
  if (!health.ok()) {
    queue_.Close(std::string(health.message()));
  } else if (!queue_.is_open()) {
    // Messages that start ranks were held back meanwhile, and jobs that wait for their nodes were not looked at.
    const absl::Duration closed = queue_.Open();
    attempts_.ExtendStarts(closed);
    homes_.ForgivePause(closed);
  }
}

void CoordinationService::FailUnwritable(uint64_t number, const absl::Status& why) {
  JobRecord* job = jobs_.Find(number);
  if (job == nullptr) return;
  // What may have made the rows too large is not needed any more.
  job->artifacts.clear();
  job->progress.Clear();
  const std::string reason = absl::StrCat("its state cannot be stored: ", std::string(why.message()));
  if (IsFinal(job->state)) {
    outbox_.Log(absl::StrCat(job->id, ": ", reason));
    return;
  }
  submissions_.Cancel(*job);
  if (job->state != PENDING) attempts_.Cancel(*job, reason);
  starts_.Gone(*job);
  queue_.End(*job, FAILED, reason);
  Schedule();
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
  if (!submitted.ok() || submitted->existed) return submitted;
  if (JobRecord* made = jobs_.Find(submitted->job_id)) homes_.BeginWhereItResumesFrom(*made);
  Schedule();
  return submitted;
}

void CoordinationService::Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned) {
  if (submissions_.Planned(job_id, std::move(planned))) Schedule();
}

void CoordinationService::Abandon(const std::string& job_id, const absl::Status& reason) {
  submissions_.Abandon(job_id, reason);
}

Admission CoordinationService::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  return submissions_.AdmissionOf(job_id, reason);
}

absl::StatusOr<JobRecord*> CoordinationService::Resolve(const JobReference& reference, const JobCheck& may,
                                                        bool even_ended) {
  absl::StatusOr<JobRecord*> job = jobs_.ResolveToChange(reference, even_ended);
  if (!job.ok()) return job;
  if (absl::Status allowed = may(**job); !allowed.ok()) return allowed;
  return job;
}

absl::StatusOr<JobState> CoordinationService::Cancel(const JobReference& reference, const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  JobRecord& job = **found;
  if (!IsFinal(job.state)) {
    submissions_.Cancel(job);
    if (job.state != PENDING) attempts_.Cancel(job, "cancelled by a user");
    starts_.Gone(job);
    queue_.End(job, CANCELLED, "cancelled by a user");
    Schedule();
  }
  return job.state;
}

absl::StatusOr<JobState> CoordinationService::Retry(const JobReference& reference, const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  JobRecord& job = **found;
  if (job.state != FAILED && job.state != CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " is ", absl::AsciiStrToLower(JobState_Name(job.state)),
                                                      ": only a job that failed or was cancelled can be tried again"));
  }
  if (job.removing) return absl::FailedPreconditionError(absl::StrCat(job.id, " is being removed"));
  // A job that was told to replace what earlier ones left may go on to do so.
  const std::optional<OutputUse> use = jobs_.UseOf(job.spec.output_dir(), job.number);
  if (use.has_value() && (use->job > job.number || (use->state != JOB_STATE_UNSPECIFIED && !IsFinal(use->state)))) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " cannot be tried again: its output_dir \"",
                                                      job.spec.output_dir(), "\" is that of job-", use->job,
                                                      " now; submit it anew with another output_dir"));
  }
  if (IsLimited(job)) {
    ADJOIN_RETURN_IF_ERROR(
        CheckUserLimits(options_.user_limits, job.owner, job.spec.ranks(), jobs_.PendingCountOf(job.owner)));
  }
  job.history = {.attempts = job.history.attempts, .best_step = job.history.best_step};
  job.failed_starts = {};
  job.replaced_by = 0;
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

absl::Status CoordinationService::Hold(const JobReference& reference, bool held, const JobCheck& may) {
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

absl::StatusOr<std::string> CoordinationService::Trace(const JobReference& reference, const TraceOrder& order,
                                                       const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may);
  if (!found.ok()) return found.status();
  ADJOIN_RETURN_IF_ERROR(traces_.Ask(**found, order));
  return (*found)->id;
}

absl::StatusOr<JobRemoval> CoordinationService::BeginRemoval(const JobReference& reference, bool files,
                                                             const JobCheck& may) {
  absl::StatusOr<JobRecord*> found = Resolve(reference, may, /*even_ended=*/true);
  if (!found.ok()) return found.status();
  return removals_.Begin(**found, files, attempts_.store_id());
}

void CoordinationService::EndRemoval(const std::string& job_id, bool forget) { removals_.End(job_id, forget); }

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
  rates_.Forget(name);
  if (hello.has_rates()) {
    if (const absl::Status kept = rates_.Set(name, hello.rates()); !kept.ok()) {
      outbox_.Log(absl::StrCat("the rates of worker ", name, " are not kept: ", std::string(kept.message())));
    }
  }
  const std::string output_id = workers_.At(name).hello.output_id();
  if (!output_id.empty()) homes_.OutputKnown(name, output_id);
  const auto attempts = std::count_if(hello.attempt().begin(), hello.attempt().end(),
                                      [](const AttemptReport& report) { return !IsNote(report); });
  outbox_.Log(absl::StrCat(
      "worker ", name, " connected with ", hello.slots(), " slots",
      hello.gpu_size() == 0 ? "" : absl::StrCat(", ", hello.gpu_size(), hello.gpu_size() == 1 ? " GPU" : " GPUs"),
      attempts == 0 ? "" : absl::StrCat(" and ", attempts, attempts == 1 ? " attempt" : " attempts")));
  if (!hello.condition().empty()) LogCondition(workers_.At(name));
  if (hello.store_id() != 0 && hello.store_id() != attempts_.store_id()) {
    outbox_.Log(absl::StrCat("worker ", name, " worked for a coordinator with another store (",
                             absl::Hex(hello.store_id(), absl::kZeroPad16), "; this one is ",
                             absl::Hex(attempts_.store_id(), absl::kZeroPad16),
                             "): what it still has of that one ends"));
  }

  CoordinatorMessage message;
  message.mutable_welcome()->set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat));
  message.mutable_welcome()->set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  message.mutable_welcome()->set_store_id(attempts_.store_id());
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

void CoordinationService::LogCondition(const WorkerRecord& worker) {
  const std::string& condition = worker.hello.condition();
  outbox_.Log(absl::StrCat("worker ", worker.hello.name(),
                           condition.empty() ? " can run ranks again" : " can run no ranks: ", condition));
}

void CoordinationService::OnHeartbeat(const std::string& name, const Heartbeat& heartbeat) {
  const WorkerRecord& worker = workers_.At(name);
  if (heartbeat.incarnation() != 0 && heartbeat.incarnation() != worker.hello.incarnation()) return;
  if (heartbeat.draining() && !worker.draining) outbox_.Log(absl::StrCat("worker ", name, " drains"));
  workers_.SetDraining(name, heartbeat.draining());
  if (workers_.SetCondition(name, heartbeat.condition())) LogCondition(worker);
  if (!heartbeat.output_id().empty() && heartbeat.output_id() != worker.hello.output_id()) {
    workers_.SetOutputId(name, heartbeat.output_id());
    homes_.OutputKnown(name, heartbeat.output_id());
    queue_.Wake();
  }
  for (const AttemptPulse& pulse : heartbeat.attempt()) attempts_.OnPulse(name, pulse);
  CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(heartbeat.sequence());
  message.mutable_heartbeat_ack()->set_heartbeat_seconds(absl::ToDoubleSeconds(workers_.TellHeartbeat(name)));
  message.mutable_heartbeat_ack()->set_progress_seconds(absl::ToDoubleSeconds(BetweenProgress()));
  workers_.Send(name, 0, std::move(message), /*urgent=*/true);
}

// Ranks do not report more often than every kRanksReport by themselves.
absl::Duration CoordinationService::BetweenProgress() const {
  const absl::Duration fair = absl::Seconds(static_cast<double>(jobs_.active_ranks()) / options_.heartbeats_per_second);
  return fair <= kRanksReport ? absl::ZeroDuration() : std::min(fair, options_.longest_progress);
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
  const WorkerRecord& worker = workers_.At(name);
  const char* what = !worker.draining      ? " is lost: "
                     : worker.held.empty() ? " has drained and left: "
                                           : " is lost while it drains: ";
  workers_.Lose(name);
  outbox_.Log(absl::StrCat("worker ", name, what, why));
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
  const bool trials = workers_.TakeTrials();
  if (trials) {
    submissions_.CheckWaitingJobs();
    queue_.Wake();
  }
  const bool forgotten = workers_.ForgetLost();
  if (forgotten) rates_.KeepOnly([this](const std::string& name) { return workers_.Find(name) != nullptr; });
  return forgotten || !silent.empty() || trials;
}

bool CoordinationService::Tick() {
  ForgivePause();
  bool changed = TickWorkers();
  changed = leases_.Tick() || changed;
  queue_.Tick();
  changed = attempts_.Tick() || changed;
  changed = submissions_.Tick() || changed;
  const auto fail = [this](JobRecord& job, const std::string& why) {
    starts_.Gone(job);
    queue_.End(job, FAILED, why);
  };
  if (queue_.is_open() && homes_.Tick(fail)) {
    queue_.Wake();
    changed = true;
  }
  changed = changed || queue_.awake();
  Schedule();
  return changed;
}

}  // namespace adjoin
