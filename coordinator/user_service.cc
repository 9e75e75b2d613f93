#include "coordinator/user_service.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "coordinator/spec_planning.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

// How often a waiting stream looks whether its client is still there.
constexpr absl::Duration kClientCheck = absl::Milliseconds(200);
constexpr absl::Duration kProgressInterval = absl::Milliseconds(100);
constexpr absl::Duration kArtifactTimeout = absl::Seconds(30);
// The service itself ends a data check; this only catches its failure to.
constexpr absl::Duration kAdmissionTimeout = absl::Seconds(90);

absl::Status CheckHeader(const Header& header) { return CheckProtocol(header, "the client", "this coordinator"); }

// Not guessable: it is all that a daemon shows when it uploads.
std::string NewRequestId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

absl::StatusOr<std::string> SubmitAndAwait(Hub& hub, const SubmitRequest& request, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(request, rules));
  std::string id = hub.Do([&](CoordinationService& service) {
    return service.Submit(submission.spec, std::move(submission.plan), std::move(submission.place_of));
  });
  Deadline deadline = Deadline::After(kAdmissionTimeout);
  while (!deadline.Expired()) {
    uint64_t seen = hub.changes();
    absl::Status reason;
    Admission admission = hub.Look([&](CoordinationService& service) { return service.AdmissionOf(id, &reason); });
    if (admission == Admission::kAccepted) return id;
    if (admission == Admission::kRefused) return reason;
    hub.WaitForChange(seen, deadline);
  }
  return absl::DeadlineExceededError("the data files could not be checked in time");
}

}  // namespace

grpc::Status UserService::Submit(grpc::ServerContext*, const SubmitRequest* request, SubmitResponse* response) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  absl::StatusOr<std::string> id = SubmitAndAwait(hub_, *request, rules_);
  if (!id.ok()) return ToGrpc(id.status());
  if (absl::Status status = logs_.Add(*id); !status.ok()) LogError(std::string(status.message()));
  LogInfo(absl::StrCat("accepted ", *id));
  *response->mutable_header() = MakeHeader();
  response->set_job_id(*id);
  return grpc::Status::OK;
}

grpc::Status UserService::ListJobs(grpc::ServerContext*, const ListJobsRequest* request, ListJobsResponse* response) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  *response = hub_.Look([](CoordinationService& service) { return service.List(); });
  return grpc::Status::OK;
}

grpc::Status UserService::DescribeJob(grpc::ServerContext*, const DescribeJobRequest* request,
                                      DescribeJobResponse* response) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  auto described = hub_.Look([&](CoordinationService& service) { return service.Describe(request->job_id()); });
  if (!described.ok()) return ToGrpc(described.status());
  *response = *std::move(described);
  return grpc::Status::OK;
}

grpc::Status UserService::CancelJob(grpc::ServerContext*, const CancelJobRequest* request, CancelJobResponse* response) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  auto state = hub_.Do([&](CoordinationService& service) { return service.Cancel(request->job_id()); });
  if (!state.ok()) return ToGrpc(state.status());
  *response->mutable_header() = MakeHeader();
  response->set_state(*state);
  return grpc::Status::OK;
}

grpc::Status UserService::FollowJob(grpc::ServerContext* context, const FollowJobRequest* request,
                                    grpc::ServerWriter<FollowJobResponse>* writer) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  std::string reference = request->job_id();
  std::string last_sent;
  JobState last_state = JOB_STATE_UNSPECIFIED;
  absl::Time last_time = absl::InfinitePast();
  while (!context->IsCancelled()) {
    uint64_t seen = hub_.changes();
    auto summary = hub_.Look([&](CoordinationService& service) { return service.Summary(reference); });
    if (!summary.ok()) return ToGrpc(summary.status());
    reference = summary->job_id();  // a name may come to mean a later job
    std::string serialized = summary->SerializeAsString();
    absl::Duration since_last = absl::Now() - last_time;
    if (serialized != last_sent && (summary->state() != last_state || since_last >= kProgressInterval)) {
      FollowJobResponse response;
      *response.mutable_header() = MakeHeader(summary->epoch());
      *response.mutable_job() = *summary;
      if (!writer->Write(response)) break;
      last_sent = std::move(serialized);
      last_state = summary->state();
      last_time = absl::Now();
    } else if (serialized != last_sent) {
      hub_.WaitForChange(hub_.changes(), Deadline::After(kProgressInterval - since_last));
      continue;
    }
    if (IsFinal(summary->state())) return grpc::Status::OK;
    hub_.WaitForChange(seen, Deadline::After(kClientCheck));
  }
  return grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone");
}

