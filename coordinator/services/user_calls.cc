#include "coordinator/services/user_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "coordinator/services/model_tensors.h"
#include "coordinator/services/request_id.h"
#include "proto/fit_message.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

// How often a waiting stream looks whether its client is still there.
constexpr absl::Duration kClientCheck = absl::Milliseconds(200);
constexpr absl::Duration kArtifactTimeout = absl::Seconds(30);
constexpr absl::Duration kCommitTimeout = absl::Seconds(10);
constexpr absl::Duration kLogTimeout = absl::Seconds(5);
constexpr int kMaxEvents = 1000;  // in one message

// Allows what the caller may change.
JobCheck IsOwn(const Caller& caller) {
  return [&caller](const JobRecord& job) { return MayChange(caller, job.owner, job.id); };
}

// Names are looked for among the caller's own jobs first.
JobReference Named(const std::string& job, const Caller& caller) { return {job, caller.name}; }

Deadline Soon() { return Deadline::After(kCommitTimeout); }

// Those of the lines that the request asks for.
ReadLogsResponse WantedOf(LogStore::Chunk chunk, const std::string& job_id, const ReadLogsRequest& request) {
  ReadLogsResponse response;
  *response.mutable_header() = MakeHeader();
  response.set_job_id(job_id);
  response.set_next(chunk.next);
  for (LogLine& line : chunk.lines) {
    bool wanted = request.rank().empty() ||
                  std::find(request.rank().begin(), request.rank().end(), line.rank()) != request.rank().end();
    if (wanted && line.unix_ms() >= request.since_unix_ms()) *response.add_line() = std::move(line);
  }
  return response;
}

}  // namespace

ArtifactStream::ArtifactStream(ArtifactRelay& relay, std::string request_id, CoordinationService::ArtifactSource source,
                               ArtifactRelay::Seat seat)
    : relay_(relay),
      request_id_(std::move(request_id)),
      source_(std::move(source)),
      seat_(std::move(seat)),
      pipe_(relay.Open(request_id_)) {}

ArtifactStream::~ArtifactStream() {
  pipe_->Cancel();
  relay_.Take(request_id_);
}

absl::StatusOr<std::optional<ArtifactChunk>> ArtifactStream::Next(const std::function<bool()>& goes_on,
                                                                  absl::Duration most) {
  const std::string& name = source_.send.name();
  const Deadline deadline = Deadline::After(std::min(kArtifactTimeout, most));
  auto chunk = pipe_->Pop(Deadline::After(std::min(kClientCheck, most)));
  while (absl::IsDeadlineExceeded(chunk.status()) && !deadline.Expired() && goes_on()) {
    chunk = pipe_->Pop(Deadline::After(kClientCheck));
  }
  if (!chunk.ok() && !goes_on()) return absl::CancelledError("the client has gone");
  if (!chunk.ok()) {
    return absl::Status(chunk.status().code(),
                        absl::StrCat(name, " from ", source_.worker, ": ", std::string(chunk.status().message())));
  }
  if (!chunk->has_value()) {
    if (sent_ == total_) return std::optional<ArtifactChunk>();
    return absl::DataLossError(absl::StrCat(name, " has ", total_, " bytes, but ", sent_, " came"));
  }
  if (total_ < 0) total_ = (*chunk)->total_bytes();
  sent_ += static_cast<int64_t>((*chunk)->data().size());
  (*chunk)->clear_request_id();
  *(*chunk)->mutable_header() = MakeHeader(source_.epoch);
  return *std::move(chunk);
}

absl::StatusOr<ListJobsResponse> UserCalls::ListJobs(const std::string& caller, const ListJobsRequest& request,
                                                     const std::function<bool()>& gone) {
  ADJOIN_ASSIGN_OR_RETURN(JobPage page, JobPage::Begin(request));
  hub_.Browse(caller, gone, [&](CoordinationService& service) { return service.Continue(page); });
  if (gone()) return absl::CancelledError("nobody waits for the list any more");
  hub_.AwaitCommit();
  return page.Take();
}

absl::StatusOr<DescribeJobResponse> UserCalls::DescribeJob(const Caller& caller, const DescribeJobRequest& request,
                                                           const std::function<bool()>& gone) {
  JobDescription made(Named(request.job_id(), caller));
  const auto go_on = [&](CoordinationService& service) { return service.Continue(made); };
  if (!hub_.Look(go_on)) hub_.Browse(caller.name, gone, go_on);
  if (gone()) return absl::CancelledError("nobody waits for the description any more");
  hub_.AwaitCommit();
  ADJOIN_RETURN_IF_ERROR(made.status);
  DescribeJobResponse& response = made.response;
  *response.mutable_spec() = *made.spec;  // without the lock: it can be large
  const JobSummary& job = response.job();
  if (!MayRead(caller, job.owner(), job.job_id(), "the spec").ok()) HideContent(response);
  Fit(&response);
  return std::move(response);
}

absl::StatusOr<JobState> UserCalls::Cancel(const Caller& caller, const std::string& job) {
  return hub_.DoDurably([&](CoordinationService& service) { return service.Cancel(Named(job, caller), IsOwn(caller)); },
                        Soon());
}

absl::StatusOr<JobState> UserCalls::Retry(const Caller& caller, const std::string& job) {
  return hub_.DoDurably([&](CoordinationService& service) { return service.Retry(Named(job, caller), IsOwn(caller)); },
                        Soon());
}

