// The RPCs of service Adjoin, which users call.
//
//   UserService users(
//       {.hub = hub, .calls = calls, .removals = removals, .access = *access, .tokens = tokens, .planner = planner});
//   builder.RegisterService(&users);
#ifndef ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_
#define ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/planning/spec_planner.h"
#include "coordinator/services/access.h"
#include "coordinator/services/folder_removals.h"
#include "coordinator/services/hub.h"
#include "coordinator/services/node_certificates.h"
#include "coordinator/services/token_book.h"
#include "coordinator/services/user_calls.h"
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
    UserCalls& calls;
    FolderRemovals& removals;
    Access& access;
    TokenBook& tokens;
    NodeCertificates& nodes;
    SpecPlanner& planner;
    int32_t max_user_priority = 0;  // the highest that users may give
  };
  explicit UserService(const Parts& parts) : parts_(parts), hub_(parts.hub), calls_(parts.calls) {}

  using Context = grpc::ServerContext;
  grpc::Status Submit(Context* context, const SubmitRequest* request, SubmitResponse* response) override;
  grpc::Status ListJobs(Context* context, const ListJobsRequest* request, ListJobsResponse* response) override;
  grpc::Status DescribeJob(Context* context, const DescribeJobRequest* request, DescribeJobResponse* response) override;
  grpc::Status CancelJob(Context* context, const CancelJobRequest* request, CancelJobResponse* response) override;
  grpc::Status RetryJob(Context* context, const RetryJobRequest* request, RetryJobResponse* response) override;
  grpc::Status TraceJob(Context* context, const TraceJobRequest* request, TraceJobResponse* response) override;
  grpc::Status HoldJob(Context* context, const HoldJobRequest* request, HoldJobResponse* response) override;
  grpc::Status ReleaseJob(Context* context, const ReleaseJobRequest* request, ReleaseJobResponse* response) override;
  grpc::Status RemoveJob(Context* context, const RemoveJobRequest* request, RemoveJobResponse* response) override;
  grpc::Status ReadEvents(Context* context, const ReadEventsRequest* request,
                          grpc::ServerWriter<ReadEventsResponse>* writer) override;
  grpc::Status FollowJob(Context* context, const FollowJobRequest* request,
                         grpc::ServerWriter<FollowJobResponse>* writer) override;
  grpc::Status ReadLogs(Context* context, const ReadLogsRequest* request,
                        grpc::ServerWriter<ReadLogsResponse>* writer) override;
  grpc::Status GetArtifact(Context* context, const GetArtifactRequest* request,
                           grpc::ServerWriter<ArtifactChunk>* writer) override;
  grpc::Status CreateToken(Context* context, const CreateTokenRequest* request, CreateTokenResponse* response) override;
  grpc::Status ReadRates(Context* context, const ReadRatesRequest* request, ReadRatesResponse* response) override;
  grpc::Status ListTokens(Context* context, const ListTokensRequest* request, ListTokensResponse* response) override;
  grpc::Status RevokeToken(Context* context, const RevokeTokenRequest* request, RevokeTokenResponse* response) override;
  grpc::Status CreateJoinToken(Context* context, const CreateJoinTokenRequest* request,
                               CreateJoinTokenResponse* response) override;
  grpc::Status RevokeNode(Context* context, const RevokeNodeRequest* request, RevokeNodeResponse* response) override;

 private:
  // Returns who calls. Errors: those of CheckProtocol and Access::Admit. `method`: "Submit".
  template <typename Request>
  absl::StatusOr<Admitted> Admit(const Context& context, const Request& request, absl::string_view method);
  absl::StatusOr<Submitted> SubmitAndAwait(const Context& context, const SubmitRequest& request, const Caller& caller);
  // Has a daemon remove the files of a job, and waits until it has.
  absl::StatusOr<FoldersRemoved> RemoveFiles(const Context& context, JobRemoval& removal);

  const Parts parts_;
  Hub& hub_;
  UserCalls& calls_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_USER_SERVICE_H_
