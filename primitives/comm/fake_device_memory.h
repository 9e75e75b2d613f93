// The fake device's memory, for tests: what the engine does with it goes through the device, so a host access ends the test.
//
//   FakeDeviceMemory memory(&fabric->fake_device());
//   Communicator communicator(&transport, &memory, {});
#ifndef ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_
#define ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/fake_device.h"

namespace adjoin {

class FakeDeviceMemory : public LocalMemory {
 public:
  // `device` outlives this.
  explicit FakeDeviceMemory(FakeDevice* device) : device_(device) {}

  MemoryKind kind() const override { return MemoryKind::kFakeDevice; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override;
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override;
  absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                       const Rows& rows) override;

 private:
  // Where the device touches rows that begin at `address`.
  absl::StatusOr<char*> View(const void* address, int64_t element_bytes, int64_t stride, const Rows& rows) const;

  FakeDevice* const device_;
  HostMemory arithmetic_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_
