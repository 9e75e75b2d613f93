// absl::Status to grpc::Status and back: the codes are the same numbers.
//
//   return ToGrpc(absl::NotFoundError("there is no job 'x'"));
#ifndef ADJOIN_PROTO_GRPC_STATUS_H_
#define ADJOIN_PROTO_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace adjoin {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace adjoin

#endif  // ADJOIN_PROTO_GRPC_STATUS_H_
