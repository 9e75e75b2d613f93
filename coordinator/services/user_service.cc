#include "coordinator/services/user_service.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "coordinator/services/spec_planning.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

// How often a waiting stream looks whether its client is still there.
constexpr absl::Duration kWatcherCheck = absl::Milliseconds(200);
constexpr absl::Duration kProgressInterval = absl::Milliseconds(100);
// How often it looks at its job though no change was told.
constexpr absl::Duration kLookAtWaiting = absl::Seconds(1);
constexpr absl::Duration kLookAgain = absl::Seconds(5);
// The service itself ends a data check; this only catches its failure to.
constexpr absl::Duration kAdmissionTimeout = absl::Seconds(90);

// Names are looked for among the caller's own jobs first.
template <typename Request>
JobReference Named(const Request& request, const Caller& caller) {
  return {request.job_id(), caller.name};
}

// A stream that ends when the caller's certificate or token counts no more. Make it after the Admitted.
class LastingCall {
 public:
  // `over` is called then as well, from another thread; it may be empty.
  LastingCall(Admitted& call, grpc::ServerContext* context, std::function<void(const absl::Status&)> over = nullptr) {
    call.WhenOver([state = state_, context, over = std::move(over)](const absl::Status& reason, bool last) {
      {
        absl::MutexLock lock(&state->mutex);
        state->reason = reason;
      }
      if (over != nullptr) over(reason);
      if (last) context->TryCancel();  // its thread waits for a client that does not read
    });
  }
  // True while the client is there and may see what it sees.
  bool GoesOn(grpc::ServerContext* context) const { return !context->IsCancelled() && Reason().ok(); }
  // Why a call that does not go on has ended.
  grpc::Status End() const {
    const absl::Status reason = Reason();
    return reason.ok() ? grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone") : ToGrpc(reason);
  }

 private:
  struct State {
    absl::Mutex mutex;
    absl::Status reason ABSL_GUARDED_BY(mutex);
  };
  absl::Status Reason() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->reason;
  }
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Returns when the job's state has changed, or anything of it but not before `calm`, or after `limit`, or when the call
// does not go on.
void WaitForChange(const LastingCall& call, grpc::ServerContext* context, JobWatch& watch, Deadline calm,
                   absl::Duration limit) {
  const Deadline end = Deadline::After(limit);
  while (call.GoesOn(context) && !end.Expired()) {
    const Deadline look = Deadline::After(kWatcherCheck);
    if (watch.Wait(calm, end.when() < look.when() ? end : look)) return;
  }
}

template <typename Response>
grpc::Status Answer(absl::StatusOr<Response> made, Response* response) {
  if (!made.ok()) return ToGrpc(made.status());
  *response = *std::move(made);
  return grpc::Status::OK;
}

// Whether the client has given the call up.
std::function<bool()> GoneFrom(const grpc::ServerContextBase* context) {
  return [context] { return context->IsCancelled(); };
}

}  // namespace

template <typename Request>
absl::StatusOr<Admitted> UserService::Admit(const Context& context, const Request& request, absl::string_view method) {
  ADJOIN_RETURN_IF_ERROR(CheckProtocol(request.header(), "the client", "this coordinator"));
  return parts_.access.Admit(context, method);
}

// A client that gives up before its job is accepted leaves none. Where it does so in the very moment of that, the job
// is there although the client was not told; the same idempotency key finds it.
absl::StatusOr<Submitted> UserService::SubmitAndAwait(const Context& context, const SubmitRequest& request,
                                                      const Caller& caller) {
  ADJOIN_RETURN_IF_ERROR(MayGivePriority(caller, request.priority(), parts_.max_user_priority));
  const WithService look = [this](const std::function<void(CoordinationService&)>& f) { hub_.Look(f); };
  ADJOIN_ASSIGN_OR_RETURN(NewJob job, ReadNumbered(request, caller.name, parts_.planner, GoneFrom(&context), look));
  job.any_folder = caller.local || caller.role == Role::kAdmin;
  ADJOIN_ASSIGN_OR_RETURN(Submitted submitted,
                          hub_.Do([&](CoordinationService& service) { return service.Submit(std::move(job)); }));
  Deadline deadline = Deadline::After(kAdmissionTimeout);
  JobWatch watch(hub_.watches(), submitted.job_id);
  bool planning = false;
  while ((planning || !deadline.Expired()) && !context.IsCancelled()) {
    absl::Status reason;
    Admission admission =
        hub_.Look([&](CoordinationService& service) { return service.AdmissionOf(submitted.job_id, &reason); });
    if (admission == Admission::kAccepted) return submitted;
    if (admission == Admission::kRefused) return reason;
    planning = admission == Admission::kPlanning;
    watch.Wait(Deadline::After(kWatcherCheck));
  }
  const absl::Status reason = context.IsCancelled()
                                  ? absl::CancelledError("the client has gone")
                                  : absl::DeadlineExceededError("the data files could not be checked in time");
  hub_.Do([&](CoordinationService& service) { service.Abandon(submitted.job_id, reason); });
  return reason;
}

