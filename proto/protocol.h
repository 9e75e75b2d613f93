// The protocol version in every message's header.
//
//   request.mutable_header()->CopyFrom(MakeHeader());
//   ADJOIN_RETURN_IF_ERROR(CheckProtocol(request.header(), "the client", "this coordinator"));
#ifndef ADJOIN_PROTO_PROTOCOL_H_
#define ADJOIN_PROTO_PROTOCOL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// `epoch`: of the attempt that the message is about; 0: of none.
inline Header MakeHeader(uint64_t epoch = 0) {
  Header header;
  header.set_protocol_version(PROTOCOL_CURRENT);
  header.set_epoch(epoch);
  return header;
}

// Errors: kFailedPrecondition, naming both versions, when `header` has another version than this release's.
inline absl::Status CheckProtocol(const Header& header, const std::string& sender, const std::string& self) {
  if (header.protocol_version() == PROTOCOL_CURRENT) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(sender, " speaks protocol version ", header.protocol_version(),
                                                    ", ", self, " speaks version ", static_cast<int>(PROTOCOL_CURRENT),
                                                    ": use the same release of adjoin on both sides"));
}

}  // namespace adjoin

#endif  // ADJOIN_PROTO_PROTOCOL_H_
