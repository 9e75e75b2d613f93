#include "tests/adjoint/on_ranks.h"

#include <ATen/Parallel.h>

#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"

namespace adjoin {

absl::Status OnRanks(int ranks, TransportKind kind, uint64_t seed, const std::function<absl::Status(Communicator&)>& fn,
                     absl::Duration timeout) {
  at::set_num_threads(1);
  return RunRanks(ranks, kind, seed, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, timeout});
    try {
      return fn(communicator);
    } catch (...) {
      return StatusFromCurrentException();
    }
  });
}

}  // namespace adjoin
