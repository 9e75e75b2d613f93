#include "coordinator/decisions/submissions.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/decisions/weights_source.h"
#include "coordinator/placement/shared_output.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepRefusals = absl::Minutes(5);
constexpr size_t kMostRefusals = 20000;  // of up to kMaxErrorBytes; who waits for one looks several times a second
constexpr absl::Duration kBetweenMarks = absl::Minutes(10);

// Two lists with the same key are the same to the planner.
std::string KeyOf(const std::vector<DatasetSize>& sizes) {
  std::string key;
  for (const DatasetSize& size : sizes) {
    const std::string bytes = size.SerializeAsString();
    absl::StrAppend(&key, bytes.size(), ":", bytes);
  }
  return key;
}

}  // namespace

std::string OwnOutputFolder(uint64_t number) { return absl::StrCat("job-", number); }

absl::StatusOr<Submitted> Submissions::Submit(NewJob submitted) {
  const uint64_t reserved = submitted.number;
  // Only the name of the job's folder was asked for in advance. Where jobs share a folder, the later one has the higher
  // number.
  if (!submitted.spec.output_dir().empty()) jobs_.GiveBack(reserved);
  absl::StatusOr<Submitted> result = Add(std::move(submitted));
  jobs_.GiveBack(reserved);  // where no new job has it
  return result;
}

absl::StatusOr<Submitted> Submissions::Add(NewJob submitted) {
  std::string spec_hash = std::move(submitted.spec_hash);
  if (!submitted.idempotency_key.empty()) {
    if (spec_hash.empty()) spec_hash = SpecHash(submitted.spec);
    if (const IdempotencyKeys::Use* use = keys_.Find(submitted.owner, submitted.idempotency_key)) {
      const std::string id = absl::StrCat("job-", use->job);
      if (use->spec_hash == spec_hash) {
        if (JobRecord* same = jobs_.Find(use->job); same != nullptr) ++same->calls;
        return Submitted{id, true};
      }
      return absl::AlreadyExistsError(
          absl::StrCat("the idempotency key '", PrintableText(submitted.idempotency_key, kMaxNameBytes),
                       "' is that of ", id, ", which has another spec: choose another key"));
    }
  }
  if (LooksLikeId(submitted.spec.name())) {
    const std::string location = submitted.place_of == nullptr ? "" : submitted.place_of("name");
    return absl::InvalidArgumentError(absl::StrCat(location, location.empty() ? "" : ": ", "name: \"",
                                                   PrintableText(submitted.spec.name(), kMaxNameBytes),
                                                   "\" looks like the id of a job: choose another"));
  }
  const absl::Status weights = NameWeightsJob(jobs_, workers_, submitted.owner, submitted.any_folder, submitted.spec);
  if (!weights.ok()) {
    const std::string place = submitted.place_of == nullptr ? "" : submitted.place_of("weights.from_job");
    return absl::Status(weights.code(), absl::StrCat(place, place.empty() ? "" : ": ", std::string(weights.message())));
  }
  const uint64_t number = jobs_.IsReserved(submitted.number) ? submitted.number : jobs_.next_number();
  ChooseOutputFolder(number, submitted);
  ADJOIN_RETURN_IF_ERROR(CheckFolders(submitted));
  const bool is_planned = submitted.plan.has_value() && submitted.expected_sizes.empty();
  if (is_planned) ADJOIN_RETURN_IF_ERROR(CheckFits(*submitted.plan, submitted.spec));
  if (!submitted.any_folder && !submitted.owner.empty()) {
    ADJOIN_RETURN_IF_ERROR(CheckUserLimits(options_.user_limits, submitted.owner, submitted.spec.ranks(),
                                           jobs_.PendingCountOf(submitted.owner)));
  }
  if (jobs_.pending_count() >= options_.max_queued_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no more jobs can wait: ", jobs_.pending_count(),
                     " do, which is the coordinator's --max-queued-jobs; try again later"));
  }
  if (jobs_.live_spec_bytes() >= options_.max_queued_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no more jobs can wait: the specs of those that wait and run take ", jobs_.live_spec_bytes() >> 20,
        " MiB, and the coordinator's --max-queued-mb is ", options_.max_queued_bytes >> 20, "; try again later"));
  }
  auto made = std::make_unique<JobRecord>();
  made->number = number;
  made->spec = std::move(submitted.spec);
  made->written = std::move(submitted.written);
  made->place_of = std::move(submitted.place_of);
  made->model = std::move(submitted.model);
  made->owner = std::move(submitted.owner);
  made->any_folder = submitted.any_folder;
  made->priority = submitted.priority;
  made->idempotency_key = std::move(submitted.idempotency_key);
  made->submitted = options_.wall_clock();
  made->tag = options_.draw_tag();
  JobRecord& job = jobs_.Add(std::move(made));
  Submitted result{job.id, false};
  if (!job.idempotency_key.empty()) UseKey(job, std::move(spec_hash));
  ForgetOldJobs(job.owner);
  if (is_planned) {
    TakePlan(job, *std::move(submitted.plan));
    return result;
  }
  if (submitted.plan.has_value()) KeepExpected(job.number, *std::move(submitted.plan), submitted.expected_sizes);
  CheckData(job);
  return result;
}

