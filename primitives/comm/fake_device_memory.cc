#include "primitives/comm/fake_device_memory.h"

#include "base/status_macros.h"

namespace adjoin {
namespace {

// The address at which the device touches rows that begin at `address`.
absl::StatusOr<FakeDevice::Span> View(const void* address, int64_t element_bytes, int64_t stride, const Rows& rows) {
  return FakeDevice::View(address,
                          static_cast<std::size_t>(((rows.rows - 1) * stride + rows.row_elements) * element_bytes));
}

}  // namespace

absl::StatusOr<Buffer> FakeDeviceMemory::Allocate(int64_t bytes) {
  ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation memory, device_->Allocate(static_cast<std::size_t>(bytes)));
  Buffer buffer;
  buffer.data = memory.data;
  buffer.bytes = memory.bytes;
  buffer.kind = MemoryKind::kFakeDevice;
  buffer.stream = stream_;
  buffer.keepalive = std::move(memory.keepalive);
  return buffer;
}

absl::Status FakeDeviceMemory::Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) {
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span source, View(from, element_bytes, rows.from_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span target, View(onto, element_bytes, rows.onto_stride, rows));
  device_->default_stream().Launch(
      [=] { HostMemory().Copy(element_bytes, source.data, target.data, rows).IgnoreError(); });
  return absl::OkStatus();
}

absl::Status FakeDeviceMemory::Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                                       const Rows& rows) {
  // A type without the operation is refused at once, by the same arithmetic on no rows.
  ADJOIN_RETURN_IF_ERROR(HostMemory().Combine(op, dtype, nullptr, nullptr, nullptr, {.rows = 0, .row_elements = 0}));
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  const int64_t element_bytes = SizeOf(dtype);
  ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span a, View(from, element_bytes, rows.from_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span b, View(with, element_bytes, rows.onto_stride, rows));
  ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span c, View(onto, element_bytes, rows.onto_stride, rows));
  device_->default_stream().Launch(
      [=] { HostMemory().Combine(op, dtype, a.data, b.data, c.data, rows).IgnoreError(); });
  return absl::OkStatus();
}

}  // namespace adjoin
