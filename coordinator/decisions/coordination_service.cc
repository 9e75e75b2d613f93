// Submission, data check, admission; what goes to the store and comes from it.
#include "coordinator/decisions/coordination_service.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "coordinator/decisions/stored_rows.h"
#include "coordinator/placement/shared_output.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepRefusals = absl::Minutes(5);
constexpr size_t kMaxReason = 4096;

}  // namespace

CoordinationService::CoordinationService(CoordinationOptions options) : options_(std::move(options)) {}

int CoordinationService::Worker::FreeSlots() const {
  int used = 0;
  for (const auto& [job, slots] : held) used += slots;
  return static_cast<int>(hello.slots()) - used;
}

void CoordinationService::Send(const std::string& worker, uint64_t epoch, CoordinatorMessage message, bool urgent) {
  auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection == 0) return;  // its next hello says what it needs
  Action action;
  action.to = found->second.connection;
  action.urgent = urgent;
  *message.mutable_header() = MakeHeader(epoch);
  action.message = std::move(message);
  actions_.push_back(std::move(action));
}

void CoordinationService::Event(const JobRecord& job, const std::string& kind, const std::string& text) {
  JobEvent event;
  event.set_sequence(++last_event_);
  event.set_job_id(job.id);
  event.set_epoch(job.attempt.epoch);
  event.set_unix_ms(absl::ToUnixMillis(options_.wall_clock()));
  event.set_kind(kind);
  event.set_text(text.substr(0, Utf8Prefix(text, kMaxReason)));
  if (job.accepted) changes_.events.push_back(event);
  notes_.push_back({absl::StrCat(job.id, " ", kind, text.empty() ? "" : ": ", event.text()), job.id, job.attempt.epoch});
}

// ---------------------------------------------------------------------------------------------------------------------
// The store

StoreChanges CoordinationService::TakeChanges() {
  for (uint64_t number : changed_jobs_) {
    const JobRecord* job = jobs_.Find(number);
    if (job != nullptr && job->accepted) changes_.jobs.push_back(JobRow(*job));
  }
  for (uint64_t number : changed_attempts_) {
    const JobRecord* job = jobs_.Find(number);
    if (job != nullptr && job->accepted && job->attempt.epoch > 0) changes_.attempts.push_back(AttemptRow(*job));
  }
  changed_jobs_.clear();
  changed_attempts_.clear();
  return std::exchange(changes_, {});
}

void CoordinationService::Restore(StoredState state, const std::function<SpecFunctions(const StoredSubmission&)>& functions) {
  store_id_ = state.store_id;
  last_epoch_ = state.last_epoch;
  last_event_ = state.last_event;
  jobs_.SkipTo(state.last_job + 1);
  for (const StoredJob& row : state.jobs) {
    StoredSubmission& submission = state.submissions[row.number()];
    SpecFunctions made = row.plan_hash().empty() ? functions(submission) : SpecFunctions();
    auto attempt = state.attempts.find(row.number());
    RestoreJob(row, std::move(submission), attempt == state.attempts.end() ? nullptr : &attempt->second);
    JobRecord& job = *jobs_.Find(row.number());
    job.plan_function = std::move(made.plan_function);
    job.place_of = std::move(made.place_of);
  }
  schedule_ = true;
  const size_t active = jobs_.Active().size();
  if (!state.jobs.empty()) {
    notes_.push_back({absl::StrCat("the store has ", state.jobs.size(), " jobs: ", active, " run, ", jobs_.pending_count(),
                                  " wait")});
  }
}

