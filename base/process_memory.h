// The memory of this process, also where none is left: nothing is allocated.
//
//   const ProcessMemory memory = ProcessMemoryInUse();
//   memory.data;     // bytes that RLIMIT_DATA counts
#ifndef ADJOIN_BASE_PROCESS_MEMORY_H_
#define ADJOIN_BASE_PROCESS_MEMORY_H_

#include <cstdint>

namespace adjoin {

// In bytes; 0: the system does not tell.
struct ProcessMemory {
  int64_t data = 0;           // what RLIMIT_DATA counts: heap, anonymous mappings
  int64_t most_resident = 0;  // the highest that was in the machine's memory at once
};

// Any thread.
ProcessMemory ProcessMemoryInUse();

// The memory of the machine, likewise.
struct MachineMemory {
  int64_t total = 0;
  int64_t available = 0;  // without swapping
};
MachineMemory MachineMemoryNow();

}  // namespace adjoin

#endif  // ADJOIN_BASE_PROCESS_MEMORY_H_
