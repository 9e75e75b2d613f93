// Memory of the fake device for LibTorch's tensors, and tensors through which the host sees it. Part of fake_backend.h,
// which is what programs include.
//
// As CUDA's allocator, this one keeps freed memory for the stream that was current when it was allocated, and gives it
// away at once, although work that uses it may still be queued there: what is queued next comes later anyway. Another
// stream that uses it must have been recorded (c10::impl::VirtualGuardImpl::recordDataPtrOnStream), or it sees what the
// next owner writes. Fresh memory has 0xff in all bytes, memory that is used again what was left there.
//
// Threads: any.
#ifndef ADJOIN_PRIMITIVES_TESTING_FAKE_MEMORY_H_
#define ADJOIN_PRIMITIVES_TESTING_FAKE_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace adjoin {

// Allocators of the current device's memory, and of pinned memory of the host.
c10::Allocator* FakeMemoryAllocator();
c10::Allocator* FakePinnedAllocator();

// The memory is not given away before what is queued on `stream` when it is freed has been done.
void RecordFakeMemoryUse(const c10::DataPtr& data, const c10::Stream& stream);

// The same cells as those of a tensor or storage on the fake device, where the host may touch them. They stay mapped,
// but may belong to another tensor once the one on the device is gone.
c10::Storage HostViewOf(const c10::Storage& on_device);
at::Tensor HostViewOf(const at::Tensor& on_device);
// A tensor of the host over `storage`, with all else as `tensor` has it.
at::Tensor HostTensorOver(c10::Storage storage, const at::Tensor& tensor);

inline bool OnFakeDevice(const at::Tensor& tensor) { return tensor.device().type() == c10::DeviceType::PrivateUse1; }

// A new tensor on a device, its memory as it is found.
at::Tensor EmptyOnFakeDevice(c10::DeviceIndex index, at::IntArrayRef sizes, at::IntArrayRef strides,
                             at::ScalarType type);

// The bytes of its storage that a tensor spans.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
ByteRange BytesOf(const at::Tensor& tensor);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_FAKE_MEMORY_H_
