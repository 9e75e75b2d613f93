// The host as a device: memory is the host's, and everything is done before the call returns. For programs that run the
// same code without an accelerator, and the simplest example of a Device.
//
//   const std::shared_ptr<Device> device = HostDevice::Create();
//
// Threads: any thread may call anything at any time.
#ifndef ADJOIN_PRIMITIVES_DEVICE_HOST_DEVICE_H_
#define ADJOIN_PRIMITIVES_DEVICE_HOST_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/device/device.h"

namespace adjoin {

class HostDevice : public Device {
 public:
  static std::shared_ptr<Device> Create();

  MemoryKind kind() const override { return MemoryKind::kHost; }
  int index() const override { return 0; }
  std::string name() const override { return "host"; }
  int64_t memory_bytes() const override;  // 0 where the system does not say

  absl::StatusOr<std::shared_ptr<DeviceStream>> CreateStream() override;
  // Errors: kInvalidArgument (a handle that is not null: no library makes streams of the host).
  absl::StatusOr<std::shared_ptr<DeviceStream>> StreamOf(void* native_handle) override;

  // Memory at a multiple of 64 bytes, whatever the kind. Errors: kResourceExhausted.
  absl::StatusOr<DeviceAllocation> Allocate(std::size_t bytes) override;
  absl::StatusOr<DeviceAllocation> AllocatePinned(std::size_t bytes) override { return Allocate(bytes); }
  absl::StatusOr<MemoryKind> KindOf(const void* address) const override { return MemoryKind::kHost; }

  int64_t synchronizations() const override { return *synchronizations_; }

 private:
  HostDevice() = default;

  const std::shared_ptr<std::atomic<int64_t>> synchronizations_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_HOST_DEVICE_H_
