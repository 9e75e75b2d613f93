// Threads as ranks that move tensors of the host's memory.
//
//   absl::Status status = OnRanks(3, TransportKind::kInMemoryDelayed, seed,
//                                 [&](Communicator& communicator) -> absl::Status { ... });
#ifndef ADJOIN_TESTS_ADJOINT_ON_RANKS_H_
#define ADJOIN_TESTS_ADJOINT_ON_RANKS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "primitives/comm/communicator.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {

// Calls `fn` on every rank, with a communicator whose movements may take so long. Returns the first error; an exception
// of `fn` is one.
absl::Status OnRanks(int ranks, TransportKind kind, uint64_t seed, const std::function<absl::Status(Communicator&)>& fn,
                     absl::Duration timeout = absl::Seconds(20));

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_ON_RANKS_H_
