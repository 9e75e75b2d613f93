// absl::Status to grpc::Status and back: the codes are the same numbers.
//
//   return ToGrpc(absl::NotFoundError("there is no job 'x'"));
//
// A client must know whether kUnavailable is an answer ("the disk is full") or the lack of one: answers have details.
// A status travels in HTTP/2 headers, of which clients take 8 KiB: a longer text would be lost with its code.
#ifndef ADJOIN_PROTO_GRPC_STATUS_H_
#define ADJOIN_PROTO_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "proto/message_limits.h"

namespace adjoin {

// How many bytes of a header `text` takes: gRPC writes all but printable ASCII, and '%', as %XX.
inline size_t HeaderBytes(absl::string_view text) {
  size_t bytes = 0;
  for (const char c : text) bytes += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  return bytes;
}

// Returns the text in printable characters, cut where it takes more than 3 * kMaxStatusBytes of a header: the least of
// it that stays is kMaxStatusBytes. The text then says how much is left out.
inline std::string StatusText(absl::string_view text) {
  std::string shown = PrintableText(text, 3 * kMaxStatusBytes);
  for (size_t limit = shown.size(); HeaderBytes(shown) > 3 * kMaxStatusBytes;) {
    limit = std::max(kMaxStatusBytes, limit - limit / 8);
    shown = PrintableText(text, limit);
  }
  return shown;
}

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // A google.rpc.Status with its first field, the code, as gRPC's convention for details is.
  const std::string details = {'\x08', static_cast<char>(status.code())};
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), StatusText(status.message()), details);
}

// True where ToGrpc made `status`, on either side. False where gRPC did: a broken connection, a deadline, a cancelled
// call.
inline bool IsAnswer(const grpc::Status& status) { return !status.error_details().empty(); }

// The text of a server of any release is made printable here.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), PrintableText(status.error_message()));
}

}  // namespace adjoin

#endif  // ADJOIN_PROTO_GRPC_STATUS_H_
