#include "cli/coordinator_client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/security/tls.h"
#include "proto/fit_message.h"
#include "proto/grpc_status.h"
#include "proto/keepalive.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr std::chrono::seconds kShort{15};
constexpr std::chrono::seconds kSubmit{300};  // includes the plan and the check of the data files
constexpr std::chrono::hours kTransfer{6};
constexpr std::chrono::hours kFollow{24 * 365};  // a dead connection is found by keepalive, long before
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// A stream that lived so long was well: what breaks it is a new outage.
constexpr absl::Duration kWell = absl::Seconds(2);

void SetDeadline(grpc::ClientContext& context, std::chrono::seconds time) {
  context.set_deadline(std::chrono::system_clock::now() + time);
}

template <typename Request>
Request About(const std::string& job) {
  Request request;
  request.set_job_id(job);
  return request;
}

}  // namespace

std::string NewIdempotencyKey() {
  std::random_device device;
  return absl::StrFormat("cli-%08x%08x%08x%08x", device(), device(), device(), device());
}

CoordinatorClient::CoordinatorClient(ClientOptions options, InterceptorFactories interceptors)
    : options_(std::move(options)) {
  OpenChannel(std::move(interceptors));
}

void CoordinatorClient::OpenChannel(InterceptorFactories interceptors) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMillis);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy in the environment is for elsewhere
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // another channel has another connection
  opened_ = Deadline::Clock::now();
  channel_ = grpc::experimental::CreateCustomChannelWithInterceptors(options_.address, options_.credentials, arguments,
                                                                     std::move(interceptors));
  stub_ = Adjoin::NewStub(channel_);
}

void CoordinatorClient::LeaveDistrusted() {
  if (options_.check_server != nullptr && !options_.check_server(opened_).ok()) OpenChannel({});
}

// ---------------------------------------------------------------------------------------------------------------------
// Failures

bool CoordinatorClient::IsBreak(const grpc::Status& status) {
  if (status.ok() || IsAnswer(status) || !WhyRefused(status.error_message()).empty()) return false;
  // A coordinator that stops cancels its streams. "Stream removed" is gRPC's word for some resets.
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || status.error_code() == grpc::StatusCode::CANCELLED ||
         (status.error_code() == grpc::StatusCode::UNKNOWN && status.error_message() == "Stream removed");
}

absl::Status CoordinatorClient::Check(const grpc::Status& status) {
  if (const std::string refused = WhyRefused(status.error_message()); !refused.empty() && !IsAnswer(status)) {
    return absl::UnauthenticatedError(absl::StrCat(options_.address, ": ", refused));
  }
  if (IsBreak(status)) {
    return absl::UnavailableError(absl::StrCat("cannot reach the coordinator at ", options_.address,
                                               ": start one with `adjoin-coordinator --listen ", options_.address,
                                               "`, or name another with --coordinator or ADJOIN_COORDINATOR",
                                               absl::StrContains(status.error_message(), "Socket closed")
                                                   ? "; if it speaks TLS, give --tls-ca, --tls-cert and --tls-key"
                                                   : ""));
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !IsAnswer(status)) {
    return absl::DeadlineExceededError(absl::StrCat("the coordinator at ", options_.address, " does not answer"));
  }
  return FromGrpc(status);
}

bool CoordinatorClient::TryAgain(Outage& outage) {
  if (options_.retry <= absl::ZeroDuration()) return false;
  if (!outage.over.has_value()) {
    outage.over = Deadline::After(options_.retry);
    if (options_.notice != nullptr) {
      options_.notice(absl::StrCat("the coordinator at ", options_.address, " does not answer, trying again for ",
                                   absl::FormatDuration(options_.retry)));
    }
  }
  while (!outage.over->Expired()) {
    {
      absl::MutexLock lock(&mutex_);
      const bool cancelled = changed_.Wait(mutex_, Deadline::After(outage.pause),
                                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_; });
      if (cancelled) return false;
    }
    outage.pause = std::min(2 * outage.pause, kLongestPause);
    if (channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(200))) return true;
  }
  return false;
}

