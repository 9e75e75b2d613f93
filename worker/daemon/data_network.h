// The network that the ranks' data may take: UCX neither encrypts nor asks who connects, so it is bound to a named
// interface, whose addresses the public Internet must not reach.
//
//   ADJOIN_RETURN_IF_ERROR(CheckDataNetwork(flags.net_device, flags.trusted_network));
#ifndef ADJOIN_WORKER_DAEMON_DATA_NETWORK_H_
#define ADJOIN_WORKER_DAEMON_DATA_NETWORK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {

// The addresses of each interface of this machine, as text; none for one that has none.
using Interfaces = std::map<std::string, std::vector<std::string>>;
Interfaces ListInterfaces();

// True where packets to the address stay in a private network: loopback, 10/8, 172.16/12, 192.168/16 (RFC 1918),
// 100.64/10 (RFC 6598), link-local (169.254/16, fe80::/10) and fc00::/7 (RFC 4193).
bool IsPrivateAddress(const std::string& address);

// `devices`: --net-device, one or several with commas. `trusted`: --trusted-network, which takes public addresses, too,
// and devices that are no interfaces (mlx5_0:1). Errors: kInvalidArgument: an unknown one, with those that there are;
// one with a public address.
absl::Status CheckDataNetwork(const std::string& devices, bool trusted,
                              const Interfaces& interfaces = ListInterfaces());

// Returns "eth0 (10.0.0.7), lo (127.0.0.1, ::1)".
std::string ToString(const Interfaces& interfaces);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DATA_NETWORK_H_
