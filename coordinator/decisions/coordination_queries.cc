// What CoordinationService tells users.
#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/placement/shared_output.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

int64_t UnixMillis(absl::Time time) { return time == absl::Time() ? 0 : absl::ToUnixMillis(time); }

// Two ways to write one folder are one folder.
std::string Folder(const JobSpec& spec) { return (std::filesystem::path(spec.output_dir()) / "").lexically_normal(); }

std::string Count(int64_t n, const std::string& noun) { return absl::StrCat(n, " ", noun, n == 1 ? "" : "s"); }

}  // namespace

std::string CoordinationService::PendingReason(const JobRecord& job, uint32_t queue_position) {
  const std::string after = job.reason.empty() ? "" : absl::StrCat(" after: ", job.reason);
  if (job.held) return absl::StrCat("held: `adjoin release ", job.id, "` lets it start", after);
  if (!job.attempt.holders.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, holder] : job.attempt.holders) names.push_back(name);
    return absl::StrCat("starts again when no process of attempt ", job.attempt.epoch, " is left on ",
                        absl::StrJoin(names, ", "), after);
  }
  if (job.not_before > Now()) {
    return absl::StrCat("starts again in ", absl::FormatDuration(absl::Ceil(job.not_before - Now(), absl::Seconds(1))), after);
  }
  if (std::none_of(workers_.begin(), workers_.end(), [this](const auto& entry) { return Usable(entry.second); })) {
    return "no worker is connected";
  }
  if (job.data_check == DataCheck::kAsked) return absl::StrCat("its data files are being checked by ", job.checked_by);
  if (job.data_check != DataCheck::kDone) return "its data files are to be checked";
  const bool homed = !HomeOf(job).empty();
  if (homed && !CouldEverStart(job)) return absl::StrCat("waits for ", HomeReason(job), after);
  int64_t total = 0, free = 0, usable = 0;
  for (const auto& [name, worker] : workers_) {
    if (!Usable(worker)) continue;
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
  if (homed) absl::StrAppend(&reason, ", on ", HomeReason(job));
  if (const absl::Status shared = CheckSharedOutput(job.spec, AllSlots(job.spec)); !shared.ok()) {
    absl::StrAppend(&reason, "; ", std::string(shared.message()));
  }
  if (job.spec.ranks() > total) absl::StrAppend(&reason, "; it starts when more workers connect");
  if (queue_position > 1) absl::StrAppend(&reason, "; behind ", Count(queue_position - 1, "other job"));
  if (!blocked_head_.empty() && blocked_head_ != job.id) absl::StrAppend(&reason, "; it could delay ", blocked_head_);
  return absl::StrCat(reason, after);
}

std::string CoordinationService::StateOf(const Worker& worker) const {
  if (worker.dead || worker.connection == 0) return worker.dead ? "lost" : "suspect";
  if (Now() - worker.last_heard >= options_.suspect_after) return "suspect";
  return worker.draining ? "draining" : "ready";
}

uint32_t CoordinationService::QueuePosition(const JobRecord& job) {
  if (job.state != PENDING) return 0;
  uint32_t position = 0;
  for (const JobRecord* other : jobs_.Pending()) {
    ++position;
    if (other == &job) break;
  }
  return position;
}

JobSummary CoordinationService::Summarize(const JobRecord& job, uint32_t queue_position) {
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

ListJobsResponse CoordinationService::List() {
  ListJobsResponse response;
  *response.mutable_header() = MakeHeader();
  std::map<uint64_t, uint32_t> positions;
  uint32_t position = 0;
  for (const JobRecord* job : jobs_.Pending()) positions[job->number] = ++position;
  for (const JobRecord* job : jobs_.All()) {
    if (job->accepted) *response.add_job() = Summarize(*job, job->state == PENDING ? positions[job->number] : 0);
  }
  for (const auto& [name, worker] : workers_) {
    WorkerSummary& summary = *response.add_worker();
    summary.set_name(name);
    summary.set_address(worker.hello.address());
    summary.set_slots(worker.hello.slots());
    summary.set_free_slots(std::max(0, worker.FreeSlots()));
    summary.set_state(StateOf(worker));
    summary.set_heartbeat_age_seconds(absl::ToDoubleSeconds(Now() - worker.last_heard));
  }
  return response;
}

absl::StatusOr<JobSummary> CoordinationService::Summary(const std::string& reference) {
  absl::StatusOr<JobRecord*> job = jobs_.Resolve(reference);
  if (!job.ok()) return job.status();
  return Summarize(**job, QueuePosition(**job));
}

bool CoordinationService::Settled(const std::string& job_id) {
  JobRecord* job = jobs_.Find(job_id);
  return job == nullptr || (IsFinal(job->state) && job->attempt.holders.empty());
}

absl::StatusOr<DescribeJobResponse> CoordinationService::Describe(const std::string& reference) {
  absl::StatusOr<JobRecord*> found = jobs_.Resolve(reference);
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

absl::StatusOr<CoordinationService::ArtifactSource> CoordinationService::FindArtifact(const std::string& reference,
                                                                                      const std::string& name) {
  absl::StatusOr<JobRecord*> found = jobs_.Resolve(reference);
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
  for (const JobRecord* other : jobs_.All()) {
    if (other->attempt.epoch <= job.attempt.epoch || Folder(other->spec) != Folder(job.spec)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the files of ", job.id, " are no more: ", other->id, " has the same output_dir '", job.spec.output_dir(),
        "' and started later; give each job an output_dir of its own, or get ", name, " of ", other->id));
  }
  const std::string& name_of_worker = job.attempt.ranks.at(0).worker;
  auto worker = workers_.find(name_of_worker);
  if (worker != workers_.end() && worker->second.connection != 0) {
    return ArtifactSource{worker->second.connection, name_of_worker, job.id, job.owner, job.spec.output_dir(),
                          job.attempt.epoch};
  }
  return absl::UnavailableError(
      absl::StrCat("'", name, "' lies with worker ", name_of_worker, ", which is not connected"));
}

}  // namespace adjoin