bool CoordinatorClient::IsCancelled() {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void CoordinatorClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
  if (reading_ != nullptr) reading_->TryCancel();
}

template <typename Request, typename Response>
absl::StatusOr<Response> CoordinatorClient::Call(Method<Request, Response> method, Request request,
                                                 std::chrono::seconds timeout, bool* repeated) {
  *request.mutable_header() = MakeHeader();
  Outage outage;
  if (repeated != nullptr) *repeated = false;
  while (true) {
    LeaveDistrusted();
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    {
      absl::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("cancelled");
      reading_ = &context;
    }
    Response response;
    grpc::Status status;
    bool distrusted = false;
    {
      const ServerWatch watch(options_.check_server, opened_, [&](const absl::Status&) {
        distrusted = true;
        context.TryCancel();
      });
      status = ((*stub_).*method)(&context, request, &response);
    }
    {
      absl::MutexLock lock(&mutex_);
      reading_ = nullptr;
      if (cancelled_ && !status.ok()) return absl::CancelledError("cancelled");
    }
    FitParts(&response);  // other users' and other releases' text comes to a terminal
    if (status.ok()) return response;
    if (distrusted && !IsAnswer(status)) {
      OpenChannel({});  // which lets in another server, or says what is wrong with this one
    } else if (!IsBreak(status) || !TryAgain(outage)) {
      return Check(status);
    }
    if (repeated != nullptr) *repeated = true;
  }
}