absl::Status UserCalls::SetHeld(const Caller& caller, const std::string& job, bool held) {
  return hub_.DoDurably(
      [&](CoordinationService& service) { return service.Hold(Named(job, caller), held, IsOwn(caller)); }, Soon());
}

absl::StatusOr<std::string> UserCalls::Trace(const Caller& caller, const TraceJobRequest& request) {
  return hub_.DoDurably(
      [&](CoordinationService& service) {
        return service.Trace(Named(request.job_id(), caller), {request.request_id(), request.steps()}, IsOwn(caller));
      },
      Soon());
}

absl::StatusOr<JobSummary> UserCalls::Find(const Caller& caller, const std::string& job) {
  return hub_.LookAtCommitted([&](CoordinationService& service) { return service.RecentSummary(Named(job, caller)); });
}

absl::StatusOr<std::vector<JobEvent>> UserCalls::Events(const std::string& job_id, uint64_t after) {
  return parts_.store.Events(job_id, after, kMaxEvents);
}

absl::StatusOr<JobSummary> UserCalls::FindLog(const Caller& caller, const ReadLogsRequest& request) {
  ADJOIN_ASSIGN_OR_RETURN(JobSummary summary, hub_.Look([&](CoordinationService& service) {
    return service.RecentSummary(Named(request.job_id(), caller));
  }));
  const std::string& id = summary.job_id();
  ADJOIN_RETURN_IF_ERROR(MayRead(caller, summary.owner(), id, "the log"));
  for (uint32_t rank : request.rank()) {
    if (rank < summary.ranks()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no rank ", rank, ": ", id, " has ", summary.ranks(), ", counted from 0"));
  }
  return summary;
}

absl::StatusOr<ReadLogsResponse> UserCalls::LogLines(const std::string& job_id, const ReadLogsRequest& request,
                                                     int64_t position, bool flush) {
  if (flush && !parts_.log_writer.Flush(Deadline::After(kLogTimeout))) {
    return absl::UnavailableError(
        absl::StrCat("the log of ", job_id, " cannot be read now: the coordinator's disk takes no lines"));
  }
  ADJOIN_ASSIGN_OR_RETURN(LogStore::Chunk chunk, parts_.logs.Read(job_id, position));
  return WantedOf(std::move(chunk), job_id, request);
}

absl::StatusOr<ReadLogsResponse> UserCalls::LogLinesBefore(const std::string& job_id, const ReadLogsRequest& request,
                                                           int64_t end, int64_t* begin) {
  ADJOIN_ASSIGN_OR_RETURN(LogStore::Chunk chunk, parts_.logs.ReadBefore(job_id, end));
  *begin = chunk.begin;
  return WantedOf(std::move(chunk), job_id, request);
}

absl::StatusOr<std::unique_ptr<ArtifactStream>> UserCalls::OpenArtifact(const Caller& caller,
                                                                        const GetArtifactRequest& request,
                                                                        const std::function<bool()>& gone,
                                                                        absl::Duration wait) {
  using Source = CoordinationService::ArtifactSource;
  const auto find = [&](CoordinationService& service) -> absl::StatusOr<Source> {
    const JobReference named = Named(request.job_id(), caller);
    ADJOIN_ASSIGN_OR_RETURN(const JobSummary job, service.RecentSummary(named));
    ADJOIN_RETURN_IF_ERROR(MayRead(caller, job.owner(), job.job_id(), "a result"));
    return service.FindArtifact(named, request);
  };
  ADJOIN_ASSIGN_OR_RETURN(Source source, hub_.Look(find));
  ArtifactRelay::Seat seat;
  if (!caller.local) {
    ADJOIN_ASSIGN_OR_RETURN(seat, parts_.relay.TakeSeat(caller.name, source.worker, Deadline::After(wait), gone));
    ADJOIN_ASSIGN_OR_RETURN(source, hub_.Look(find));  // the worker may have connected again meanwhile
  }
  if (source.needs_model) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string plan, parts_.store.Plan(source.job));
    ADJOIN_RETURN_IF_ERROR(AddModelTensors(plan, source.send.mutable_checkpoint()));
  }
  std::string request_id = NewRequestId();
  CoordinatorMessage message;
  *message.mutable_header() = MakeHeader(source.epoch);
  *message.mutable_send_artifact() = source.send;
  message.mutable_send_artifact()->set_request_id(request_id);
  source.send.set_name(request.name());  // what messages call it
  const ConnectionId connection = source.connection;
  const std::string worker = source.worker;
  auto stream =
      std::make_unique<ArtifactStream>(parts_.relay, std::move(request_id), std::move(source), std::move(seat));
  if (!hub_.SendTo(connection, std::move(message))) {
    return absl::UnavailableError(absl::StrCat("worker ", worker, " is not connected"));
  }
  return stream;
}

absl::StatusOr<std::string> UserCalls::ReadPlan(const Caller& caller, const DescribeJobResponse& job) {
  const std::string& id = job.job().job_id();
  ADJOIN_RETURN_IF_ERROR(MayRead(caller, job.job().owner(), id, "the plan"));
  absl::StatusOr<std::string> plan = parts_.store.Plan(JobNumberOf(id));
  if (absl::IsNotFound(plan.status())) {
    return absl::FailedPreconditionError(absl::StrCat(id, " has no plan yet: its data files are being checked"));
  }
  return plan;
}

}  // namespace adjoin
