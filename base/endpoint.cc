#include "base/endpoint.h"

#include <arpa/inet.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adjoin {

bool Endpoint::IsLoopback() const {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

std::string Endpoint::ToString() const {
  return absl::StrContains(host, ":") ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &endpoint.port) ||
      endpoint.port < 0 || endpoint.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not HOST:PORT, such as 127.0.0.1:7411"));
  }
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  return endpoint;
}

absl::Status CheckPortRange(const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  int first = 0, last = 0;
  if (ends.size() == 2 && absl::SimpleAtoi(ends[0], &first) && absl::SimpleAtoi(ends[1], &last) && first >= 1 &&
      first <= last && last <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a range of ports, such as 20000-20100"));
}

}  // namespace adjoin