// A job without output_dir gets a folder of its own, named by its number.
void Submissions::ChooseOutputFolder(uint64_t number, NewJob& submitted) const {
  if (!submitted.spec.output_dir().empty()) return;
  const std::string own = OwnOutputFolder(number);
  const bool taken = jobs_.folders().OfAnother(own, submitted.owner).has_value() || jobs_.UseOf(own).has_value();
  // A user may have chosen this name for another job.
  submitted.spec.set_output_dir(taken ? absl::StrCat(own, "-", absl::Hex(options_.draw_tag())) : own);
  const bool fits = submitted.number == 0 || submitted.spec.output_dir() == OwnOutputFolder(submitted.number);
  if (!fits) submitted.plan.reset();  // it names the folder that was reserved
}

// Errors: kPermissionDenied (a folder is another owner's), kFailedPrecondition (another job writes in its output_dir,
// or has left something there; the workers that there are cannot share it).
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
  if (const absl::Status unused =
          CheckUnused(jobs_.UseOf(spec.output_dir()), spec.output_dir(), submitted.replace_output);
      !unused.ok()) {
    const std::string place = submitted.place_of == nullptr ? "" : submitted.place_of("output_dir");
    return absl::Status(unused.code(), absl::StrCat(place, place.empty() ? "" : ": ", std::string(unused.message())));
  }
  if (SharedRoom room(spec);
      NeedsSharedOutput(spec) &&
      !workers_.AnyInTimeFor(spec.resources(), [&](const FreeSlots& worker) { return room.Add(worker); })) {
    ADJOIN_RETURN_IF_ERROR(CheckSharedOutput(spec, workers_.AllInTimeFor(spec.resources())));
  }
  return submitted.any_folder ? absl::OkStatus() : folders.CheckReads(spec.weights().from_output(), submitted.owner);
}

// ---------------------------------------------------------------------------------------------------------------------
// The check of data files

void Submissions::CheckData(JobRecord& job) {
  std::optional<std::vector<DatasetSize>> sizes = SizesWithoutFiles(job.spec);
  sizes.has_value() ? AskForPlan(job, *std::move(sizes)) : checks_.Add(job);
}

void Submissions::EndCheck(JobRecord& job, const absl::Status& failure) {
  if (job.accepted) {
    queue_.End(job, FAILED, std::string(failure.message()));
  } else {
    Refuse(job, failure);
  }
}

