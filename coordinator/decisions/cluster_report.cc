#include "coordinator/decisions/cluster_report.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/trace_file.h"
#include "coordinator/decisions/stored_rows.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

// One step of a listing: so much that others hardly notice that they wait for it.
constexpr int kMostInOneStep = 1000;
constexpr int kMostInFirstStep = 64;  // ranks of a job
constexpr absl::Duration kLongestStep = absl::Milliseconds(1);
constexpr absl::Duration kRecent = absl::Milliseconds(100);
// Bytes that an element of a list takes besides its own.
constexpr size_t kBytesAround = 8;

ClusterSnapshot::RunningJob Measure(const JobRecord& job) {
  ClusterSnapshot::RunningJob now;
  now.id = job.id;
  now.step = job.progress.step();
  if (job.progress.steps_per_second() > 0) now.step_seconds = 1 / job.progress.steps_per_second();
  int measured = 0;
  for (const RankRecord& rank : job.attempt.ranks) {
    now.bytes_sent += rank.progress.bytes_sent();
    if (rank.progress.compute_seconds() <= 0) continue;
    now.compute_seconds += rank.progress.compute_seconds();
    now.sync_seconds += rank.progress.sync_seconds();
    ++measured;
  }
  now.compute_seconds /= std::max(measured, 1);
  now.sync_seconds /= std::max(measured, 1);
  if (job.spec.kind() != TRAIN) return now;
  if (job.progress.step() > 0 || job.progress.loss() != 0) now.loss = job.progress.loss();
  const auto validation = job.progress.metric().find("validation.loss");
  if (validation != job.progress.metric().end()) now.validation_loss = validation->second;
  return now;
}

