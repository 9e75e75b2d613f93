#include "coordinator/decisions/cluster_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/placement/shared_output.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

int64_t UnixMillis(absl::Time time) { return time == absl::Time() ? 0 : absl::ToUnixMillis(time); }

// Two ways to write one folder are one folder.
std::string Folder(const JobSpec& spec) { return (std::filesystem::path(spec.output_dir()) / "").lexically_normal(); }

std::string Count(int64_t n, const std::string& noun) { return absl::StrCat(n, " ", noun, n == 1 ? "" : "s"); }

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
  return now;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// What a job waits for

std::string ClusterReport::PendingReason(const JobRecord& job, uint32_t queue_position) const {
  const std::string after = job.reason.empty() ? "" : absl::StrCat(" after: ", job.reason);
  if (job.held) return absl::StrCat("held: `adjoin release ", job.id, "` lets it start", after);
  if (!job.attempt.holders.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, holder] : job.attempt.holders) names.push_back(name);
    return absl::StrCat("starts again when no process of attempt ", job.attempt.epoch, " is left on ",
                        absl::StrJoin(names, ", "), after);
  }
  const absl::Duration now = parts_.options.Now();
  if (job.not_before > now) {
    return absl::StrCat("starts again in ", absl::FormatDuration(absl::Ceil(job.not_before - now, absl::Seconds(1))),
                        after);
  }
  const std::map<std::string, WorkerRecord>& workers = parts_.workers.All();
  if (std::none_of(workers.begin(), workers.end(),
                   [&](const auto& each) { return parts_.workers.IsUsable(each.second); })) {
    return "no worker is connected";
  }
  if (job.data_check == DataCheck::kAsked) return absl::StrCat("its data files are being checked by ", job.checked_by);
  if (job.data_check != DataCheck::kDone) return "its data files are to be checked";
  if (!parts_.homes.HomeOf(job).empty() && !parts_.homes.CouldEverStart(job)) {
    return absl::StrCat("waits for ", parts_.homes.Reason(job), after);
  }
  return absl::StrCat(SlotsReason(job, queue_position), after);
}

std::string ClusterReport::SlotsReason(const JobRecord& job, uint32_t queue_position) const {
  int64_t total = 0, free = 0, usable = 0;
  for (const auto& [name, worker] : parts_.workers.All()) {
    if (!parts_.workers.IsUsable(worker)) continue;
    total += worker.hello.slots();
    free += worker.FreeSlots();
    ++usable;
  }
  std::string reason = absl::StrCat("needs ", Count(job.spec.ranks(), "slot"), ", ", free, " of ", total, " free on ",
                                    Count(usable, "worker"));
  const Resources& resources = job.spec.resources();
  if (resources.max_ranks_per_node() > 0) {
    absl::StrAppend(&reason, ", at most ", resources.max_ranks_per_node(), " a node");
  }
  for (const auto& [label, value] : resources.node_label()) absl::StrAppend(&reason, ", with ", label, "=", value);
  if (!parts_.homes.HomeOf(job).empty()) absl::StrAppend(&reason, ", on ", parts_.homes.Reason(job));
  if (const absl::Status shared = CheckSharedOutput(job.spec, parts_.workers.AllFor(resources)); !shared.ok()) {
    absl::StrAppend(&reason, "; ", std::string(shared.message()));
  }
  if (!job.unassigned.empty()) absl::StrAppend(&reason, "; ", job.unassigned);
  if (job.spec.ranks() > total) absl::StrAppend(&reason, "; it starts when more workers connect");
  if (queue_position > 1) absl::StrAppend(&reason, "; behind ", Count(queue_position - 1, "other job"));
  const std::string& head = parts_.queue.blocked_head();
  if (!head.empty() && head != job.id) absl::StrAppend(&reason, "; it could delay ", head);
  return reason;
}

// ---------------------------------------------------------------------------------------------------------------------
// Jobs and workers

uint32_t ClusterReport::QueuePosition(const JobRecord& job) const {
  if (job.state != PENDING) return 0;
  uint32_t position = 0;
  for (const JobRecord* other : parts_.jobs.Pending()) {
    ++position;
    if (other == &job) break;
  }
  return position;
}

JobSummary ClusterReport::Summarize(const JobRecord& job, uint32_t queue_position) const {
  JobSummary summary;
  summary.set_job_id(job.id);
  summary.set_name(job.spec.name());
  summary.set_state(job.state);
  summary.set_reason(job.state == PENDING ? PendingReason(job, queue_position) : job.reason);
  summary.set_ranks(job.spec.ranks());
  summary.set_epoch(job.attempt.epoch);
  summary.set_submitted_unix_ms(UnixMillis(job.submitted));
  summary.set_started_unix_ms(UnixMillis(job.started));
  summary.set_ended_unix_ms(UnixMillis(job.ended));
  *summary.mutable_progress() = job.progress;
  summary.set_queue_position(queue_position);
  summary.set_priority(job.priority);
  summary.set_owner(job.owner);
  summary.set_held(job.held);
  summary.set_attempts(job.history.attempts);
  summary.set_restarts_counted(job.history.counted);
  return summary;
}

