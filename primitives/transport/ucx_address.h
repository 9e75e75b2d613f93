// What a rank tells the others so that they can reach its UCX worker: an opaque string of bytes.
//
//   std::string bytes = EncodeUcxAddress({.rank = 1, .size = 4, .node = ThisNode(), .worker = worker_address});
//   ADJOIN_ASSIGN_OR_RETURN(UcxAddress address, DecodeUcxAddress(bytes));
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_UCX_ADDRESS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_UCX_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

struct UcxAddress {
  int32_t rank = 0;
  int32_t size = 0;
  bool shared_memory = false;
  std::string node;    // equal for ranks that can share memory
  std::string arena;   // SharedArena's; empty: it shares none
  std::string worker;  // UCX's own address
};

std::string EncodeUcxAddress(const UcxAddress& address);
// Errors: kInvalidArgument (not written by EncodeUcxAddress).
absl::StatusOr<UcxAddress> DecodeUcxAddress(const std::string& bytes);

// Names the machine's boot and the namespace of process ids: UCX's posix transport opens peers' memory through /proc.
std::string ThisNode();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_UCX_ADDRESS_H_