void CoordinationService::RestoreJob(const StoredJob& row, StoredSubmission submission, const StoredAttempt* attempt) {
  auto made = std::make_unique<JobRecord>();
  JobRecord& job = *made;
  job.number = row.number();
  job.id = absl::StrCat("job-", row.number());
  job.spec = std::move(*submission.mutable_spec());
  job.source = std::move(*submission.mutable_source());
  job.file = std::move(*submission.mutable_file());
  job.owner = row.owner();
  job.priority = row.priority();
  job.idempotency_key = row.idempotency_key();
  job.plan_hash = row.plan_hash();
  job.data_check = row.plan_hash().empty() ? DataCheck::kWaits : DataCheck::kDone;
  job.accepted = job.durable = true;
  job.state = row.state();
  job.reason = row.reason();
  job.held = row.held();
  job.submitted = FromMillis(row.submitted_unix_ms());
  job.started = FromMillis(row.started_unix_ms());
  job.ended = FromMillis(row.ended_unix_ms());
  job.backoff = absl::Seconds(row.backoff_seconds());
  job.not_before = Now() + job.backoff;
  job.running = absl::Seconds(row.running_seconds());
  job.history = {row.attempts(), row.restarts_counted(), row.restarts_without_progress(), row.best_step()};
  job.progress = row.progress();
  job.artifacts.insert(row.artifact().begin(), row.artifact().end());
  job.home = row.home();
  job.home_workers.assign(row.home_worker().begin(), row.home_worker().end());
  job.has_checkpoint = row.has_checkpoint();
  job.home_usable = Now();
  if (job.has_checkpoint) homed_.insert(job.number);
  if (attempt != nullptr) {
    job.attempt = AttemptFrom(*attempt, Now(), options_.wall_clock());
    // Its daemons will be told the lease of today.
    if (!job.attempt.holders.empty() && job.attempt.lease < options_.lease) {
      job.attempt.lease = options_.lease;
      AttemptChanged(job);
    }
    if (job.state == STARTING) job.attempt.start_deadline = Now() + options_.start_timeout + options_.reattach;
    if (job.state == RUNNING) job.attempt.watch.emplace(options_.progress, job.attempt.ranks.size(), Now());
    // That a rank suffered from a peer was waiting for the cause; the cause may still be reported.
    for (size_t r = 0; r < job.attempt.ranks.size() && !job.attempt.over; ++r) {
      if (job.attempt.ranks[r].state != RankState::kFailed) continue;
      job.attempt.peer_failure = PeerFailure{absl::StrCat("rank ", r, " on ", job.attempt.ranks[r].worker, " failed"),
                                             Now(), Now() + options_.peer_failure_grace};
    }
    for (const auto& [name, holder] : job.attempt.holders) {
      auto [worker, is_new] = workers_.try_emplace(name);
      if (is_new) {
        // It may have been acknowledged a moment before this coordinator started.
        worker->second.last_heard = Now();
        worker->second.hello.set_name(name);
        worker->second.hello.set_incarnation(holder.incarnation);
        worker->second.hello.set_node_id(holder.node_id);
      }
      worker->second.held[job.number] = holder.slots;
    }
    if (job.home.empty() && !job.attempt.holders.empty()) SettleHome(job);  // an older coordinator did not keep it
  }
  if (job.state == PENDING && job.data_check == DataCheck::kWaits) unchecked_.insert(job.number);
  jobs_.Add(std::move(made));
}

void CoordinationService::SetStoreWritable(bool writable) {
  if (writable == store_writable_) return;
  store_writable_ = writable;
  schedule_ = true;
  if (!writable) store_failed_at_ = Now();
  // What they are to start with was held back meanwhile.
  for (JobRecord* job : jobs_.Active()) {
    if (writable) job->attempt.start_deadline += Now() - store_failed_at_;
  }
}

void CoordinationService::Durable(const std::vector<StoredSubmission>& submissions) {
  for (const StoredSubmission& submission : submissions) {
    if (JobRecord* job = jobs_.Find(submission.job())) job->durable = true;
  }
  if (submissions.empty()) return;
  schedule_ = true;
  Schedule();
}

