// Runs LibTorch's operators for the CPU on tensors of the fake device. Part of fake_backend.h, which is what programs
// include.
//
//   library.impl(name, torch::CppFunction::makeFromBoxedFunction<&RunHostKernel>());
//
// The host waits for the current stream (other streams are not waited for), computes on a view of the inputs' memory,
// into memory of its own, and queues on the current stream the copies that bring results, in-place arguments and out
// arguments to the device. So results appear later, as those of a real device do.
//
// Threads: any.
#ifndef ADJOIN_PRIMITIVES_TESTING_FAKE_FALLBACK_H_
#define ADJOIN_PRIMITIVES_TESTING_FAKE_FALLBACK_H_

#include <functional>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "primitives/device/fake_device.h"

namespace adjoin {

// Errors: c10::Error for tensors of different devices, as a real device has it, and all that the operator itself has.
void RunHostKernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Sets sizes, strides and offset of a tensor on the device. Its storage gets more memory where it has too little, and
// keeps what it holds.
void SetFakeGeometry(const at::Tensor& on_device, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);

// Queues on the device's current stream: on_device = host, two tensors of one shape and any types. `host` does not
// change any more. The memory on the device may be freed before the copy is done.
void WriteToFakeDevice(const at::Tensor& on_device, const at::Tensor& host);

// A kernel: queued on `stream`, done on tensors that HostViewOf made, outside of autograd.
void LaunchOnHostViews(FakeStream& stream, std::function<void()> kernel);

// Waits for the current stream and counts that (Device::synchronizations).
void SynchronizeFakeStream(c10::DeviceIndex index);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_FAKE_FALLBACK_H_
