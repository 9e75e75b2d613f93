#include "primitives/tensor_device.h"

#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "absl/strings/str_cat.h"
#include "primitives/libtorch_versions.h"
#include "primitives/status_exception.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

// Elements of this many bytes, whatever they mean.
c10::ScalarType BitsOf(int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return at::kByte;
    case 2: return at::kShort;
    case 4: return at::kInt;
    case 8: return at::kLong;
    default: return at::kComplexDouble;
  }
}

// Runs LibTorch's operators, whose errors are exceptions.
template <typename F>
absl::Status Run(F operators) {
  try {
    const at::NoGradGuard no_grad;
    operators();
    return absl::OkStatus();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

void CombineTensors(ReduceOp op, const at::Tensor& from, const at::Tensor& with, at::Tensor onto) {
  switch (op) {
    case ReduceOp::kSum: at::add_out(onto, with, from); return;
    case ReduceOp::kMax: at::maximum_out(onto, with, from); return;
    case ReduceOp::kMin: at::minimum_out(onto, with, from); return;
  }
}

absl::Status CheckOrder(ReduceOp op, DType dtype) {
  const bool complex = dtype == DType::kComplex64 || dtype == DType::kComplex128;
  if (op == ReduceOp::kSum || !complex) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(ToString(dtype), " has no order, and so no maximum or minimum"));
}

}  // namespace

absl::StatusOr<MemoryKind> MemoryKindOf(c10::Device device) {
  switch (device.type()) {
    case c10::DeviceType::CPU: return MemoryKind::kHost;
    case c10::DeviceType::CUDA: return MemoryKind::kCuda;
    case c10::DeviceType::PrivateUse1: return MemoryKind::kFakeDevice;
    default:
      return absl::UnimplementedError(absl::StrCat("tensors on ", device.str(), " cannot be moved between ranks"));
  }
}

TensorDeviceMemory::TensorDeviceMemory(c10::Device tensors, std::shared_ptr<Device> device)
    : tensors_(tensors), device_(std::move(device)) {}

std::shared_ptr<DeviceStream> TensorDeviceMemory::stream() const {
  const c10::Stream current = c10::impl::VirtualGuardImpl(tensors_.type()).getStream(tensors_);
  absl::StatusOr<std::shared_ptr<DeviceStream>> stream = device_->StreamOf(NativeHandleOf(current));
  ThrowIfError(stream.status());
  return *std::move(stream);
}

absl::StatusOr<Buffer> TensorDeviceMemory::Allocate(int64_t bytes) {
  Buffer buffer;
  buffer.kind = kind();
  buffer.bytes = static_cast<std::size_t>(bytes);
  if (bytes == 0) return buffer;
  absl::Status status = Run([&] {
    auto tensor = std::make_shared<at::Tensor>(at::empty({bytes}, at::TensorOptions(tensors_).dtype(at::kByte)));
    buffer.data = tensor->data_ptr();
    buffer.keepalive = std::move(tensor);
    buffer.stream = stream();
  });
  if (!status.ok()) return status;
  return buffer;
}

at::Tensor TensorDeviceMemory::View(const void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                                    c10::ScalarType type) const {
  return at::for_blob(const_cast<void*>(data), sizes)
      .strides(strides)
      .options(at::TensorOptions(tensors_).dtype(type))
      .target_device(tensors_)
      .make_tensor();
}

absl::Status TensorDeviceMemory::Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) {
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  const c10::ScalarType type = BitsOf(element_bytes);
  return Run([&] {
    View(onto, {rows.rows, rows.row_elements}, {rows.onto_stride, 1}, type)
        .copy_(View(from, {rows.rows, rows.row_elements}, {rows.from_stride, 1}, type), /*non_blocking=*/true);
  });
}

absl::Status TensorDeviceMemory::Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                                         const Rows& rows) {
  if (absl::Status order = CheckOrder(op, dtype); !order.ok()) return order;
  if (rows.rows == 0 || rows.row_elements == 0) return absl::OkStatus();
  const c10::ScalarType type = ScalarTypeOf(dtype);
  const int64_t sizes[] = {rows.rows, rows.row_elements};
  return Run([&] {
    CombineTensors(op, View(from, sizes, {rows.from_stride, 1}, type), View(with, sizes, {rows.onto_stride, 1}, type),
                   View(onto, sizes, {rows.onto_stride, 1}, type));
  });
}

absl::Status TensorDeviceMemory::Move(std::optional<ReduceOp> op, DType dtype, const void* from, void* onto,
                                      const Cells& cells) {
  if (op.has_value()) {
    if (absl::Status order = CheckOrder(*op, dtype); !order.ok()) return order;
  }
  std::vector<int64_t> sizes, from_strides, onto_strides;
  for (std::size_t i = cells.loops.size(); i-- > 0;) {
    sizes.push_back(cells.loops[i].count);
    from_strides.push_back(cells.loops[i].from_stride);
    onto_strides.push_back(cells.loops[i].onto_stride);
  }
  sizes.push_back(cells.row_elements);
  from_strides.push_back(1);
  onto_strides.push_back(1);
  const c10::ScalarType type = op.has_value() ? ScalarTypeOf(dtype) : BitsOf(SizeOf(dtype));
  return Run([&] {
    const at::Tensor source = View(from, sizes, from_strides, type);
    const at::Tensor target = View(onto, sizes, onto_strides, type);
    if (op.has_value()) {
      CombineTensors(*op, source, target, target);
    } else {
      target.copy_(source, /*non_blocking=*/true);
    }
  });
}

c10::Device TensorDeviceOf(const LocalMemory& memory) {
  const auto* on_device = dynamic_cast<const TensorDeviceMemory*>(&memory);
  return on_device != nullptr ? on_device->tensor_device() : c10::Device(c10::kCPU);
}

}  // namespace adjoin
