#include "cli/coordinator_client.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr std::chrono::seconds kShort{15};
constexpr std::chrono::seconds kSubmit{120};       // includes the check of the data files
constexpr std::chrono::hours kTransfer{6};
constexpr std::chrono::hours kFollow{24 * 365};    // a dead connection is found by keepalive, long before

void SetDeadline(grpc::ClientContext& context, std::chrono::seconds time) {
  context.set_deadline(std::chrono::system_clock::now() + time);
}

}  // namespace

CoordinatorClient::CoordinatorClient(std::string address) : address_(std::move(address)) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy in the environment is for elsewhere
  channel_ = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  stub_ = Adjoin::NewStub(channel_);
}

absl::Status CoordinatorClient::Check(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && channel_->GetState(false) != GRPC_CHANNEL_READY) {
    return absl::UnavailableError(absl::StrCat("cannot reach the coordinator at ", address_,
                                               ": start one with `adjoin-coordinator --listen ", address_,
                                               "`, or name another with --coordinator or ADJOIN_COORDINATOR"));
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && status.error_message() == "Deadline Exceeded") {
    return absl::DeadlineExceededError(absl::StrCat("the coordinator at ", address_, " does not answer"));
  }
  return FromGrpc(status);
}

absl::StatusOr<std::string> CoordinatorClient::Submit(const std::string& spec_source, const std::string& spec_file) {
  grpc::ClientContext context;
  SetDeadline(context, kSubmit);
  SubmitRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_spec_source(spec_source);
  request.set_spec_file(spec_file);
  SubmitResponse response;
  absl::Status status = Check(stub_->Submit(&context, request, &response));
  if (!status.ok()) return status;
  return response.job_id();
}

absl::StatusOr<ListJobsResponse> CoordinatorClient::ListJobs() {
  grpc::ClientContext context;
  SetDeadline(context, kShort);
  ListJobsRequest request;
  *request.mutable_header() = MakeHeader();
  ListJobsResponse response;
  absl::Status status = Check(stub_->ListJobs(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<DescribeJobResponse> CoordinatorClient::DescribeJob(const std::string& job) {
  grpc::ClientContext context;
  SetDeadline(context, kShort);
  DescribeJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  DescribeJobResponse response;
  absl::Status status = Check(stub_->DescribeJob(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<JobState> CoordinatorClient::CancelJob(const std::string& job) {
  grpc::ClientContext context;
  SetDeadline(context, kShort);
  CancelJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  CancelJobResponse response;
  absl::Status status = Check(stub_->CancelJob(&context, request, &response));
  if (!status.ok()) return status;
  return response.state();
}

absl::Status CoordinatorClient::FollowJob(const std::string& job, grpc::ClientContext& context,
                                          const std::function<void(const JobSummary&)>& on_update) {
  SetDeadline(context, kFollow);
  FollowJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  std::unique_ptr<grpc::ClientReader<FollowJobResponse>> reader = stub_->FollowJob(&context, request);
  FollowJobResponse response;
  while (reader->Read(&response)) on_update(response.job());
  return Check(reader->Finish());
}

absl::Status CoordinatorClient::ReadLogs(const std::string& job, const std::vector<uint32_t>& ranks, bool follow,
                                         const std::function<void(const LogLine&)>& on_line) {
  grpc::ClientContext context;
  SetDeadline(context, follow ? std::chrono::seconds(kFollow) : std::chrono::seconds(kTransfer));
  ReadLogsRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  request.mutable_rank()->Add(ranks.begin(), ranks.end());
  request.set_follow(follow);
  std::unique_ptr<grpc::ClientReader<ReadLogsResponse>> reader = stub_->ReadLogs(&context, request);
  ReadLogsResponse response;
  while (reader->Read(&response)) {
    for (const LogLine& line : response.line()) on_line(line);
  }
  return Check(reader->Finish());
}

absl::Status CoordinatorClient::GetArtifact(const std::string& job, const std::string& name,
                                            const std::function<absl::Status(const std::string&)>& on_data) {
  grpc::ClientContext context;
  SetDeadline(context, kTransfer);
  GetArtifactRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  request.set_name(name);
  std::unique_ptr<grpc::ClientReader<ArtifactChunk>> reader = stub_->GetArtifact(&context, request);
  ArtifactChunk chunk;
  int64_t total = -1, got = 0;
  while (reader->Read(&chunk)) {
    if (total < 0) total = chunk.total_bytes();
    got += static_cast<int64_t>(chunk.data().size());
    if (absl::Status status = on_data(chunk.data()); !status.ok()) {
      context.TryCancel();
      reader->Finish();
      return status;
    }
  }
  absl::Status status = Check(reader->Finish());
  if (status.ok() && got != total) {
    return absl::DataLossError(absl::StrCat(name, " has ", total, " bytes, but ", got, " came"));
  }
  return status;
}

}  // namespace adjoin