void Submissions::RestoreKeys(const std::vector<StoredKey>& rows, std::optional<AgeMark> mark) {
  if (!mark.has_value() && !rows.empty()) {
    // An older release stores no marks, and the times of the wall clock.
    const auto latest = std::max_element(rows.begin(), rows.end(),
                                         [](const StoredKey& a, const StoredKey& b) { return a.unix_ms < b.unix_ms; });
    const absl::Time last = std::min(absl::FromUnixMillis(latest->unix_ms), options_.wall_clock());
    mark = AgeMark{last, last};
  }
  ages_ = AgeClock(options_.wall_clock, options_.monotonic_clock, mark);
  const int64_t now = absl::ToUnixMillis(ages_.Now());
  bool any_ahead = false;
  for (StoredKey row : rows) {
    if (row.unix_ms > now) {
      // That clock was set ahead: the key begins its age anew, and makes no other key older.
      any_ahead = true;
      row.unix_ms = now;
      outbox_.KeyChanged(row);
    }
    keys_.Add(row.owner, row.key, {row.job, row.spec_hash, absl::FromUnixMillis(row.unix_ms)});
  }
  next_mark_ = ages_.Now() + kBetweenMarks;
  if (any_ahead) MarkAge();
}

void Submissions::UseKey(const JobRecord& job, std::string spec_hash) {
  keys_.Add(job.owner, job.idempotency_key, {job.number, std::move(spec_hash), ages_.Now()});
}

void Submissions::MarkAge() {
  const AgeMark mark = ages_.Mark();
  next_mark_ = mark.age + kBetweenMarks;
  outbox_.AgeMarked(mark);
}

void Submissions::StoreKey(const JobRecord& job) {
  const IdempotencyKeys::Use* use = keys_.Find(job.owner, job.idempotency_key);
  if (use == nullptr || use->job != job.number) return;
  outbox_.KeyChanged({.owner = job.owner,
                      .key = job.idempotency_key,
                      .job = job.number,
                      .spec_hash = use->spec_hash,
                      .unix_ms = absl::ToUnixMillis(use->used)});
  MarkAge();  // no key in the store is later than its mark
  for (StoredKey& dropped : keys_.Drop(ages_.Now())) outbox_.KeyChanged(std::move(dropped));
}

void Submissions::Restore(JobRecord& job) {
  if (!job.idempotency_key.empty() && keys_.Find(job.owner, job.idempotency_key) == nullptr) {
    UseKey(job, SpecHash(job.spec));  // from a store of an older release, which had no keys of their own
    StoreKey(job);
  }
  if (job.state == PENDING && job.data_check == DataCheck::kWaits) checks_.Restore(job);
}

void Submissions::CheckAgain(JobRecord& job) {
  if (job.data_check != DataCheck::kDone) CheckData(job);
}

// ---------------------------------------------------------------------------------------------------------------------
// The plan, and what becomes of the submission

void Submissions::KeepExpected(uint64_t number, PlannedJob plan, const std::vector<DatasetSize>& sizes) {
  if (expected_.size() >= kMostExpectedPlans || plan.plan.size() > kMaxExpectedPlanBytes) return;
  expected_[number] = {std::move(plan), KeyOf(sizes)};
}

void Submissions::DataPassed(JobRecord& job, std::vector<DatasetSize> sizes) {
  auto expected = expected_.extract(job.number);
  // All else that the planner is asked was known when the plan was made: where its folder was not, ChooseOutputFolder
  // dropped it, and a job whose weights a worker finds brings none.
  if (!expected.empty() && expected.mapped().sizes == KeyOf(sizes)) {
    UsePlan(job, std::move(expected.mapped().plan));
  } else {
    AskForPlan(job, std::move(sizes));
  }
}

void Submissions::AskForPlan(JobRecord& job, std::vector<DatasetSize> sizes) {
  job.data_check = DataCheck::kPlanning;
  std::shared_ptr<const SubmittedSpec> written = job.written;
  if (written == nullptr) {
    SubmittedSpec spec;
    spec.spec = job.spec;
    written = std::make_shared<const SubmittedSpec>(std::move(spec));
  }
  outbox_.AskForPlan({.job_id = job.id,
                      .owner = job.owner,
                      .written = std::move(written),
                      .sizes = std::move(sizes),
                      .output_dir = job.spec.output_dir(),
                      .weights = job.weights,
                      .weights_file = job.weights_file});
}