void CoordinationService::Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason) {
  for (const StoredSubmission& submission : submissions) {
    if (JobRecord* job = jobs_.Find(submission.job())) Refuse(*job, reason);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Submission, data check

absl::StatusOr<Submitted> CoordinationService::Submit(NewJob submitted) {
  if (!submitted.idempotency_key.empty()) {
    const JobRecord* same = jobs_.FindKey(submitted.owner, submitted.idempotency_key);
    if (same != nullptr) {
      if (google::protobuf::util::MessageDifferencer::Equals(same->spec, submitted.spec)) return Submitted{same->id, true};
      return absl::AlreadyExistsError(absl::StrCat("the idempotency key '", submitted.idempotency_key, "' is that of ",
                                                   same->id, ", which has another spec: choose another key"));
    }
  }
  const absl::Status folder = jobs_.folders().Check(submitted.spec.output_dir(), submitted.owner);
  if (!folder.ok() && !submitted.any_folder) return folder;
  ADJOIN_RETURN_IF_ERROR(CheckCheckpoints(submitted));
  const absl::Status weights = jobs_.folders().CheckReads(submitted.spec.weights().from_output(), submitted.owner);
  if (!weights.ok() && !submitted.any_folder) return weights;
  if (jobs_.pending_count() >= options_.max_queued_jobs) {
    return absl::ResourceExhaustedError(absl::StrCat("no more jobs can wait: ", jobs_.pending_count(),
                                                     " do, which is the coordinator's --max-queued-jobs; try again later"));
  }
  auto made = std::make_unique<JobRecord>();
  made->spec = std::move(submitted.spec);
  made->plan_function = std::move(submitted.plan_function);
  made->place_of = std::move(submitted.place_of);
  made->model = std::move(submitted.model);
  made->source = std::move(submitted.source);
  made->file = std::move(submitted.file);
  made->owner = std::move(submitted.owner);
  made->priority = submitted.priority;
  made->idempotency_key = std::move(submitted.idempotency_key);
  made->submitted = options_.wall_clock();
  JobRecord& job = jobs_.Add(std::move(made));
  Submitted result{job.id, false};
  ForgetOldJobs();
  CheckData(job);
  Schedule();
  return result;
}

// Whose its folders of checkpoints are, and whether the workers that there are could share them.
absl::Status CoordinationService::CheckCheckpoints(const NewJob& submitted) const {
  const Checkpoint& checkpoint = submitted.spec.checkpoint();
  for (const auto& [field, path] : {std::pair("checkpoint.dir", checkpoint.dir()),
                                    std::pair("checkpoint.resume_from", checkpoint.resume_from())}) {
    if (path.empty() || submitted.any_folder) continue;
    ADJOIN_RETURN_IF_ERROR(jobs_.folders().Check(path, submitted.owner, field));
  }
  return CheckSharedOutput(submitted.spec, AllSlots(submitted.spec));
}

void CoordinationService::CheckData(JobRecord& job) {
  if (job.spec.dataset().empty() && !job.spec.has_weights()) {
    AskForPlan(job, {});
    return;
  }
  job.data_check = DataCheck::kWaits;
  unchecked_.insert(job.number);
  CheckWaitingJobs();
}

void CoordinationService::CheckWaitingJobs() {
  bool somebody = false;
  for (auto& [name, worker] : workers_) {
    if (unchecked_.empty()) return;
    if (!Usable(worker)) continue;
    somebody = true;
    if (worker.checks) continue;
    worker.checks = true;
    AskForCheck(*jobs_.Find(*unchecked_.begin()), name);
  }
  if (somebody) return;
  for (uint64_t number : unchecked_) Accept(*jobs_.Find(number));
}

void CoordinationService::AskForCheck(JobRecord& job, const std::string& worker) {
  unchecked_.erase(job.number);
  asked_.insert(job.number);
  job.data_check = DataCheck::kAsked;
  job.checked_by = worker;
  job.check_deadline = Now() + options_.probe_timeout;
  CoordinatorMessage message;
  ProbeData& probe = *message.mutable_probe_data();
  probe.set_request_id(job.id);
  *probe.mutable_dataset() = job.spec.dataset();
  if (job.spec.has_weights()) {
    *probe.mutable_model()->mutable_weights() = job.spec.weights();
    *probe.mutable_model()->mutable_tensor() = {job.model.begin(), job.model.end()};
  }
  Send(worker, 0, std::move(message), /*urgent=*/true);
}

// What this worker was to check waits for another one.
void CoordinationService::ForgetChecks(const std::string& lost_worker) {
  workers_.at(lost_worker).checks = false;
  const std::set<uint64_t> asked = asked_;
  for (uint64_t number : asked) {
    JobRecord& job = *jobs_.Find(number);
    if (job.checked_by != lost_worker) continue;
    asked_.erase(number);
    unchecked_.insert(number);
    job.data_check = DataCheck::kWaits;
  }
}

void CoordinationService::OnProbeResult(const std::string& worker, const ProbeResult& result) {
  JobRecord* job = jobs_.Find(result.request_id());
  workers_.at(worker).checks = false;
  if (job == nullptr || job->state != PENDING || job->data_check != DataCheck::kAsked || job->checked_by != worker) {
    CheckWaitingJobs();
    return;
  }
  asked_.erase(job->number);
  if (!result.error().empty()) {
    const std::string place = job->place_of == nullptr ? "" : job->place_of(result.field());
    EndCheck(*job, absl::InvalidArgumentError(
                       absl::StrCat(place, place.empty() ? "" : ": ", result.error(), " (as ", worker, " sees it)")));
    CheckWaitingJobs();
    return;
  }
  AskForPlan(*job, {result.dataset().begin(), result.dataset().end()});
  CheckWaitingJobs();
}

void CoordinationService::AskForPlan(JobRecord& job, std::vector<DatasetSize> sizes) {
  job.data_check = DataCheck::kPlanning;
  plan_requests_.push_back({job.id, job.plan_function, std::move(sizes)});
}

void CoordinationService::Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->state != PENDING || job->data_check != DataCheck::kPlanning) return;
  if (!planned.ok()) {
    EndCheck(*job, planned.status());
    return;
  }
  job->plan_function = nullptr;  // they hold the spec as it was written, and the plan goes to the store
  job->place_of = nullptr;
  job->model.clear();
  job->plan_hash = std::move(planned->hash);
  job->data_check = DataCheck::kDone;
  StoredPlan row;
  row.set_job(job->number);
  row.set_plan(std::move(planned->plan));
  changes_.plans.push_back(std::move(row));
  Accept(*job);
  Changed(*job);
  schedule_ = true;
  Schedule();
}

