#include "primitives/transport/pinned_pool.h"

#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostWaste = 4;  // times what was asked for

}  // namespace

// An event that fails never becomes done: its memory is not used again.
bool PinnedPool::Free(const Block& block) {
  if (block.used == nullptr) return true;
  const absl::StatusOr<bool> done = block.used->Done();
  return done.ok() && *done;
}

PinnedPool::~PinnedPool() {
  const Deadline deadline = Deadline::After(absl::Seconds(1));
  for (Block& block : blocks_) {
    while (!Free(block) && !deadline.Expired()) std::this_thread::yield();
    if (!Free(block)) new DeviceAllocation(std::move(block.memory));  // the device may still write to it
  }
}

absl::StatusOr<DeviceAllocation> PinnedPool::Take(std::size_t bytes) {
  std::size_t length = kSmallest;
  while (length < bytes) length *= 2;
  auto best = blocks_.end();
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    if (it->memory.bytes < length || it->memory.bytes > kMostWaste * length) continue;
    if (best != blocks_.end() && best->memory.bytes <= it->memory.bytes) continue;
    if (Free(*it)) best = it;
  }
  if (best == blocks_.end()) return device_->AllocatePinned(length);
  DeviceAllocation memory = std::move(best->memory);
  *best = std::move(blocks_.back());
  blocks_.pop_back();
  return memory;
}

void PinnedPool::Give(DeviceAllocation memory, std::shared_ptr<DeviceEvent> used) {
  blocks_.push_back({std::move(memory), std::move(used)});
}

}  // namespace adjoin
