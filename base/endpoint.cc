#include "base/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

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

absl::Status CheckCanListen(const Endpoint& endpoint) {
  const auto because = [&](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", endpoint.ToString(), ": ", why));
  };
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(endpoint.host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &found);
  if (failed != 0) return because(gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr && error == 0; each = each->ai_next) {
    const UniqueFd fd(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) {
      error = errno;
      break;
    }
    const int yes = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // as gRPC does
    if (bind(fd.get(), each->ai_addr, each->ai_addrlen) != 0 || listen(fd.get(), 1) != 0) error = errno;
  }
  switch (error) {
    case 0: return absl::OkStatus();
    case EADDRINUSE:
      return because(absl::StrCat("another program listens there (`ss -ltnp sport = :", endpoint.port,
                                  "` names it): stop it, or choose another port"));
    case EADDRNOTAVAIL:
      return because("no interface of this machine has this address (`ip address` lists those it has)");
    case EACCES:
      return because("ports below 1024 need root, or the capability CAP_NET_BIND_SERVICE: choose another port");
    default: return because(strerror(error));
  }
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
