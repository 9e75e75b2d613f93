// How much of a machine's memory the process of a rank takes: its tensors, and what it needs besides them.
//
//   ADJOIN_ASSIGN_OR_RETURN(const RankMemory memory, PredictLargestMemory(plan));
//   const ResidentSize size = PredictResidentSize(plan.spec(), memory.bytes);
//   size.total;      // what the kernel reports as VmHWM when the job has trained for a while
//
// Pure. Measured, not derived: the constants are in resident_size.cc, with what they were measured on. Over the jobs of
// tests/predict/resident_test.cc the prediction is at most 10 % and 24 MiB off.
#ifndef ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_
#define ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace adjoin {

// In bytes.
struct ResidentSize {
  int64_t total = 0;    // the process at its worst moment
  int64_t program = 0;  // of it: code, libraries, threads, connections, buffers of messages
};

// `tensor_bytes`: of the rank's tensors at the worst moment (RankMemory::bytes). With a GPU the tensors are there, and
// the process has a copy of the batch at most.
ResidentSize PredictResidentSize(const JobSpec& spec, int64_t tensor_bytes);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_RESIDENT_SIZE_H_
