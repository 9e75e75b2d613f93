// Pinned memory that is used again: taking it from a device costs milliseconds.
//
//   PinnedPool pool(&device);
//   ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation memory, pool.Take(bytes));
//   ...
//   pool.Give(std::move(memory), copied);   // used again once `copied` is done; null: at once
//
// It keeps what was given back as long as it lives: of lengths that can stand in for each other (within a factor of 4,
// kMostWaste) no more than was in use at one time. Memory that somebody may still use is not given back: it is freed
// with its keepalive. One thread.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/device/device.h"

namespace adjoin {

class PinnedPool {
 public:
  // `device` outlives the pool.
  explicit PinnedPool(Device* device) : device_(device) {}
  // Waits for copies that still use its memory, a second at most; what is in use then is never freed.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Memory of at least `bytes`, a power of two. Errors: the device's.
  absl::StatusOr<DeviceAllocation> Take(std::size_t bytes);
  void Give(DeviceAllocation memory, std::shared_ptr<DeviceEvent> used);

 private:
  struct Block {
    DeviceAllocation memory;
    std::shared_ptr<DeviceEvent> used;
  };
  static bool Free(const Block& block);

  Device* const device_;
  std::vector<Block> blocks_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_PINNED_POOL_H_
