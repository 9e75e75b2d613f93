#include "primitives/transport/pinned_pool.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostWaste = 4;  // times what was asked for
constexpr int64_t kMostKept = 8;       // times the most that is given where it may be refused

}  // namespace

// An event that fails never becomes done: its block is not used again.
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

absl::StatusOr<PinnedPool::Block> PinnedPool::Take(std::size_t bytes, bool always) {
  std::size_t length = kSmallest;
  while (length < bytes) length *= 2;
  if (!always && taken_ > 0 && taken_ + static_cast<int64_t>(length) > most_bytes_) return Block();
  auto best = blocks_.end();
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    if (it->memory.bytes < length || it->memory.bytes > kMostWaste * length) continue;
    if (best != blocks_.end() && best->memory.bytes <= it->memory.bytes) continue;
    if (Free(*it)) best = it;
  }
  Block block;
  if (best != blocks_.end()) {
    block.memory = std::move(best->memory);
    kept_ -= static_cast<int64_t>(block.memory.bytes);
    *best = std::move(blocks_.back());
    blocks_.pop_back();
  } else {
    ADJOIN_ASSIGN_OR_RETURN(block.memory, device_->AllocatePinned(length));
  }
  taken_ += static_cast<int64_t>(block.memory.bytes);
  return block;
}

void PinnedPool::Give(Block block, std::shared_ptr<DeviceEvent> used) {
  block.used = std::move(used);
  const int64_t bytes = static_cast<int64_t>(block.memory.bytes);
  taken_ -= bytes;
  kept_ += bytes;
  blocks_.push_back(std::move(block));
  // The longest kept go first. Receives may use more than `most_bytes`, step after step: what they use stays.
  for (auto it = blocks_.begin(); kept_ > kMostKept * most_bytes_ && it != blocks_.end();) {
    if (!Free(*it)) {
      ++it;
      continue;
    }
    kept_ -= static_cast<int64_t>(it->memory.bytes);
    it = blocks_.erase(it);
  }
}

}  // namespace adjoin
