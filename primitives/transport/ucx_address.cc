#include "primitives/transport/ucx_address.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr char kMagic[] = "ADJ2";  // ranks of one job are of one build and one byte order

struct Fixed {
  char magic[4];
  int32_t rank;
  int32_t size;
  uint32_t shared_memory;
  uint32_t node_bytes;
  uint32_t arena_bytes;
};

}  // namespace

std::string EncodeUcxAddress(const UcxAddress& address) {
  Fixed fixed = {};
  std::memcpy(fixed.magic, kMagic, sizeof(fixed.magic));
  fixed.rank = address.rank;
  fixed.size = address.size;
  fixed.shared_memory = address.shared_memory ? 1 : 0;
  fixed.node_bytes = static_cast<uint32_t>(address.node.size());
  fixed.arena_bytes = static_cast<uint32_t>(address.arena.size());
  std::string bytes(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  return bytes + address.node + address.arena + address.worker;
}

absl::StatusOr<UcxAddress> DecodeUcxAddress(const std::string& bytes) {
  Fixed fixed = {};
  if (bytes.size() >= sizeof(fixed)) std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  const uint64_t texts = uint64_t{fixed.node_bytes} + fixed.arena_bytes;
  if (std::memcmp(fixed.magic, kMagic, sizeof(fixed.magic)) != 0 || texts >= bytes.size() - sizeof(fixed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("these ", bytes.size(), " bytes are not what UcxTransport::Address() gave"));
  }
  UcxAddress address;
  address.rank = fixed.rank;
  address.size = fixed.size;
  address.shared_memory = fixed.shared_memory != 0;
  address.node = bytes.substr(sizeof(fixed), fixed.node_bytes);
  address.arena = bytes.substr(sizeof(fixed) + fixed.node_bytes, fixed.arena_bytes);
  address.worker = bytes.substr(sizeof(fixed) + texts);
  return address;
}

std::string ThisNode() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char pids[64];
  const ssize_t length = readlink("/proc/self/ns/pid", pids, sizeof(pids));
  return absl::StrCat(boot, "/", std::string(pids, length > 0 ? static_cast<std::size_t>(length) : 0));
}

}  // namespace adjoin
