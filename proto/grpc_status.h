// absl::Status to grpc::Status and back: the codes are the same numbers.
//
//   return ToGrpc(absl::NotFoundError("there is no job 'x'"));
//
// A client must know whether kUnavailable is an answer ("the disk is full") or the lack of one: answers have details.
#ifndef ADJOIN_PROTO_GRPC_STATUS_H_
#define ADJOIN_PROTO_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace adjoin {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // A google.rpc.Status with its first field, the code, as gRPC's convention for details is.
  const std::string details = {'\x08', static_cast<char>(status.code())};
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()), details);
}

// True where ToGrpc made `status`, on either side. False where gRPC did: a broken connection, a deadline, a cancelled
// call.
inline bool IsAnswer(const grpc::Status& status) { return !status.error_details().empty(); }

inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace adjoin

#endif  // ADJOIN_PROTO_GRPC_STATUS_H_