void CoordinationService::Accept(JobRecord& job) {
  if (job.accepted) return;
  job.accepted = true;
  ++counters_.submitted;
  StoredSubmission row;
  row.set_job(job.number);
  *row.mutable_spec() = job.spec;
  row.set_source(job.source);
  row.set_file(job.file);
  changes_.submissions.push_back(std::move(row));
  job.source.clear();  // the store has it, and it can be large
  Changed(job);
  Event(job, "submitted", absl::StrCat(job.spec.name(), job.owner.empty() ? "" : absl::StrCat(" by ", job.owner)));
}

void CoordinationService::EndCheck(JobRecord& job, const absl::Status& failure) {
  if (job.accepted) {
    End(job, FAILED, std::string(failure.message()));
  } else {
    Refuse(job, failure);
  }
}

void CoordinationService::Refuse(const JobRecord& job, const absl::Status& reason) {
  refused_[job.id] = {reason, Now() + kKeepRefusals};
  unchecked_.erase(job.number);
  asked_.erase(job.number);
  changed_jobs_.erase(job.number);
  changed_attempts_.erase(job.number);
  changes_.Withdraw({job.number});
  jobs_.Erase(job.number);
}

void CoordinationService::Abandon(const std::string& job_id) {
  JobRecord* job = jobs_.Find(job_id);
  if (job != nullptr && !job->accepted) Refuse(*job, absl::DeadlineExceededError("its data files were not checked in time"));
}

Admission CoordinationService::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  if (auto it = refused_.find(job_id); it != refused_.end()) {
    *reason = it->second.reason;
    return Admission::kRefused;
  }
  JobRecord* job = jobs_.Find(job_id);
  return job != nullptr && job->durable ? Admission::kAccepted : Admission::kUndecided;
}

void CoordinationService::ForgetOldJobs() {
  if (jobs_.Ended().size() <= options_.keep_jobs) return;
  const std::vector<uint64_t> ended(jobs_.Ended().begin(), jobs_.Ended().end());
  for (size_t i = 0; i + options_.keep_jobs < ended.size(); ++i) {
    const JobRecord& job = *jobs_.Find(ended[i]);
    if (!job.attempt.holders.empty()) continue;  // what it still has somewhere is not forgotten
    forgotten_.push_back(job.id);
    changes_.forgotten.push_back(job.number);
    jobs_.Erase(job.number);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// What users change

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
    Accept(job);
    const bool runs = job.state != PENDING;
    if (runs) CloseAttempt(job, "cancelled by a user");
    if (runs) CountTime(job, /*useful=*/true);
    End(job, CANCELLED, "cancelled by a user");
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
  job.not_before = Now();
  job.ended = absl::Time();
  job.reason.clear();
  job.running = absl::ZeroDuration();
  job.home_usable = Now();
  if (job.has_checkpoint) homed_.insert(job.number);
  jobs_.SetState(job, PENDING);
  if (job.data_check != DataCheck::kDone) CheckData(job);
  Changed(job);
  Event(job, "retried", "by a user");
  schedule_ = true;
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
  Changed(job);
  Event(job, held ? "held" : "released", "by a user");
  schedule_ = true;
  Schedule();
  return absl::OkStatus();
}

}  // namespace adjoin
