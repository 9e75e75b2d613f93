// Asks a server of this process, as a client would, whether it has threads for calls. One that has none refuses every
// call, and accepts connections all the same.
//
//   ServedCall served(*server);
//   ADJOIN_RETURN_IF_ERROR(served(absl::Seconds(5)));
#ifndef ADJOIN_COORDINATOR_SERVICES_SERVED_CALL_H_
#define ADJOIN_COORDINATOR_SERVICES_SERVED_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

class ServedCall {
 public:
  // `server` has the service Adjoin, outlives this object, and is not shut down while a call is made.
  explicit ServedCall(grpc::Server& server)
      : stub_(Adjoin::NewStub(server.InProcessChannel(grpc::ChannelArguments()))) {}

  // Makes a call that a handler answers at once, whoever calls: with an error, as its request says nothing. Errors:
  // kResourceExhausted (no thread took it), kDeadlineExceeded (none answered within `limit`), kUnavailable.
  absl::Status operator()(absl::Duration limit);

 private:
  std::unique_ptr<Adjoin::Stub> stub_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_SERVED_CALL_H_
