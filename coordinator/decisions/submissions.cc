#include "coordinator/decisions/submissions.h"

#include <google/protobuf/util/message_differencer.h>

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepRefusals = absl::Minutes(5);

}  // namespace

absl::StatusOr<Submitted> Submissions::Submit(NewJob submitted) {
  if (!submitted.idempotency_key.empty()) {
    const JobRecord* same = jobs_.FindKey(submitted.owner, submitted.idempotency_key);
    if (same != nullptr) {
      if (google::protobuf::util::MessageDifferencer::Equals(same->spec, submitted.spec))
        return Submitted{same->id, true};
      return absl::AlreadyExistsError(absl::StrCat("the idempotency key '", submitted.idempotency_key, "' is that of ",
                                                   same->id, ", which has another spec: choose another key"));
    }
  }
  ADJOIN_RETURN_IF_ERROR(CheckFolders(submitted));
  if (jobs_.pending_count() >= options_.max_queued_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no more jobs can wait: ", jobs_.pending_count(),
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
  return result;
}

// Errors: kPermissionDenied (a folder is another owner's), kFailedPrecondition (the workers that there are cannot
// share it).
absl::Status Submissions::CheckFolders(const NewJob& submitted) const {
  const JobSpec& spec = submitted.spec;
  const OutputFolders& folders = jobs_.folders();
  if (!submitted.any_folder) {
    ADJOIN_RETURN_IF_ERROR(folders.Check(spec.output_dir(), submitted.owner));
    for (const auto& [field, path] : {std::pair("checkpoint.dir", spec.checkpoint().dir()),
                                      std::pair("checkpoint.resume_from", spec.checkpoint().resume_from())}) {
      if (!path.empty()) ADJOIN_RETURN_IF_ERROR(folders.Check(path, submitted.owner, field));
    }
  }
  ADJOIN_RETURN_IF_ERROR(CheckSharedOutput(spec, workers_.AllFor(spec.resources())));
  return submitted.any_folder ? absl::OkStatus() : folders.CheckReads(spec.weights().from_output(), submitted.owner);
}

// ---------------------------------------------------------------------------------------------------------------------
// The check of data files

void Submissions::CheckData(JobRecord& job) {
  if (job.spec.dataset().empty() && !job.spec.has_weights()) {
    AskForPlan(job, {});
    return;
  }
  job.data_check = DataCheck::kWaits;
  unchecked_.insert(job.number);
  CheckWaitingJobs();
}

void Submissions::CheckWaitingJobs() {
  bool any_usable = false;
  for (const auto& [name, worker] : workers_.All()) {
    if (unchecked_.empty()) return;
    if (!workers_.IsUsable(worker)) continue;
    any_usable = true;
    if (checking_.insert(name).second) AskForCheck(*jobs_.Find(*unchecked_.begin()), name);
  }
  if (any_usable) return;
  for (uint64_t number : unchecked_) Accept(*jobs_.Find(number));
}

void Submissions::AskForCheck(JobRecord& job, const std::string& worker) {
  unchecked_.erase(job.number);
  asked_.insert(job.number);
  job.data_check = DataCheck::kAsked;
  job.checked_by = worker;
  job.check_deadline = options_.Now() + options_.probe_timeout;
  CoordinatorMessage message;
  ProbeData& probe = *message.mutable_probe_data();
  probe.set_request_id(job.id);
  *probe.mutable_dataset() = job.spec.dataset();
  if (job.spec.has_weights()) {
    *probe.mutable_model()->mutable_weights() = job.spec.weights();
    *probe.mutable_model()->mutable_tensor() = {job.model.begin(), job.model.end()};
  }
  workers_.Send(worker, 0, std::move(message), /*urgent=*/true);
}

void Submissions::ForgetChecksOf(const std::string& worker) {
  checking_.erase(worker);
  const std::set<uint64_t> asked = asked_;
  for (uint64_t number : asked) {
    JobRecord& job = *jobs_.Find(number);
    if (job.checked_by != worker) continue;
    asked_.erase(number);
    unchecked_.insert(number);
    job.data_check = DataCheck::kWaits;
  }
}

void Submissions::OnProbeResult(const std::string& worker, const ProbeResult& result) {
  checking_.erase(worker);
  JobRecord* job = jobs_.Find(result.request_id());
  const bool expected =
      job != nullptr && job->state == PENDING && job->data_check == DataCheck::kAsked && job->checked_by == worker;
  if (expected) {
    asked_.erase(job->number);
    if (result.error().empty()) {
      AskForPlan(*job, {result.dataset().begin(), result.dataset().end()});
    } else {
      const std::string location = job->place_of == nullptr ? "" : job->place_of(result.field());
      EndCheck(*job, absl::InvalidArgumentError(absl::StrCat(location, location.empty() ? "" : ": ", result.error(),
                                                             " (as ", worker, " sees it)")));
    }
  }
  CheckWaitingJobs();
}

void Submissions::EndCheck(JobRecord& job, const absl::Status& failure) {
  if (job.accepted) {
    queue_.End(job, FAILED, std::string(failure.message()));
  } else {
    Refuse(job, failure);
  }
}

void Submissions::Restore(const JobRecord& job) {
  if (job.state == PENDING && job.data_check == DataCheck::kWaits) unchecked_.insert(job.number);
}

void Submissions::CheckAgain(JobRecord& job) {
  if (job.data_check != DataCheck::kDone) CheckData(job);
}

// ---------------------------------------------------------------------------------------------------------------------
// The plan, and what becomes of the submission

void Submissions::AskForPlan(JobRecord& job, std::vector<DatasetSize> sizes) {
  job.data_check = DataCheck::kPlanning;
  outbox_.AskForPlan({job.id, job.plan_function, std::move(sizes)});
}

bool Submissions::Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->state != PENDING || job->data_check != DataCheck::kPlanning) return false;
  if (!planned.ok()) {
    EndCheck(*job, planned.status());
    return false;
  }
  job->plan_function = nullptr;  // it holds the spec as it was written, and the plan goes to the store
  job->place_of = nullptr;
  job->model.clear();
  job->plan_hash = std::move(planned->hash);
  job->data_check = DataCheck::kDone;
  StoredPlan row;
  row.set_job(job->number);
  row.set_plan(std::move(planned->plan));
  outbox_.Planned(std::move(row));
  Accept(*job);
  outbox_.JobChanged(*job);
  queue_.Wake();
  return true;
}

