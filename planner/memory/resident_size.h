// How much of a machine's memory the process of a rank takes: its tensors, and what it needs besides them.
//
//   ADJOIN_ASSIGN_OR_RETURN(const RankMemory memory, PredictLargestMemory(plan));
//   ADJOIN_ASSIGN_OR_RETURN(const ResidentSize size, PredictResidentSize(plan, memory));
//   size.total;      // what the kernel reports as VmHWM when the job has trained for a while
//
// Pure. Measured, not derived: the constants are in resident_size.cc, with what they were measured on. How far off the
// prediction is, and where, is in docs/performance.md.
#ifndef ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_
#define ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/memory/step_memory.h"
#include "proto/plan.pb.h"

namespace adjoin {

// In bytes.
struct ResidentSize {
  int64_t total = 0;    // the process at its worst moment
  int64_t program = 0;  // of it: code, libraries, threads, connections, and what the heap holds between tensors
  // The part of `program` that ranks of one node share for short messages (primitives/transport/shared_arena.h). At
  // most: as if all ranks were on one node, and this one moved as much as the busiest.
  int64_t shared = 0;
};

// `memory`: of the rank. With a GPU the tensors are there, and not in the process. Errors: as LayoutFromProto.
absl::StatusOr<ResidentSize> PredictResidentSize(const Plan& plan, const RankMemory& memory);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_