bool Submissions::Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->state != PENDING || job->data_check != DataCheck::kPlanning) return false;
  if (!planned.ok()) {
    EndCheck(*job, planned.status());
    return false;
  }
  return UsePlan(*job, *std::move(planned));
}

bool Submissions::UsePlan(JobRecord& job, PlannedJob planned) {
  // A job that was accepted waits for another node.
  if (const absl::Status fits = job.accepted ? absl::OkStatus() : CheckFits(planned, job.spec); !fits.ok()) {
    EndCheck(job, fits);
    return false;
  }
  TakePlan(job, std::move(planned));
  if (!job.durable) return false;  // Durable wakes the queue
  queue_.Wake();
  return true;
}

absl::Status Submissions::CheckFits(const PlannedJob& planned, const JobSpec& spec) const {
  if (options_.Now() < all_workers_known_at_) return absl::OkStatus();
  // In most clusters the first worker has room for a rank.
  const RankNeed need = NeedOf(spec, planned.predicted);
  if (workers_.AnyKnownFor(spec.resources(),
                           [&](const FreeSlots& worker) { return RoomFor(worker, spec.resources(), need) > 0; })) {
    return absl::OkStatus();
  }
  return CheckMemory(planned, spec, workers_.AllKnownFor(spec.resources()));
}

void Submissions::TakePlan(JobRecord& job, PlannedJob planned) {
  job.place_of = nullptr;
  job.model.clear();
  job.plan_hash = std::move(planned.hash);
  job.predicted = std::move(planned.predicted);
  job.data_check = DataCheck::kDone;
  StoredPlan row;
  row.set_job(job.number);
  row.set_plan(std::move(planned.plan));
  outbox_.Planned(std::move(row));
  Accept(job);
  if (!job.weights.empty()) {
    outbox_.Event(job, "weights",
                  absl::StrCat("begins with those of ", job.spec.weights().from_job(), ": ", job.weights));
    job.weights.clear();
  }
  job.weights_file.reset();
  job.written = nullptr;  // it can be large, and the store has it
  outbox_.JobChanged(job);
}

void Submissions::Accept(JobRecord& job) {
  if (job.accepted) return;
  expected_.erase(job.number);  // its files may be checked much later
  jobs_.Accept(job);
  ++accepted_;
  StoredSubmission row;
  row.set_job(job.number);
  *row.mutable_spec() = job.spec;
  if (job.written != nullptr) {
    row.set_source(job.written->source);
    row.set_file(job.written->file);
  }
  outbox_.Submitted(std::move(row));
  if (!job.idempotency_key.empty()) StoreKey(job);
  outbox_.JobChanged(job);
  outbox_.Event(job, "submitted",
                absl::StrCat(job.spec.name(), job.owner.empty() ? "" : absl::StrCat(" by ", job.owner)));
}

void Submissions::Refuse(const JobRecord& job, const absl::Status& reason) {
  refused_[job.id] = reason;
  refusals_.push_back({job.id, options_.Now() + kKeepRefusals});
  ForgetRefusals(kMostRefusals);
  ForgetCheck(job);
  expected_.erase(job.number);
  outbox_.Withdraw(job);
  keys_.Erase(job.owner, job.idempotency_key, job.number);
  jobs_.Erase(job.number);
}

void Submissions::ForgetCheck(const JobRecord& job) {
  checks_.Remove(job);
  if (job.data_check == DataCheck::kPlanning) outbox_.DropPlan(job.id);
}

void Submissions::Cancel(JobRecord& job) {
  Accept(job);
  ForgetCheck(job);
}

void Submissions::Abandon(const std::string& job_id, const absl::Status& reason) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->accepted) return;
  if (job->calls > 0) --job->calls;
  if (job->calls == 0) Refuse(*job, reason);
}

