#include "worker/daemon/data_network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace adjoin {
namespace {

bool IsPrivateV4(uint32_t address) {
  struct Net {
    uint32_t prefix;
    int bits;
  };
  constexpr Net kPrivate[] = {{127u << 24, 8},
                              {10u << 24, 8},
                              {172u << 24 | 16u << 16, 12},
                              {192u << 24 | 168u << 16, 16},
                              {100u << 24 | 64u << 16, 10},
                              {169u << 24 | 254u << 16, 16}};
  for (const Net& net : kPrivate) {
    if ((address ^ net.prefix) >> (32 - net.bits) == 0) return true;
  }
  return false;
}

}  // namespace

Interfaces ListInterfaces() {
  Interfaces interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    std::vector<std::string>& addresses = interfaces[entry->ifa_name];
    char text[INET6_ADDRSTRLEN];
    if (entry->ifa_addr == nullptr) continue;
    const void* address = nullptr;
    if (entry->ifa_addr->sa_family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    }
    if (address == nullptr) continue;
    if (inet_ntop(entry->ifa_addr->sa_family, address, text, sizeof(text)) != nullptr) addresses.push_back(text);
  }
  freeifaddrs(list);
  return interfaces;
}

bool IsPrivateAddress(const std::string& address) {
  in_addr v4;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return IsPrivateV4(ntohl(v4.s_addr));
  in6_addr v6;
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    return IsPrivateV4(uint32_t{v6.s6_addr[12]} << 24 | v6.s6_addr[13] << 16 | v6.s6_addr[14] << 8 | v6.s6_addr[15]);
  }
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6) || (v6.s6_addr[0] & 0xfe) == 0xfc;
}

std::string ToString(const Interfaces& interfaces) {
  return absl::StrJoin(interfaces, ", ", [](std::string* out, const auto& interface) {
    absl::StrAppend(out, interface.first, " (",
                    interface.second.empty() ? "no address" : absl::StrJoin(interface.second, ", "), ")");
  });
}

absl::Status CheckDataNetwork(const std::string& devices, bool trusted, const Interfaces& interfaces) {
  if (trusted) return absl::OkStatus();
  for (const auto part : absl::StrSplit(devices, ',')) {
    const std::string device(part);
    const auto found = interfaces.find(device);
    if (found == interfaces.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--net-device ", devices, ": there is no interface '", device, "'; there are ",
                       ToString(interfaces), "; with --trusted-network a device that is no interface is taken, too"));
    }
    for (const std::string& address : found->second) {
      if (IsPrivateAddress(address)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--net-device ", devices, ": ", device, " has the public address ", address,
          ", and what ranks exchange is neither "
          "encrypted nor authenticated: name an interface with private addresses only, or say --trusted-network where "
          "nobody else reaches it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
