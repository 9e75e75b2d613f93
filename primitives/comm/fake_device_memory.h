// The memory of a fake device, for tests: what is queued there runs later, and an access by the host ends the test.
//
//   FakeDeviceMemory memory(&FakeDevice::Get(0));
//   Communicator communicator(&transport, &memory, {});
#ifndef ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_
#define ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/local_memory.h"
#include "primitives/device/fake_device.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class FakeDeviceMemory : public LocalMemory {
 public:
  explicit FakeDeviceMemory(FakeDevice* device) : device_(device), stream_(*device->StreamOf(nullptr)) {}

  MemoryKind kind() const override { return MemoryKind::kFakeDevice; }
  std::shared_ptr<DeviceStream> stream() const override { return stream_; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override;
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override;
  absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                       const Rows& rows) override;

 private:
  FakeDevice* const device_;
  const std::shared_ptr<DeviceStream> stream_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_