grpc::Status UserService::ReadLogs(grpc::ServerContext* context, const ReadLogsRequest* request,
                                   grpc::ServerWriter<ReadLogsResponse>* writer) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  auto summary = hub_.Look([&](CoordinationService& service) { return service.Summary(request->job_id()); });
  if (!summary.ok()) return ToGrpc(summary.status());
  const std::string id = summary->job_id();
  int64_t position = request->from();
  while (!context->IsCancelled()) {
    uint64_t seen = hub_.changes();
    // Asked before the lines are read: once it is true, no line can come after those.
    bool settled = hub_.Look([&](CoordinationService& service) { return service.Settled(id); });
    auto chunk = logs_.Read(id, position);
    if (!chunk.ok()) return ToGrpc(chunk.status());
    ReadLogsResponse response;
    *response.mutable_header() = MakeHeader();
    response.set_job_id(id);
    response.set_next(chunk->next);
    for (LogLine& line : chunk->lines) {
      bool wanted = request->rank().empty() ||
                    std::find(request->rank().begin(), request->rank().end(), line.rank()) != request->rank().end();
      if (wanted && line.unix_ms() >= request->since_unix_ms()) *response.add_line() = std::move(line);
    }
    if (response.line_size() > 0 && !writer->Write(response)) break;
    if (chunk->next != position) {
      position = chunk->next;
      continue;
    }
    if (settled || !request->follow()) return grpc::Status::OK;
    hub_.WaitForChange(seen, Deadline::After(kClientCheck));
  }
  return grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone");
}

grpc::Status UserService::GetArtifact(grpc::ServerContext* context, const GetArtifactRequest* request,
                                      grpc::ServerWriter<ArtifactChunk>* writer) {
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  auto source = hub_.Look(
      [&](CoordinationService& service) { return service.FindArtifact(request->job_id(), request->name()); });
  if (!source.ok()) return ToGrpc(source.status());

  std::string request_id = NewRequestId();
  std::shared_ptr<ArtifactPipe> pipe = relay_.Open(request_id);
  absl::Cleanup close = [&] {
    pipe->Cancel();
    relay_.Take(request_id);
  };
  CoordinatorMessage message;
  *message.mutable_header() = MakeHeader(source->epoch);
  SendArtifact& send = *message.mutable_send_artifact();
  send.set_request_id(request_id);
  send.set_job_id(source->job_id);
  send.set_output_dir(source->output_dir);
  send.set_name(request->name());
  if (!hub_.SendTo(source->connection, std::move(message))) {
    return ToGrpc(absl::UnavailableError(absl::StrCat("worker ", source->worker, " is not connected")));
  }
  int64_t total = -1, sent = 0;
  while (!context->IsCancelled()) {
    auto chunk = pipe->Pop(Deadline::After(kArtifactTimeout));
    if (!chunk.ok()) {
      return ToGrpc(absl::Status(chunk.status().code(), absl::StrCat(request->name(), " from ", source->worker, ": ",
                                                                     std::string(chunk.status().message()))));
    }
    if (!chunk->has_value()) {
      if (sent == total) return grpc::Status::OK;
      return grpc::Status(grpc::StatusCode::DATA_LOSS,
                          absl::StrCat(request->name(), " has ", total, " bytes, but ", sent, " came"));
    }
    if (total < 0) total = (*chunk)->total_bytes();
    sent += static_cast<int64_t>((*chunk)->data().size());
    (*chunk)->clear_request_id();
    *(*chunk)->mutable_header() = MakeHeader();
    if (!writer->Write(**chunk)) break;
  }
  return grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone");
}

}  // namespace adjoin
