// The error of a rank that gets no memory, as the user reads it: what asked for how much, the limit, what is in use,
// the layers whose outputs are the largest on the rank, and what helps.
//
//   if (IsOutOfMemory(status)) return ExplainOutOfMemory(status, plan, rank, MemoryLimitsNow());
#ifndef ADJOIN_WORKER_SESSION_OUT_OF_MEMORY_H_
#define ADJOIN_WORKER_SESSION_OUT_OF_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/process_memory.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct MemoryLimits {
  int64_t limit = 0;  // of the process (RLIMIT_DATA), in bytes; 0: none
  ProcessMemory process;
  MachineMemory machine;
};
MemoryLimits MemoryLimitsNow();

// True where the host's memory was not enough, as LibTorch, its allocator (primitives/tensor_memory.h) or the C++
// library tells it. A GPU's own errors say what there is.
bool IsOutOfMemory(const absl::Status& status);

// Returns kResourceExhausted. `status`: IsOutOfMemory; may begin with what ran, as "layer \"conv1\" on rank 0: ".
absl::Status ExplainOutOfMemory(const absl::Status& status, const Plan& plan, int rank, const MemoryLimits& memory);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_OUT_OF_MEMORY_H_