grpc::Status UserService::Submit(Context* context, const SubmitRequest* request, SubmitResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "Submit");
  if (!call.ok()) return ToGrpc(call.status());
  absl::StatusOr<Submitted> submitted = SubmitAndAwait(*context, *request, call->caller());
  // Either nobody hears it, or the coordinator stops: then it is no answer, and the client tries again.
  if (absl::IsCancelled(submitted.status())) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(submitted.status().message()));
  }
  if (!submitted.ok()) return ToGrpc(submitted.status());
  *response->mutable_header() = MakeHeader();
  response->set_job_id(submitted->job_id);
  response->set_existed(submitted->existed);
  return grpc::Status::OK;
}

grpc::Status UserService::ListJobs(Context* context, const ListJobsRequest* request, ListJobsResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ListJobs");
  if (!call.ok()) return ToGrpc(call.status());
  return Answer(calls_.ListJobs(call->caller().name, *request, GoneFrom(context)), response);
}

grpc::Status UserService::DescribeJob(Context* context, const DescribeJobRequest* request,
                                      DescribeJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "DescribeJob");
  if (!call.ok()) return ToGrpc(call.status());
  return Answer(calls_.DescribeJob(call->caller(), *request, GoneFrom(context)), response);
}

grpc::Status UserService::CancelJob(Context* context, const CancelJobRequest* request, CancelJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "CancelJob");
  if (!call.ok()) return ToGrpc(call.status());
  const absl::StatusOr<JobState> state = calls_.Cancel(call->caller(), request->job_id());
  if (!state.ok()) return ToGrpc(state.status());
  *response->mutable_header() = MakeHeader();
  response->set_state(*state);
  return grpc::Status::OK;
}

grpc::Status UserService::RetryJob(Context* context, const RetryJobRequest* request, RetryJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "RetryJob");
  if (!call.ok()) return ToGrpc(call.status());
  const absl::StatusOr<JobState> state = calls_.Retry(call->caller(), request->job_id());
  if (!state.ok()) return ToGrpc(state.status());
  *response->mutable_header() = MakeHeader();
  response->set_state(*state);
  return grpc::Status::OK;
}

grpc::Status UserService::HoldJob(Context* context, const HoldJobRequest* request, HoldJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "HoldJob");
  if (!call.ok()) return ToGrpc(call.status());
  *response->mutable_header() = MakeHeader();
  return ToGrpc(calls_.SetHeld(call->caller(), request->job_id(), true));
}

grpc::Status UserService::ReleaseJob(Context* context, const ReleaseJobRequest* request, ReleaseJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ReleaseJob");
  if (!call.ok()) return ToGrpc(call.status());
  *response->mutable_header() = MakeHeader();
  return ToGrpc(calls_.SetHeld(call->caller(), request->job_id(), false));
}

grpc::Status UserService::TraceJob(Context* context, const TraceJobRequest* request, TraceJobResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "TraceJob");
  if (!call.ok()) return ToGrpc(call.status());
  const absl::StatusOr<std::string> job = calls_.Trace(call->caller(), *request);
  if (!job.ok()) return ToGrpc(job.status());
  *response->mutable_header() = MakeHeader();
  response->set_job_id(*job);
  return grpc::Status::OK;
}