// The end of an error about an artifact that a job does not have.
std::string WhichArtifacts(const JobRecord& job) {
  constexpr size_t kShown = 20;
  if (job.artifacts.empty()) return IsFinal(job.state) ? "; it left none" : "; they are there when it has succeeded";
  std::vector<std::string> shown;
  for (const std::string& artifact : job.artifacts) {
    if (shown.size() == kShown) break;
    shown.push_back(artifact);
  }
  const size_t more = job.artifacts.size() - shown.size();
  return absl::StrCat("; it has ", absl::StrJoin(shown, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Jobs and workers

JobSummary ClusterReport::Summarize(const JobRecord& job, ReasonContext& context) const {
  JobSummary summary;
  summary.set_job_id(job.id);
  summary.set_name(job.spec.name());
  summary.set_state(job.state);
  summary.set_reason(PrintableText(job.state == PENDING ? PendingReason(job, context) : job.reason, kMaxErrorBytes));
  summary.set_ranks(job.spec.ranks());
  summary.set_epoch(job.attempt.epoch);
  summary.set_submitted_unix_ms(UnixMillis(job.submitted));
  summary.set_started_unix_ms(UnixMillis(job.started));
  summary.set_ended_unix_ms(UnixMillis(job.ended));
  *summary.mutable_progress() = job.progress;
  summary.mutable_progress()->clear_layer_times();  // a list of jobs has no room for those of each
  summary.set_queue_position(parts_.jobs.QueuePosition(job));
  summary.set_priority(job.priority);
  summary.set_owner(job.owner);
  summary.set_held(job.held);
  summary.set_attempts(job.history.attempts);
  summary.set_restarts_counted(job.history.counted);
  return summary;
}

WorkerSummary ClusterReport::Summarize(const WorkerRecord& worker) const {
  WorkerSummary summary;
  summary.set_name(worker.hello.name());
  summary.set_address(worker.hello.address());
  summary.set_slots(worker.hello.slots());
  summary.set_free_slots(std::max(0, worker.free.slots));
  summary.set_gpus(worker.hello.gpu_size());
  summary.set_free_gpus(worker.free.gpus);
  summary.set_memory_bytes(worker.hello.memory_bytes());
  summary.set_free_memory_bytes(static_cast<uint64_t>(std::max<int64_t>(0, worker.free.memory.value_or(0))));
  summary.set_state(parts_.workers.StateOf(worker));
  summary.set_condition(parts_.workers.ConditionOf(worker));
  summary.set_heartbeat_age_seconds(absl::ToDoubleSeconds(parts_.options.Now() - worker.last_heard));
  return summary;
}

bool ClusterReport::Continue(JobPage& page) const {
  const absl::Duration begin = parts_.options.Now();
  int looked_at = 0;
  const auto late = [&] { return ++looked_at > kMostInOneStep || parts_.options.Now() - begin > kLongestStep; };
  page.response_.set_total_jobs(CountFor(page));
  if (!parts_.queue.is_open()) {
    page.response_.set_notice(absl::StrCat("no job is accepted and none starts: ", parts_.queue.why_closed()));
  }
  return AddWorkers(page, late) && AddJobs(page, late);
}

uint64_t ClusterReport::CountFor(const JobPage& page) const {
  uint64_t count = 0;
  for (int value = JobState_MIN; value <= JobState_MAX; ++value) {
    const auto state = static_cast<JobState>(value);
    if (!page.state_.empty() && page.state_.count(state) == 0) continue;
    count += page.owner_.empty() ? parts_.jobs.Count(state) : parts_.jobs.CountOf(page.owner_, state);
  }
  return count;
}

bool ClusterReport::AddWorkers(JobPage& page, const std::function<bool()>& late) const {
  if (page.workers_done_) return true;
  const std::map<std::string, WorkerRecord>& workers = parts_.workers.All();
  auto it = page.last_worker_.has_value() ? workers.upper_bound(*page.last_worker_) : workers.begin();
  for (; it != workers.end(); ++it) {
    if (late()) return false;
    page.last_worker_ = it->first;
    WorkerSummary summary = Summarize(it->second);
    const size_t bytes = summary.ByteSizeLong() + kBytesAround;
    if (page.worker_bytes_ + bytes > kMaxPageBytes) {
      ++page.workers_left_out_;
      continue;
    }
    page.worker_bytes_ += bytes;
    *page.response_.add_worker() = std::move(summary);
  }
  page.workers_done_ = true;
  return true;
}

bool ClusterReport::AddJobs(JobPage& page, const std::function<bool()>& late) const {
  bool complete = true;
  parts_.jobs.VisitListed(page.after_, [&](const JobRecord& job) {
    if (late()) return complete = false;
    if (page.Wants(job)) {
      JobSummary summary = Summarize(job, page.reasons_);
      const size_t bytes = summary.ByteSizeLong() + kBytesAround;
      if (page.IsFull(bytes)) {
        page.response_.set_next_page_token(PageToken(*page.after_));
        return false;
      }
      page.job_bytes_ += bytes;
      *page.response_.add_job() = std::move(summary);
    }
    page.after_ = PlaceOf(job);
    return true;
  });
  return complete;
}

absl::StatusOr<JobSummary> ClusterReport::RecentSummary(const JobReference& reference) {
  absl::StatusOr<const JobRecord*> job = parts_.jobs.Resolve(reference);
  if (!job.ok()) return job.status();
  if (parts_.options.Now() - recent_at_ > kRecent) {
    recent_ = ReasonContext();
    recent_at_ = parts_.options.Now();
  }
  return Summarize(**job, recent_);
}

bool ClusterReport::Continue(JobDescription& made) const {
  const absl::StatusOr<const JobRecord*> found = parts_.jobs.Resolve(made.reference);
  made.status = found.status();
  if (!found.ok()) return true;
  const JobRecord& job = **found;
  DescribeJobResponse& response = made.response;
  const std::vector<RankRecord>& ranks = job.attempt.ranks;
  if (response.header().epoch() != job.attempt.epoch || static_cast<size_t>(response.rank_size()) > ranks.size()) {
    response.clear_rank();
  }
  *response.mutable_header() = MakeHeader(job.attempt.epoch);
  const int most = std::exchange(made.begun, true) ? kMostInOneStep : kMostInFirstStep;
  const absl::Duration begin = parts_.options.Now();
  for (int looked_at = 0; static_cast<size_t>(response.rank_size()) < ranks.size(); ++looked_at) {
    if (looked_at == most || parts_.options.Now() - begin > kLongestStep) return false;
    const RankRecord& record = ranks[response.rank_size()];
    RankStatus& rank = *response.add_rank();
    rank.set_rank(response.rank_size() - 1);
    rank.set_worker(record.worker);
    rank.set_pid(record.pid);
    rank.set_state(ToString(record.state));
    *rank.mutable_progress() = record.progress;
    rank.mutable_progress()->clear_layer_times();  // the job's progress has them
    rank.set_transport(record.transport);
    if (record.gpu.has_value()) *rank.mutable_gpu() = *record.gpu;
    rank.set_binding(record.binding);
  }
  Fill(job, response);
  made.spec = parts_.jobs.SpecOf(job);
  return true;
}

void ClusterReport::Fill(const JobRecord& job, DescribeJobResponse& response) const {
  ReasonContext context;
  *response.mutable_job() = Summarize(job, context);
  *response.mutable_job()->mutable_progress() = job.progress;
  response.set_plan_hash(job.plan_hash);
  for (const std::string& artifact : job.artifacts) response.add_artifact(artifact);
  response.set_artifacts_left_out(job.artifacts_left_out);
  if (job.predicted.ByteSizeLong() > 0) *response.mutable_predicted() = job.predicted;
  if (const uint64_t later = parts_.jobs.ReplacedBy(job); later != 0) {
    response.set_replaced_by(absl::StrCat("job-", later));
  }
}

absl::Status ClusterReport::CheckPublished(const JobRecord& job, const std::string& name) const {
  // A file that is not listed may be there: the worker looks.
  if (job.artifacts.count(name) == 0 && job.artifacts_left_out == 0) {
    return absl::NotFoundError(absl::StrCat(job.id, " has no artifact '", name, "'", WhichArtifacts(job)));
  }
  const uint64_t later = parts_.jobs.ReplacedBy(job);
  if (later == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the files of ", job.id, " are no more: job-", later,
                                                    " has replaced them in output_dir '", job.spec.output_dir(),
                                                    "'; get ", name, " of job-", later));
}

absl::Status ClusterReport::FindWorker(const std::vector<std::string>& names, const std::string& what,
                                       ArtifactSource* source) const {
  for (const std::string& name : names) {
    const WorkerRecord* worker = parts_.workers.Find(name);
    if (worker == nullptr || worker->connection == 0) continue;
    source->connection = worker->connection;
    source->worker = name;
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("'", what, "' is on worker ", names[0], ", which is not connected"));
}

absl::Status ClusterReport::FillCheckpoint(const JobRecord& job, const CheckpointChoice& choice,
                                           ArtifactSource* source) const {
  const Checkpoint& spec = job.spec.checkpoint();
  if (spec.dir().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        job.id,
        " writes no checkpoints (checkpoint { dir: ... }), so there is no other model of it than that which"
        " it publishes when it has succeeded"));
  }
  CheckpointRead& read = *source->send.mutable_checkpoint();
  read.set_dir(spec.dir());
  read.set_job_tag(job.tag);
  *read.mutable_choice() = choice;
  read.set_metric(spec.keep_best());
  source->needs_model = choice.best() || choice.step() > 0;
  std::vector<std::string> workers = {job.attempt.ranks[0].worker};
  workers.insert(workers.end(), job.home_workers.begin(), job.home_workers.end());  // they see the same files
  return FindWorker(workers, spec.dir(), source);
}

