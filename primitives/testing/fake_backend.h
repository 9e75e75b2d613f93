// LibTorch on the fake device (primitives/device/fake_device.h): whole networks run "on an accelerator" in tests, on
// machines without one.
//
//   RegisterFakeBackend();
//   FakeDevice::Get(1).SetDelays(seed, absl::Microseconds(200));
//   const at::Tensor x = at::randn({8, 3, 32, 32}).to(at::Device(at::kPrivateUse1, 1));
//   const at::Tensor y = at::conv2d(x, weight_on_the_same_device);   // queued on the current stream
//   const int64_t before = FakeDevice::Get(1).synchronizations();
//   const double sum = y.sum().item<double>();                       // waits, and counts that
//
// Tensors of device (at::kPrivateUse1, i), i below FakeDevice::kCount, live in memory that ends the program when the
// host touches it, so a kernel for the CPU that is given one by mistake cannot go unnoticed. Work is queued on the
// current stream of the calling thread (c10::StreamGuard) and done later, after the device's random delays. Work on
// another stream must wait for an event (c10::Event), or it sees what was there before: old values or 0xff. Memory is
// used again as CUDA's allocator does (fake_memory.h).
//
// Every operator that LibTorch has for the CPU works, by the same kernel, so results have the same bits
// (fake_fallback.h). Tensors of different devices in one operator are refused as a real device refuses them. Counted as
// synchronizations: copies to the host (but those to pinned memory with non_blocking), .item(), operators whose
// results' shapes depend on values (nonzero, masked_select, indices that are masks), and those of c10::Stream. A copy
// from pageable memory of the host is not: it is read at once, and the rest queued.
//
// Pinned memory: tensor.pin_memory(at::Device(at::kPrivateUse1, 0)).
//
// With LibTorch 1.13 the nodes of a backward pass run on the default streams of a thread of LibTorch's per device
// index, whatever stream was current in the forward pass. Ranks that are threads of a test thus take a device each.
//
// Bits differ from the CPU's in two cases that are LibTorch's own: gradients of gradients, where three and more are
// added (nodes are numbered by thread, and added in that order), and convolutions by a thread that has not called
// at::init_num_threads().
#ifndef ADJOIN_PRIMITIVES_TESTING_FAKE_BACKEND_H_
#define ADJOIN_PRIMITIVES_TESTING_FAKE_BACKEND_H_

#include <c10/core/Stream.h>

#include "primitives/device/fake_device.h"

namespace adjoin {

// Once per process; further calls do nothing. Any thread, before the process's first backward pass (LibTorch makes its
// threads for devices then).
void RegisterFakeBackend();

// The stream behind one of LibTorch's.
FakeStream& FakeStreamOf(const c10::Stream& stream);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_FAKE_BACKEND_H_