template <typename Response>
absl::Status CoordinatorClient::Stream(const Open<Response>& open, std::chrono::seconds timeout,
                                       const std::function<bool()>& again,
                                       const std::function<absl::Status(Response&)>& on_message) {
  Outage outage;
  while (true) {
    LeaveDistrusted();
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    {
      absl::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("cancelled");
      reading_ = &context;
    }
    const Deadline well = Deadline::After(kWell);
    std::unique_ptr<grpc::ClientReader<Response>> reader = open(&context);
    Response response;
    absl::Status refused, distrusted;
    grpc::Status status;
    {
      const ServerWatch watch(options_.check_server, opened_, [&](const absl::Status& why) {
        distrusted = why;
        context.TryCancel();
      });
      while (refused.ok() && reader->Read(&response)) {
        outage = Outage();
        FitParts(&response);
        refused = on_message(response);
      }
      if (!refused.ok()) context.TryCancel();
      status = reader->Finish();
    }
    {
      absl::MutexLock lock(&mutex_);
      reading_ = nullptr;
    }
    if (!refused.ok() || status.ok()) return refused;
    if (IsCancelled()) return absl::CancelledError("cancelled");
    if (!distrusted.ok()) {
      if (!again())
        return absl::UnauthenticatedError(absl::StrCat(options_.address, ": ", std::string(distrusted.message())));
      OpenChannel({});
      continue;
    }
    if (well.Expired()) outage = Outage();
    if (!IsBreak(status) || !again() || !TryAgain(outage)) {
      return IsCancelled() ? absl::CancelledError("cancelled") : Check(status);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls

absl::StatusOr<SubmitResponse> CoordinatorClient::Submit(const Submission& submission) {
  SubmitRequest request;
  request.set_spec_source(submission.spec_source);
  request.set_spec_file(submission.spec_file);
  request.set_priority(submission.priority);
  request.set_replace_output(submission.replace_output);
  request.set_idempotency_key(submission.idempotency_key.empty() ? NewIdempotencyKey() : submission.idempotency_key);
  return Call(&Adjoin::Stub::Submit, std::move(request), kSubmit);
}

absl::StatusOr<ListJobsResponse> CoordinatorClient::ListJobs(const ListJobsRequest& request) {
  return Call(&Adjoin::Stub::ListJobs, request, kShort);
}

absl::StatusOr<DescribeJobResponse> CoordinatorClient::DescribeJob(const std::string& job) {
  return Call(&Adjoin::Stub::DescribeJob, About<DescribeJobRequest>(job), kShort);
}

absl::StatusOr<JobState> CoordinatorClient::CancelJob(const std::string& job) {
  auto response = Call(&Adjoin::Stub::CancelJob, About<CancelJobRequest>(job), kShort);
  if (!response.ok()) return response.status();
  return response->state();
}

absl::StatusOr<JobState> CoordinatorClient::RetryJob(const std::string& job) {
  bool repeated = false;
  auto response = Call(&Adjoin::Stub::RetryJob, About<RetryJobRequest>(job), kShort, &repeated);
  if (response.ok()) return response->state();
  if (repeated && absl::IsFailedPrecondition(response.status())) {
    // Refused because it waits or runs: then the first call did it, and only its answer was lost. It may have ended
    // since.
    auto described = DescribeJob(job);
    if (!described.ok()) return described.status();
    const JobState state = described->job().state();
    if (state != SUCCEEDED) return state;
  }
  return response.status();
}

absl::StatusOr<RemoveJobResponse> CoordinatorClient::RemoveJob(const std::string& job, bool files) {
  bool repeated = false;
  auto request = About<RemoveJobRequest>(job);
  request.set_files(files);
  auto response = Call(&Adjoin::Stub::RemoveJob, std::move(request), kSubmit, &repeated);
  if (response.ok() || !repeated || !absl::IsNotFound(response.status())) return response;
  RemoveJobResponse done;  // the first call did it, and only its answer was lost
  done.set_job_id(job);
  return done;
}

absl::Status CoordinatorClient::HoldJob(const std::string& job) {
  return Call(&Adjoin::Stub::HoldJob, About<HoldJobRequest>(job), kShort).status();
}

absl::Status CoordinatorClient::ReleaseJob(const std::string& job) {
  return Call(&Adjoin::Stub::ReleaseJob, About<ReleaseJobRequest>(job), kShort).status();
}

absl::StatusOr<std::string> CoordinatorClient::TraceJob(const std::string& job, uint32_t steps,
                                                        const std::string& request_id) {
  auto request = About<TraceJobRequest>(job);
  request.set_steps(steps);
  request.set_request_id(request_id);
  auto response = Call(&Adjoin::Stub::TraceJob, std::move(request), kShort);
  if (!response.ok()) return response.status();
  return response->job_id();
}

template <typename Request, typename Response>
absl::StatusOr<Response> CoordinatorClient::CallOnce(Method<Request, Response> method, Request request) {
  *request.mutable_header() = MakeHeader();
  Outage outage;
  LeaveDistrusted();
  if (!channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(1))) TryAgain(outage);
  grpc::ClientContext context;
  SetDeadline(context, kShort);
  Response response;
  absl::Status status = Check((stub_.get()->*method)(&context, request, &response));
  FitParts(&response);
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<CreateTokenResponse> CoordinatorClient::CreateToken(const std::string& user, const std::string& role,
                                                                   double valid_hours) {
  CreateTokenRequest request;
  request.set_user(user);
  request.set_role(role);
  request.set_valid_hours(valid_hours);
  return CallOnce(&Adjoin::Stub::CreateToken, std::move(request));
}

absl::StatusOr<CreateJoinTokenResponse> CoordinatorClient::CreateJoinToken(const std::string& node, uint32_t uses,
                                                                           double valid_hours) {
  CreateJoinTokenRequest request;
  request.set_node(node);
  request.set_uses(uses);
  request.set_valid_hours(valid_hours);
  return CallOnce(&Adjoin::Stub::CreateJoinToken, std::move(request));
}

absl::StatusOr<RevokeNodeResponse> CoordinatorClient::RevokeNode(const std::string& node) {
  RevokeNodeRequest request;
  request.set_node(node);
  return Call(&Adjoin::Stub::RevokeNode, std::move(request), kShort);
}

absl::StatusOr<ListTokensResponse> CoordinatorClient::ListTokens() {
  return Call(&Adjoin::Stub::ListTokens, ListTokensRequest(), kShort);
}

absl::StatusOr<ReadRatesResponse> CoordinatorClient::ReadRates() {
  return Call(&Adjoin::Stub::ReadRates, ReadRatesRequest(), kShort);
}

absl::Status CoordinatorClient::RevokeToken(const std::string& id) {
  RevokeTokenRequest request;
  request.set_id(id);
  bool repeated = false;
  absl::Status status = Call(&Adjoin::Stub::RevokeToken, std::move(request), kShort, &repeated).status();
  return repeated && absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// ---------------------------------------------------------------------------------------------------------------------
// Streams

absl::Status CoordinatorClient::FollowJob(const std::string& job,
                                          const std::function<void(const JobSummary&)>& on_update) {
  auto request = About<FollowJobRequest>(job);
  *request.mutable_header() = MakeHeader();
  return Stream<FollowJobResponse>(
      [&](grpc::ClientContext* context) { return stub_->FollowJob(context, request); }, kFollow, [] { return true; },
      [&](FollowJobResponse& response) {
        request.set_job_id(response.job().job_id());  // a name may come to mean a later job
        on_update(response.job());
        return absl::OkStatus();
      });
}

absl::Status CoordinatorClient::ReadLogs(const LogQuery& query, const std::function<void(const LogLine&)>& on_line) {
  auto request = About<ReadLogsRequest>(query.job);
  *request.mutable_header() = MakeHeader();
  request.mutable_rank()->Add(query.ranks.begin(), query.ranks.end());
  request.set_follow(query.follow);
  request.set_since_unix_ms(query.since_unix_ms);
  return Stream<ReadLogsResponse>([&](grpc::ClientContext* context) { return stub_->ReadLogs(context, request); },
                                  query.follow ? std::chrono::seconds(kFollow) : std::chrono::seconds(kTransfer),
                                  [] { return true; },
                                  [&](ReadLogsResponse& response) {
                                    for (const LogLine& line : response.line()) on_line(line);
                                    if (!response.job_id().empty()) request.set_job_id(response.job_id());
                                    request.set_from(response.next());
                                    return absl::OkStatus();
                                  });
}

absl::Status CoordinatorClient::ReadEvents(const std::string& job, bool follow,
                                           const std::function<void(const JobEvent&)>& on_event) {
  auto request = About<ReadEventsRequest>(job);
  *request.mutable_header() = MakeHeader();
  request.set_follow(follow);
  return Stream<ReadEventsResponse>([&](grpc::ClientContext* context) { return stub_->ReadEvents(context, request); },
                                    follow ? std::chrono::seconds(kFollow) : std::chrono::seconds(kTransfer),
                                    [] { return true; },
                                    [&](ReadEventsResponse& response) {
                                      for (const JobEvent& event : response.event()) {
                                        if (event.sequence() <= request.after()) continue;
                                        on_event(event);
                                        if (!event.job_id().empty()) request.set_job_id(event.job_id());
                                        request.set_after(event.sequence());
                                      }
                                      return absl::OkStatus();
                                    });
}

absl::Status CoordinatorClient::GetArtifact(const std::string& job, const std::string& name,
                                            const std::function<absl::Status(const std::string&)>& on_data) {
  auto request = About<GetArtifactRequest>(job);
  request.set_name(name);
  return GetArtifact(std::move(request), [&](const ArtifactChunk& chunk) { return on_data(chunk.data()); });
}

absl::Status CoordinatorClient::GetArtifact(GetArtifactRequest request,
                                            const std::function<absl::Status(const ArtifactChunk&)>& on_chunk) {
  *request.mutable_header() = MakeHeader();
  int64_t total = -1, got = 0;
  absl::Status status =
      Stream<ArtifactChunk>([&](grpc::ClientContext* context) { return stub_->GetArtifact(context, request); },
                            kTransfer, [&] { return total < 0; },  // a part of it cannot be asked for
                            [&](ArtifactChunk& chunk) {
                              if (total < 0) total = chunk.total_bytes();
                              got += static_cast<int64_t>(chunk.data().size());
                              return on_chunk(chunk);
                            });
  if (status.ok() && got != total) {
    return absl::DataLossError(absl::StrCat(request.name(), " has ", total, " bytes, but ", got, " came"));
  }
  return status;
}

}  // namespace adjoin