absl::StatusOr<ArtifactSource> ClusterReport::FindArtifact(const JobReference& reference,
                                                           const GetArtifactRequest& request) const {
  absl::StatusOr<const JobRecord*> found = parts_.jobs.Resolve(reference);
  if (!found.ok()) return found.status();
  const JobRecord& job = **found;
  const std::string& name = request.name();
  if (name.empty() || name == "." || name == ".." || absl::StrContains(name, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not the name of a file: no '/' and no '..'"));
  }
  if (name.size() > kMaxPathBytes || !IsPrintableText(name)) {
    return absl::InvalidArgumentError(absl::StrCat("'", PrintableText(name, kMaxNameBytes), "', of ", name.size(),
                                                   " bytes, is the name of no result: one has at most ", kMaxPathBytes,
                                                   " bytes and no control characters"));
  }
  const bool unfinished = request.unfinished() && (name == kMetricsFile || IsTraceFile(name)) && job.state != SUCCEEDED;
  const bool chosen = request.checkpoint().best() || request.checkpoint().step() > 0;
  const bool checkpoint = request.has_checkpoint() && name == kModelFile && (chosen || job.artifacts.count(name) == 0);
  if ((unfinished || checkpoint) && job.attempt.ranks.empty()) {
    return absl::NotFoundError(absl::StrCat(job.id, " has not started yet, and so has no '", name, "'"));
  }
  ArtifactSource source;
  source.job = job.number;
  source.epoch = job.attempt.epoch;
  source.send.set_job_id(job.id);
  source.send.set_output_dir(job.spec.output_dir());
  source.send.set_name(name);
  source.send.set_epoch(job.attempt.epoch);
  absl::Status status;
  if (checkpoint) {
    status = FillCheckpoint(job, request.checkpoint(), &source);
  } else {
    if (!unfinished) status = CheckPublished(job, name);
    source.send.set_unfinished(unfinished);
    source.send.set_from(request.from_epoch() == job.attempt.epoch ? request.from() : 0);
    if (status.ok()) status = FindWorker({job.attempt.ranks.at(0).worker}, name, &source);
  }
  if (!status.ok()) return status;
  return source;
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

ClusterSnapshot ClusterReport::Snapshot() const {
  SnapshotInSteps made;
  while (!Continue(made)) {
  }
  return std::move(made.snapshot);
}

bool ClusterReport::Continue(SnapshotInSteps& made) const {
  const absl::Duration begin = parts_.options.Now();
  int looked_at = 0;
  const auto late = [&] { return ++looked_at > kMostInOneStep || parts_.options.Now() - begin > kLongestStep; };
  ClusterSnapshot& now = made.snapshot;
  const std::map<std::string, WorkerRecord>& workers = parts_.workers.All();
  if (!made.workers_done) {
    auto it = made.last_worker.has_value() ? workers.upper_bound(*made.last_worker) : workers.begin();
    for (; it != workers.end(); ++it) {
      if (late()) return false;
      made.last_worker = it->first;
      const WorkerRecord& worker = it->second;
      now.workers.push_back({.name = it->first,
                             .state = parts_.workers.StateOf(worker),
                             .heartbeat_age_seconds = absl::ToDoubleSeconds(parts_.options.Now() - worker.last_heard),
                             .slots = worker.hello.slots(),
                             .free_slots = static_cast<uint32_t>(std::max(0, worker.free.slots)),
                             .gpus = static_cast<uint32_t>(worker.hello.gpu_size()),
                             .free_gpus = static_cast<uint32_t>(worker.free.gpus)});
    }
    made.workers_done = true;
  }
  bool complete = true;
  parts_.jobs.VisitActive(made.last_job, [&](const JobRecord& job) {
    if (late()) return complete = false;
    made.last_job = job.number;
    if (job.state == RUNNING) now.running.push_back(Measure(job));
    return true;
  });
  if (complete) CountAll(now);
  return complete;
}

void ClusterReport::CountAll(ClusterSnapshot& now) const {
  for (int value = JobState_MIN; value <= JobState_MAX; ++value) {
    const auto state = static_cast<JobState>(value);
    if (const uint64_t count = parts_.jobs.Count(state); count > 0) now.jobs[state] = count;
  }
  now.queue_length = parts_.jobs.Count(PENDING);
  if (const JobRecord* job = parts_.jobs.LongestWaiting(); job != nullptr) {
    const absl::Duration age = parts_.options.wall_clock() - job->submitted;
    now.queue_oldest_seconds = std::max(0.0, absl::ToDoubleSeconds(age));  // wall clocks may be set back
  }
  now.submits = parts_.submissions.accepted();
  now.restarts = parts_.attempts.counters().restarts;
  now.goodput_seconds = parts_.attempts.counters().goodput_seconds;
  now.lost_seconds = parts_.attempts.counters().lost_seconds;
  now.workers_lost = parts_.workers.lost_in_all();
}

}  // namespace adjoin