grpc::Status UserService::ReadEvents(Context* context, const ReadEventsRequest* request,
                                     grpc::ServerWriter<ReadEventsResponse>* writer) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ReadEvents");
  if (!call.ok()) return ToGrpc(call.status());
  const LastingCall lasting(*call, context);
  const absl::StatusOr<JobSummary> found = calls_.Find(call->caller(), request->job_id());
  if (!found.ok()) return ToGrpc(found.status());
  const std::string id = found->job_id();
  uint64_t after = request->after();
  JobWatch watch(hub_.watches(), id);
  while (lasting.GoesOn(context)) {
    // Asked before the events are read: once it is true, no event can come after those.
    bool settled = hub_.LookAtCommitted([&](CoordinationService& service) { return service.Settled(id); });
    auto events = calls_.Events(id, after);
    if (!events.ok()) return ToGrpc(events.status());
    if (!events->empty()) {
      ReadEventsResponse response;
      *response.mutable_header() = MakeHeader();
      for (JobEvent& event : *events) *response.add_event() = std::move(event);
      after = response.event(response.event_size() - 1).sequence();
      if (!writer->Write(response)) break;
      continue;
    }
    if (settled || !request->follow()) return grpc::Status::OK;
    WaitForChange(lasting, context, watch, Deadline::After(kProgressInterval), kLookAgain);
  }
  return lasting.End();
}

grpc::Status UserService::CreateToken(Context* context, const CreateTokenRequest* request,
                                      CreateTokenResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "CreateToken");
  if (!call.ok()) return ToGrpc(call.status());
  auto made = parts_.tokens.Create(request->user(), request->role(), request->valid_hours(), absl::Now());
  if (!made.ok()) return ToGrpc(made.status());
  *response = *std::move(made);
  *response->mutable_header() = MakeHeader();
  return grpc::Status::OK;
}

grpc::Status UserService::ListTokens(Context* context, const ListTokensRequest* request, ListTokensResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ListTokens");
  if (!call.ok()) return ToGrpc(call.status());
  *response->mutable_header() = MakeHeader();
  for (TokenSummary& token : parts_.tokens.List()) *response->add_token() = std::move(token);
  for (TokenSummary& token : parts_.nodes.Tokens()) *response->add_token() = std::move(token);
  return grpc::Status::OK;
}

grpc::Status UserService::RevokeToken(Context* context, const RevokeTokenRequest* request,
                                      RevokeTokenResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "RevokeToken");
  if (!call.ok()) return ToGrpc(call.status());
  *response->mutable_header() = MakeHeader();
  absl::Status status = parts_.tokens.Revoke(request->id());
  if (absl::IsNotFound(status)) status = parts_.nodes.RevokeToken(request->id());
  return ToGrpc(status);
}

grpc::Status UserService::CreateJoinToken(Context* context, const CreateJoinTokenRequest* request,
                                          CreateJoinTokenResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "CreateJoinToken");
  if (!call.ok()) return ToGrpc(call.status());
  auto made = parts_.nodes.CreateToken(request->node(), request->uses(), request->valid_hours());
  if (!made.ok()) return ToGrpc(made.status());
  *response = *std::move(made);
  *response->mutable_header() = MakeHeader();
  return grpc::Status::OK;
}

grpc::Status UserService::RevokeNode(Context* context, const RevokeNodeRequest* request, RevokeNodeResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "RevokeNode");
  if (!call.ok()) return ToGrpc(call.status());
  auto revoked = parts_.nodes.Revoke(request->node());
  if (!revoked.ok()) return ToGrpc(revoked.status());
  *response = *std::move(revoked);
  *response->mutable_header() = MakeHeader();
  return grpc::Status::OK;
}

grpc::Status UserService::ReadRates(Context* context, const ReadRatesRequest* request, ReadRatesResponse* response) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ReadRates");
  if (!call.ok()) return ToGrpc(call.status());
  *response = hub_.Look([](CoordinationService& service) { return service.Rates(); });
  *response->mutable_header() = MakeHeader();
  return grpc::Status::OK;
}

