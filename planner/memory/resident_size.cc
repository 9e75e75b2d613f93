#include "planner/memory/resident_size.h"

#include <algorithm>

namespace adjoin {
namespace {

// Code and data of the program and its libraries, LibTorch's registries, the threads' stacks as far as they are used.
constexpr int64_t kProgram = int64_t{150} << 20;
// The driver's own, of a process that uses a GPU.
constexpr int64_t kDriver = int64_t{1} << 30;
// Each connection to another rank: its queues, and shared memory for its messages. A rank is connected with all others,
// but of many it talks to few, and the memory of the rest is never touched.
constexpr int64_t kPeer = int64_t{6} << 20;
constexpr int64_t kMostPeers = 26;

}  // namespace

ResidentSize PredictResidentSize(const JobSpec& spec, int64_t tensor_bytes) {
  const bool with_gpu = spec.resources().gpus() > 0;
  ResidentSize size;
  size.program = kProgram + (with_gpu ? kDriver : 0) + kPeer * std::min<int64_t>(int64_t{spec.ranks()} - 1, kMostPeers);
  size.total = size.program + (with_gpu ? 0 : tensor_bytes);
  return size;
}

}  // namespace adjoin
