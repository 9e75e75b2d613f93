// The RPCs of service WorkerLink: the daemons' streams and their uploads.
//
//   WorkerService workers(hub, logs, relay, absl::Seconds(10));
//   builder.RegisterService(&workers);
#ifndef ADJOIN_COORDINATOR_WORKER_SERVICE_H_
#define ADJOIN_COORDINATOR_WORKER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "absl/time/time.h"
#include "coordinator/artifact_relay.h"
#include "coordinator/hub.h"
#include "coordinator/log_store.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

// Every message of another protocol version ends its stream (kFailedPrecondition).
class WorkerService final : public WorkerLink::Service {
 public:
  using Stream = grpc::ServerReaderWriter<CoordinatorMessage, WorkerMessage>;

  // `first_message`: how long a stream may be open without one.
  WorkerService(Hub& hub, LogStore& logs, ArtifactRelay& relay, absl::Duration first_message)
      : hub_(hub), logs_(logs), relay_(relay), first_message_(first_message) {}

  grpc::Status Connect(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status UploadArtifact(grpc::ServerContext* context, grpc::ServerReader<ArtifactChunk>* reader,
                              UploadArtifactResponse* response) override;

 private:
  grpc::Status Serve(ConnectionId connection, Stream* stream);
  void KeepLog(ConnectionId connection, const WorkerMessage& message);

  Hub& hub_;
  LogStore& logs_;
  ArtifactRelay& relay_;
  const absl::Duration first_message_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_WORKER_SERVICE_H_
