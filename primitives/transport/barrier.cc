#include "primitives/transport/barrier.h"

#include <cstdint>

#include "base/status_macros.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {

// Dissemination: after log2(size) rounds every rank has heard, directly or not, of every other.
absl::Status Barrier(Transport& transport, Meeting meeting, Deadline deadline) {
  const Buffer nothing;
  const int rank = transport.rank(), size = transport.size();
  int slot = 0;
  for (int64_t distance = 1; distance < size; distance *= 2, ++slot) {
    const int to = static_cast<int>((rank + distance) % size);
    const int from = static_cast<int>((rank - distance + size) % size);
    auto tag = [&](int source) {
      return *Tag::Make({.communicator = kTransportCommunicator,
                         .op = kTransportOperator,
                         .generation = static_cast<int64_t>(meeting),
                         .direction = Direction::kControl,
                         .source = source,
                         .slot = slot});
    };
    ADJOIN_ASSIGN_OR_RETURN(Handle receive, transport.StartRecv(from, tag(from), nothing));
    ADJOIN_ASSIGN_OR_RETURN(Handle send, transport.StartSend(to, tag(rank), nothing));
    ADJOIN_RETURN_IF_ERROR(transport.Wait(receive, deadline));
    ADJOIN_RETURN_IF_ERROR(transport.Wait(send, deadline));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
