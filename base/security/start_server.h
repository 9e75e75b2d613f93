// Starts a gRPC server on one port, with the limits of server_limits.h.
//
//   grpc::ServerBuilder builder;
//   builder.RegisterService(&service);
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<grpc::Server> server, StartServer(builder, credentials, &endpoint));
#ifndef ADJOIN_BASE_SECURITY_START_SERVER_H_
#define ADJOIN_BASE_SECURITY_START_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/security/server_limits.h"

namespace adjoin {

// Port 0 takes a free one, which `*listen` has afterwards. Errors: kUnavailable, with what would help.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(grpc::ServerBuilder& builder,
                                                          std::shared_ptr<grpc::ServerCredentials> credentials,
                                                          Endpoint* listen, const ConnectionLimits& limits = {});

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_START_SERVER_H_
