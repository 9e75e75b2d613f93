// The fake device's memory, for tests: the engine reaches it through the device, so an access by the host ends the
// test.
//
//   FakeDeviceMemory memory;
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

namespace adjoin {

class FakeDeviceMemory : public LocalMemory {
 public:
  MemoryKind kind() const override { return MemoryKind::kFakeDevice; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override;
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override;
  absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                       const Rows& rows) override;

 private:
  // Returns the address at which the device touches rows that begin at `address`.
  absl::StatusOr<char*> View(const void* address, int64_t element_bytes, int64_t stride, const Rows& rows) const;

  HostMemory arithmetic_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_FAKE_DEVICE_MEMORY_H_
