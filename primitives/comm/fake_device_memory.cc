#include "primitives/comm/fake_device_memory.h"

#include "base/status_macros.h"
#include "primitives/transport/fake_device.h"

namespace adjoin {

absl::StatusOr<Buffer> FakeDeviceMemory::Allocate(int64_t bytes) {
  if (bytes == 0) {
    Buffer nothing;
    nothing.kind = MemoryKind::kFakeDevice;
    return nothing;
  }
  return FakeDevice::Allocate(static_cast<std::size_t>(bytes));
}

absl::StatusOr<char*> FakeDeviceMemory::View(const void* address, int64_t element_bytes, int64_t stride,
                                             const Rows& rows) const {
  Buffer span;
  span.data = const_cast<void*>(address);
  span.bytes = static_cast<std::size_t>(((rows.rows - 1) * stride + rows.row_elements) * element_bytes);
  span.kind = MemoryKind::kFakeDevice;
  return FakeDevice::View(span);
}

absl::Status FakeDeviceMemory::Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) {
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const char* source, View(from, element_bytes, rows.from_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(char* target, View(onto, element_bytes, rows.onto_stride, rows));
  return arithmetic_.Copy(element_bytes, source, target, rows);
}

absl::Status FakeDeviceMemory::Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                                       const Rows& rows) {
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  const int64_t element_bytes = SizeOf(dtype);
  ADJOIN_ASSIGN_OR_RETURN(const char* a, View(from, element_bytes, rows.from_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(const char* b, View(with, element_bytes, rows.onto_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(char* c, View(onto, element_bytes, rows.onto_stride, rows));
  return arithmetic_.Combine(op, dtype, a, b, c, rows);
}

}  // namespace adjoin