grpc::Status UserService::FollowJob(Context* context, const FollowJobRequest* request,
                                    grpc::ServerWriter<FollowJobResponse>* writer) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "FollowJob");
  if (!call.ok()) return ToGrpc(call.status());
  const LastingCall lasting(*call, context);
  auto found =
      hub_.Look([&](CoordinationService& service) { return service.RecentSummary(Named(*request, call->caller())); });
  if (!found.ok()) return ToGrpc(found.status());
  const std::string id = found->job_id();  // a name may come to mean a later job
  JobWatch watch(hub_.watches(), id);
  std::string last_sent;
  JobState last_state = JOB_STATE_UNSPECIFIED;
  Deadline next_progress = Deadline::After(absl::ZeroDuration());
  while (lasting.GoesOn(context)) {
    auto summary = hub_.LookAtCommitted([&](CoordinationService& service) { return service.RecentSummary(id); });
    if (!summary.ok()) return ToGrpc(summary.status());
    std::string serialized = summary->SerializeAsString();
    const bool changed = serialized != last_sent;
    if (changed && (summary->state() != last_state || next_progress.Expired())) {
      FollowJobResponse response;
      *response.mutable_header() = MakeHeader(summary->epoch());
      *response.mutable_job() = *summary;
      if (!writer->Write(response)) break;
      last_sent = std::move(serialized);
      last_state = summary->state();
      next_progress = Deadline::After(kProgressInterval);
    } else if (changed) {
      WaitForChange(lasting, context, watch, next_progress, next_progress.Remaining());
      continue;
    }
    if (IsFinal(summary->state())) return grpc::Status::OK;
    // What a job waits for changes with other jobs, too.
    WaitForChange(lasting, context, watch, next_progress, summary->state() == PENDING ? kLookAtWaiting : kLookAgain);
  }
  return lasting.End();
}

grpc::Status UserService::ReadLogs(Context* context, const ReadLogsRequest* request,
                                   grpc::ServerWriter<ReadLogsResponse>* writer) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "ReadLogs");
  if (!call.ok()) return ToGrpc(call.status());
  const LastingCall lasting(*call, context);
  const absl::StatusOr<JobSummary> summary = calls_.FindLog(call->caller(), *request);
  if (!summary.ok()) return ToGrpc(summary.status());
  const std::string id = summary->job_id();
  int64_t position = request->from();
  JobWatch watch(hub_.watches(), id);
  while (lasting.GoesOn(context)) {
    // Asked before the lines are read: once it is true, no line can come after those.
    bool settled = hub_.Look([&](CoordinationService& service) { return service.Settled(id); });
    // Lines that wait for the disk are read too.
    const absl::StatusOr<ReadLogsResponse> response =
        calls_.LogLines(id, *request, position, /*flush=*/settled || !request->follow());
    if (!response.ok()) return ToGrpc(response.status());
    if (response->line_size() > 0 && !writer->Write(*response)) break;
    if (response->next() != position) {
      position = response->next();
      continue;
    }
    if (settled || !request->follow()) return grpc::Status::OK;
    WaitForChange(lasting, context, watch, Deadline::After(kProgressInterval), kLookAgain);
  }
  return lasting.End();
}

grpc::Status UserService::GetArtifact(Context* context, const GetArtifactRequest* request,
                                      grpc::ServerWriter<ArtifactChunk>* writer) {
  absl::StatusOr<Admitted> call = Admit(*context, *request, "GetArtifact");
  if (!call.ok()) return ToGrpc(call.status());
  const absl::StatusOr<std::unique_ptr<ArtifactStream>> stream =
      calls_.OpenArtifact(call->caller(), *request, GoneFrom(context));
  if (!stream.ok()) return ToGrpc(stream.status());
  const LastingCall lasting(*call, context,
                            [pipe = (*stream)->pipe()](const absl::Status& reason) { pipe->Break(reason); });
  const auto goes_on = [&] { return lasting.GoesOn(context); };
  while (goes_on()) {
    const absl::StatusOr<std::optional<ArtifactChunk>> chunk = (*stream)->Next(goes_on);
    if (absl::IsCancelled(chunk.status()) && !goes_on()) break;
    if (!chunk.ok()) return ToGrpc(chunk.status());
    if (!chunk->has_value()) return grpc::Status::OK;
    if (!writer->Write(**chunk)) break;
  }
  return lasting.End();
}

}  // namespace adjoin