void Submissions::Accept(JobRecord& job) {
  if (job.accepted) return;
  job.accepted = true;
  ++accepted_;
  StoredSubmission row;
  row.set_job(job.number);
  *row.mutable_spec() = job.spec;
  row.set_source(job.source);
  row.set_file(job.file);
  outbox_.Submitted(std::move(row));
  job.source.clear();  // the store has it, and it can be large
  outbox_.JobChanged(job);
  outbox_.Event(job, "submitted",
                absl::StrCat(job.spec.name(), job.owner.empty() ? "" : absl::StrCat(" by ", job.owner)));
}

void Submissions::Refuse(const JobRecord& job, const absl::Status& reason) {
  refused_[job.id] = {reason, options_.Now() + kKeepRefusals};
  unchecked_.erase(job.number);
  asked_.erase(job.number);
  outbox_.Withdraw(job);
  jobs_.Erase(job.number);
}

void Submissions::Cancel(JobRecord& job) {
  Accept(job);
  unchecked_.erase(job.number);
  asked_.erase(job.number);
}

void Submissions::Abandon(const std::string& job_id) {
  JobRecord* job = jobs_.Find(job_id);
  if (job != nullptr && !job->accepted)
    Refuse(*job, absl::DeadlineExceededError("its data files were not checked in time"));
}

Admission Submissions::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  if (auto it = refused_.find(job_id); it != refused_.end()) {
    *reason = it->second.reason;
    return Admission::kRefused;
  }
  const JobRecord* job = jobs_.Find(job_id);
  return job != nullptr && job->durable ? Admission::kAccepted : Admission::kUndecided;
}

void Submissions::Durable(const std::vector<StoredSubmission>& submissions) {
  for (const StoredSubmission& submission : submissions) {
    if (JobRecord* job = jobs_.Find(submission.job())) job->durable = true;
  }
  if (!submissions.empty()) queue_.Wake();
}

void Submissions::Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason) {
  for (const StoredSubmission& submission : submissions) {
    if (const JobRecord* job = jobs_.Find(submission.job())) Refuse(*job, reason);
  }
}

void Submissions::ForgetOldJobs() {
  if (jobs_.Ended().size() <= options_.keep_jobs) return;
  const std::vector<uint64_t> ended(jobs_.Ended().begin(), jobs_.Ended().end());
  for (size_t i = 0; i + options_.keep_jobs < ended.size(); ++i) {
    const JobRecord& job = *jobs_.Find(ended[i]);
    if (!job.attempt.holders.empty()) continue;  // some worker may still have processes of it
    outbox_.Forget(job);
    jobs_.Erase(job.number);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Deadlines

bool Submissions::Tick() {
  const bool changed = TickChecks();
  for (auto it = refused_.begin(); it != refused_.end();) {
    it = options_.Now() >= it->second.forget_at ? refused_.erase(it) : std::next(it);
  }
  return changed;
}

bool Submissions::TickChecks() {
  bool changed = false;
  const std::set<uint64_t> asked = asked_;
  for (uint64_t number : asked) {
    JobRecord& job = *jobs_.Find(number);
    if (options_.Now() < job.check_deadline) continue;
    asked_.erase(number);
    changed = true;
    if (job.accepted) {  // another worker checks it, or this one at another time
      job.data_check = DataCheck::kWaits;
      unchecked_.insert(number);
      continue;
    }
    EndCheck(job, absl::DeadlineExceededError(absl::StrCat(job.checked_by, " did not check the data files within ",
                                                           absl::FormatDuration(options_.probe_timeout))));
  }
  if (changed) CheckWaitingJobs();
  return changed;
}

void Submissions::ForgivePause(absl::Duration pause) {
  for (uint64_t number : asked_) jobs_.Find(number)->check_deadline += pause;
}

}  // namespace adjoin