ListJobsResponse ClusterReport::List() const {
  ListJobsResponse response;
  *response.mutable_header() = MakeHeader();
  std::map<uint64_t, uint32_t> positions;
  uint32_t position = 0;
  for (const JobRecord* job : parts_.jobs.Pending()) positions[job->number] = ++position;
  for (const JobRecord* job : parts_.jobs.All()) {
    if (job->accepted) *response.add_job() = Summarize(*job, job->state == PENDING ? positions[job->number] : 0);
  }
  for (const auto& [name, worker] : parts_.workers.All()) {
    WorkerSummary& summary = *response.add_worker();
    summary.set_name(name);
    summary.set_address(worker.hello.address());
    summary.set_slots(worker.hello.slots());
    summary.set_free_slots(std::max(0, worker.FreeSlots()));
    summary.set_state(parts_.workers.StateOf(worker));
    summary.set_heartbeat_age_seconds(absl::ToDoubleSeconds(parts_.options.Now() - worker.last_heard));
  }
  return response;
}

absl::StatusOr<JobSummary> ClusterReport::Summary(const std::string& reference) const {
  absl::StatusOr<const JobRecord*> job = parts_.jobs.Resolve(reference);
  if (!job.ok()) return job.status();
  return Summarize(**job, QueuePosition(**job));
}

absl::StatusOr<DescribeJobResponse> ClusterReport::Describe(const std::string& reference) const {
  absl::StatusOr<const JobRecord*> found = parts_.jobs.Resolve(reference);
  if (!found.ok()) return found.status();
  const JobRecord& job = **found;
  DescribeJobResponse response;
  *response.mutable_header() = MakeHeader(job.attempt.epoch);
  *response.mutable_job() = Summarize(job, QueuePosition(job));
  *response.mutable_spec() = job.spec;
  response.set_plan_hash(job.plan_hash);
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    const RankRecord& record = job.attempt.ranks[r];
    RankStatus& rank = *response.add_rank();
    rank.set_rank(r);
    rank.set_worker(record.worker);
    rank.set_pid(record.pid);
    rank.set_state(ToString(record.state));
    *rank.mutable_progress() = record.progress;
    rank.set_transport(record.transport);
  }
  for (const std::string& artifact : job.artifacts) response.add_artifact(artifact);
  return response;
}

absl::StatusOr<ArtifactSource> ClusterReport::FindArtifact(const std::string& reference,
                                                           const std::string& name) const {
  absl::StatusOr<const JobRecord*> found = parts_.jobs.Resolve(reference);
  if (!found.ok()) return found.status();
  const JobRecord& job = **found;
  if (name.empty() || name == "." || name == ".." || absl::StrContains(name, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not the name of a file: no '/' and no '..'"));
  }
  if (job.artifacts.count(name) == 0) {
    return absl::NotFoundError(absl::StrCat(
        job.id, " has no artifact '", name, "'",
        job.artifacts.empty() ? (IsFinal(job.state) ? "; it left none" : "; they are there when it has succeeded")
                              : absl::StrCat("; it has ", absl::StrJoin(job.artifacts, ", "))));
  }
  for (const JobRecord* other : parts_.jobs.All()) {
    if (other->attempt.epoch <= job.attempt.epoch || Folder(other->spec) != Folder(job.spec)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the files of ", job.id, " are no more: ", other->id, " has the same output_dir '", job.spec.output_dir(),
        "' and started later; give each job an output_dir of its own, or get ", name, " of ", other->id));
  }
  const std::string& worker_name = job.attempt.ranks.at(0).worker;
  const WorkerRecord* worker = parts_.workers.Find(worker_name);
  if (worker != nullptr && worker->connection != 0) {
    return ArtifactSource{.connection = worker->connection,
                          .worker = worker_name,
                          .job_id = job.id,
                          .owner = job.owner,
                          .output_dir = job.spec.output_dir(),
                          .epoch = job.attempt.epoch};
  }
  return absl::UnavailableError(absl::StrCat("'", name, "' is on worker ", worker_name, ", which is not connected"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

ClusterSnapshot ClusterReport::Snapshot() const {
  ClusterSnapshot now;
  absl::Time oldest = absl::InfiniteFuture();
  for (const JobRecord* job : parts_.jobs.All()) {
    if (!job->accepted) continue;
    ++now.jobs[job->state];
    if (job->state != PENDING) continue;
    ++now.queue_length;
    oldest = std::min(oldest, job->submitted);
  }
  if (now.queue_length > 0) {
    const absl::Duration age = parts_.options.wall_clock() - oldest;
    now.queue_oldest_seconds = std::max(0.0, absl::ToDoubleSeconds(age));  // wall clocks may be set back
  }
  for (const auto& [name, worker] : parts_.workers.All()) {
    now.workers.push_back({.name = name,
                           .state = parts_.workers.StateOf(worker),
                           .heartbeat_age_seconds = absl::ToDoubleSeconds(parts_.options.Now() - worker.last_heard),
                           .slots = worker.hello.slots(),
                           .free_slots = static_cast<uint32_t>(std::max(0, worker.FreeSlots()))});
  }
  for (const JobRecord* job : parts_.jobs.Active()) {
    if (job->state == RUNNING) now.running.push_back(Measure(*job));
  }
  now.submits = parts_.submissions.accepted();
  now.restarts = parts_.attempts.counters().restarts;
  now.goodput_seconds = parts_.attempts.counters().goodput_seconds;
  now.lost_seconds = parts_.attempts.counters().lost_seconds;
  return now;
}

}  // namespace adjoin
