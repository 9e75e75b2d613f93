// The memory of the tensors of a test's rank: the host's, or that of the device whose memory its transport moves.
//
//   RunRanks(2, kind, seed, [&](Transport& t) -> absl::Status {
//     ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory, MemoryOfRank(kind, t.rank(), seed));
//     Communicator communicator(&t, memory.get(), {});
//     const at::Tensor x = at::zeros({4}, TensorDeviceOf(*memory));
#ifndef ADJOIN_PRIMITIVES_TESTING_RANK_MEMORY_H_
#define ADJOIN_PRIMITIVES_TESTING_RANK_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/local_memory.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {

// On fake device `rank` or on CUDA's first one. Backward passes of the calling thread run in it, where LibTorch can:
// ranks that are threads would wait for each other in the one thread of a device that they share.
// Errors: as DeviceOfRank.
absl::StatusOr<std::unique_ptr<LocalMemory>> MemoryOfRank(TransportKind kind, int rank, uint64_t seed);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_RANK_MEMORY_H_
