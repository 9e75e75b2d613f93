// "HOST:PORT", where a program listens or connects.
//
//   ADJOIN_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint("127.0.0.1:7411"));
//   endpoint.IsLoopback();
#ifndef ADJOIN_BASE_ENDPOINT_H_
#define ADJOIN_BASE_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

struct Endpoint {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  int port = 0;      // 0: any free one

  // True where only this machine can reach it: 127.0.0.0/8, ::1 or "localhost".
  bool IsLoopback() const;
  std::string ToString() const;
};

// Errors: kInvalidArgument.
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text);

// Asks the system whether a server could listen there at this moment. Errors: kUnavailable, with what would help.
absl::Status CheckCanListen(const Endpoint& endpoint);

// "FIRST-LAST", ports on which a program may listen; "" is any. Errors: kInvalidArgument.
absl::Status CheckPortRange(const std::string& text);

}  // namespace adjoin

#endif  // ADJOIN_BASE_ENDPOINT_H_
