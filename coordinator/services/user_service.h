// The RPCs of service Adjoin, which users call.
//
//   UserService users({.hub = hub, .store = *store, .logs = logs, .log_writer = log_writer, .relay = relay, .access =
//   *access,
//                      .tokens = tokens, .rules = rules});
//   builder.RegisterService(&users);
#ifndef ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_
#define ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/logs/log_store.h"
#include "coordinator/logs/log_writer.h"
#include "coordinator/services/access.h"
#include "coordinator/services/artifact_relay.h"
#include "coordinator/services/hub.h"
#include "coordinator/services/token_book.h"
#include "coordinator/store/store.h"
#include "layers/rules/layer_rule.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

// Every RPC refuses another protocol version (kFailedPrecondition) and callers that may not call it
// (coordinator/services/access.h). A stream ends when its client goes away. The state that an RPC returns is in the
// store.
class UserService final : public Adjoin::Service {
 public:
  // All parts outlive the service.
  struct Parts {
    Hub& hub;
    Store& store;
    LogStore& logs;
    LogWriter& log_writer;
    ArtifactRelay& relay;
    Access& access;
    TokenBook& tokens;
    const LayerRules& rules;  // the layers that jobs may have
  };
  explicit UserService(const Parts& parts) : parts_(parts), hub_(parts.hub) {}

  using Context = grpc::ServerContext;
  grpc::Status Submit(Context* context, const SubmitRequest* request, SubmitResponse* response) override;
  grpc::Status ListJobs(Context* context, const ListJobsRequest* request, ListJobsResponse* response) override;
  grpc::Status DescribeJob(Context* context, const DescribeJobRequest* request, DescribeJobResponse* response) override;
  grpc::Status CancelJob(Context* context, const CancelJobRequest* request, CancelJobResponse* response) override;
  grpc::Status RetryJob(Context* context, const RetryJobRequest* request, RetryJobResponse* response) override;
  grpc::Status HoldJob(Context* context, const HoldJobRequest* request, HoldJobResponse* response) override;
  grpc::Status ReleaseJob(Context* context, const ReleaseJobRequest* request, ReleaseJobResponse* response) override;
  grpc::Status ReadEvents(Context* context, const ReadEventsRequest* request,
                          grpc::ServerWriter<ReadEventsResponse>* writer) override;
  grpc::Status FollowJob(Context* context, const FollowJobRequest* request,
                         grpc::ServerWriter<FollowJobResponse>* writer) override;
  grpc::Status ReadLogs(Context* context, const ReadLogsRequest* request,
                        grpc::ServerWriter<ReadLogsResponse>* writer) override;
  grpc::Status GetArtifact(Context* context, const GetArtifactRequest* request,
                           grpc::ServerWriter<ArtifactChunk>* writer) override;
  grpc::Status CreateToken(Context* context, const CreateTokenRequest* request, CreateTokenResponse* response) override;
  grpc::Status ListTokens(Context* context, const ListTokensRequest* request, ListTokensResponse* response) override;
  grpc::Status RevokeToken(Context* context, const RevokeTokenRequest* request, RevokeTokenResponse* response) override;

 private:
  // Returns who calls. Errors: those of CheckProtocol and Access::Admit. `method`: "Submit".
  template <typename Request>
  absl::StatusOr<Admitted> Admit(const Context& context, const Request& request, absl::string_view method);
  absl::StatusOr<Submitted> SubmitAndAwait(const SubmitRequest& request, const Caller& caller);
  absl::Status SetHeld(const std::string& job, bool held, const Caller& caller);

  const Parts parts_;
  Hub& hub_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_
