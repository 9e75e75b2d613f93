// Pinned memory that is used again: taking it from a device costs milliseconds.
//
//   PinnedPool pool(&device, /*most_bytes=*/256 << 20);
//   ADJOIN_ASSIGN_OR_RETURN(PinnedPool::Block block, pool.Take(bytes));   // no data: there is no room now
//   ...
//   pool.Give(std::move(block), copied);   // used again once `copied` is done; null: at once
//
// One thread.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/device/device.h"

namespace adjoin {

class PinnedPool {
 public:
  struct Block {
    DeviceAllocation memory;            // its length is a power of two
    std::shared_ptr<DeviceEvent> used;  // set in the pool
  };

  // `device` outlives the pool.
  PinnedPool(Device* device, int64_t most_bytes) : device_(device), most_bytes_(most_bytes) {}
  // Waits for copies that still use its memory, a second at most; what is in use then is never freed.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Memory of at least `bytes`, more than none. A block without data where the blocks in use would have more than
  // `most_bytes`, unless there are none, or `always`. Errors: the device's.
  absl::StatusOr<Block> Take(std::size_t bytes, bool always = false);
  void Give(Block block, std::shared_ptr<DeviceEvent> used);
  // For a block that somebody may still use: it is freed with its last keepalive, and never used again.
  void Lose(Block block) { taken_ -= static_cast<int64_t>(block.memory.bytes); }

  int64_t bytes_taken() const { return taken_; }

 private:
  static bool Free(const Block& block);

  Device* const device_;
  const int64_t most_bytes_;
  int64_t taken_ = 0;  // bytes of the blocks in use
  int64_t kept_ = 0;   // and of those in the pool
  std::vector<Block> blocks_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_
