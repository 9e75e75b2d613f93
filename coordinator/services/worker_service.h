// The RPCs of service WorkerLink: the daemons' streams, their uploads, and their certificates.
//
//   WorkerService workers(hub, log_writer, relay, removals, *access, nodes, absl::Seconds(10));
//   builder.RegisterService(&workers);
//
// A daemon's stream holds no thread: thousands of daemons may be connected. Nor does an answer to those who have shown
// nothing, who need not read it.
#ifndef ADJOIN_COORDINATOR_SERVICES_WORKER_SERVICE_H_
#define ADJOIN_COORDINATOR_SERVICES_WORKER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "absl/time/time.h"
#include "coordinator/logs/log_writer.h"
#include "coordinator/services/access.h"
#include "coordinator/services/artifact_relay.h"
#include "coordinator/services/folder_removals.h"
#include "coordinator/services/hub.h"
#include "coordinator/services/node_certificates.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

// Every message of another protocol version ends its stream (kFailedPrecondition).
class WorkerService final : public WorkerLink::WithCallbackMethod_Connect<
                                WorkerLink::WithCallbackMethod_ReadAuthorities<WorkerLink::Service>> {
 public:
  // `first_message`: how long a stream may be open without a message. All other arguments outlive the service.
  WorkerService(Hub& hub, LogWriter& logs, ArtifactRelay& relay, FolderRemovals& removals, Access& access,
                NodeCertificates& nodes, absl::Duration first_message)
      : hub_(hub),
        logs_(logs),
        relay_(relay),
        removals_(removals),
        access_(access),
        nodes_(nodes),
        first_message_(first_message) {
    logs_.Listen([&hub](const std::string& job_id) { hub.watches().Note(job_id, JobChange::kProgress); });
  }
  ~WorkerService() override { logs_.Listen(nullptr); }

  grpc::ServerBidiReactor<WorkerMessage, CoordinatorMessage>* Connect(grpc::CallbackServerContext* context) override;
  grpc::Status UploadArtifact(grpc::ServerContext* context, grpc::ServerReader<ArtifactChunk>* reader,
                              UploadArtifactResponse* response) override;
  grpc::ServerUnaryReactor* ReadAuthorities(grpc::CallbackServerContext* context, const ReadAuthoritiesRequest* request,
                                            ReadAuthoritiesResponse* response) override;
  grpc::Status JoinNode(grpc::ServerContext* context, const JoinNodeRequest* request,
                        JoinNodeResponse* response) override;
  grpc::Status RenewCertificate(grpc::ServerContext* context, const RenewCertificateRequest* request,
                                RenewCertificateResponse* response) override;

 private:
  Hub& hub_;
  LogWriter& logs_;
  ArtifactRelay& relay_;
  FolderRemovals& removals_;
  Access& access_;
  NodeCertificates& nodes_;
  const absl::Duration first_message_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_WORKER_SERVICE_H_
