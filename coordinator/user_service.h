// The RPCs of service Adjoin: what users ask of the coordinator.
//
//   UserService users(hub, logs, relay, rules);
//   builder.RegisterService(&users);
#ifndef ADJOIN_COORDINATOR_USER_SERVICE_H_
#define ADJOIN_COORDINATOR_USER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "coordinator/artifact_relay.h"
#include "coordinator/hub.h"
#include "coordinator/log_store.h"
#include "layers/plan/layer_rule.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

// Every RPC refuses another protocol version (kFailedPrecondition). A stream ends when its client goes away.
class UserService final : public Adjoin::Service {
 public:
  // `rules`: of the layers that jobs may have. All of them outlive the service.
  UserService(Hub& hub, LogStore& logs, ArtifactRelay& relay, const LayerRules& rules)
      : hub_(hub), logs_(logs), relay_(relay), rules_(rules) {}

  grpc::Status Submit(grpc::ServerContext* context, const SubmitRequest* request, SubmitResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const ListJobsRequest* request,
                        ListJobsResponse* response) override;
  grpc::Status DescribeJob(grpc::ServerContext* context, const DescribeJobRequest* request,
                           DescribeJobResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const CancelJobRequest* request,
                         CancelJobResponse* response) override;
  grpc::Status FollowJob(grpc::ServerContext* context, const FollowJobRequest* request,
                         grpc::ServerWriter<FollowJobResponse>* writer) override;
  grpc::Status ReadLogs(grpc::ServerContext* context, const ReadLogsRequest* request,
                        grpc::ServerWriter<ReadLogsResponse>* writer) override;
  grpc::Status GetArtifact(grpc::ServerContext* context, const GetArtifactRequest* request,
                           grpc::ServerWriter<ArtifactChunk>* writer) override;

 private:
  Hub& hub_;
  LogStore& logs_;
  ArtifactRelay& relay_;
  const LayerRules& rules_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_USER_SERVICE_H_