Admission Submissions::AdmissionOf(const std::string& job_id, absl::Status* reason) {
  if (auto it = refused_.find(job_id); it != refused_.end()) {
    *reason = it->second;
    return Admission::kRefused;
  }
  if (const JobRecord* job = jobs_.Find(job_id); job != nullptr) {
    if (job->durable) return Admission::kAccepted;
    return job->data_check == DataCheck::kPlanning ? Admission::kPlanning : Admission::kUndecided;
  }
  // A key may name a job that was accepted once and is forgotten.
  return keys_.HasJob(JobNumberOf(job_id)) ? Admission::kAccepted : Admission::kUndecided;
}

void Submissions::Durable(const std::vector<StoredSubmission>& submissions) {
  for (const StoredSubmission& submission : submissions) {
    JobRecord* job = jobs_.Find(submission.job());
    if (job == nullptr) continue;
    job->durable = true;
    outbox_.Touched(*job, JobChange::kState);  // a user waits to hear that
  }
  if (!submissions.empty()) queue_.Wake();
}

void Submissions::Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason) {
  for (const StoredSubmission& submission : submissions) {
    if (const JobRecord* job = jobs_.Find(submission.job())) Refuse(*job, reason);
  }
}

void Submissions::ForgetOldJobs(const std::string& owner) {
  auto of_owner = jobs_.EndedByOwner().find(owner);
  if (of_owner != jobs_.EndedByOwner().end() && of_owner->second.numbers.size() > options_.keep_jobs) {
    ForgetOldest(of_owner->second.numbers, of_owner->second.numbers.size() - options_.keep_jobs);
  }
  ForgetBeyondTotals();
}

bool Submissions::ForgetBeyondTotals() {
  const size_t before = jobs_.Ended().size();
  const size_t most = std::max(options_.keep_jobs, options_.keep_jobs_total);
  while (jobs_.Ended().size() > most) {
    if (!ForgetOfLargest([](const EndedJobs& ended) { return ended.numbers.size(); })) break;
  }
  while (jobs_.ended_spec_bytes() > options_.keep_bytes_total) {
    if (!ForgetOfLargest([](const EndedJobs& ended) { return ended.spec_bytes; })) break;
  }
  return jobs_.Ended().size() < before;
}

bool Submissions::ForgetOfLargest(size_t (*size_of)(const EndedJobs&)) {
  const auto& by_owner = jobs_.EndedByOwner();
  const auto largest = std::max_element(by_owner.begin(), by_owner.end(), [&](const auto& a, const auto& b) {
    return size_of(a.second) < size_of(b.second);
  });
  return ForgetOldest(largest->second.numbers, 1) > 0;
}

size_t Submissions::ForgetOldest(const std::set<uint64_t>& ended, size_t most) {
  std::vector<uint64_t> oldest;
  for (auto it = ended.begin(); it != ended.end() && oldest.size() < most; ++it) {
    const bool held = !jobs_.Find(*it)->attempt.holders.empty();  // some worker may still have processes of it
    if (!held) oldest.push_back(*it);
  }
  for (uint64_t number : oldest) Forget(*jobs_.Find(number));
  return oldest.size();
}

void Submissions::Forget(const JobRecord& job, bool files_removed) {
  outbox_.Forget(job);
  for (StoredFolder& row : jobs_.Forget(job.number, files_removed)) outbox_.FolderChanged(std::move(row));
}

// ---------------------------------------------------------------------------------------------------------------------
// Deadlines

bool Submissions::Tick() {
  bool changed = checks_.Tick();
  changed = ForgetBeyondTotals() || changed;
  if (keys_.size() > 0 && ages_.Now() >= next_mark_) {
    MarkAge();
    changed = true;
  }
  ForgetRefusals(kMostRefusals);
  return changed;
}

void Submissions::ForgetRefusals(size_t most) {
  while (!refusals_.empty() && (refusals_.size() > most || options_.Now() >= refusals_.front().forget_at)) {
    refused_.erase(refusals_.front().job_id);
    refusals_.pop_front();
  }
}

void Submissions::ForgivePause(absl::Duration pause) { checks_.ForgivePause(pause); }

}  // namespace adjoin
