// Streams and events of the fake device (primitives/device/fake_device.h) as LibTorch's device guards want them. Part
// of fake_backend.h, which is what programs include.
//
//   FakeStream& stream = CurrentFakeStream(device.index());   // of this thread
//   c10::Event event(at::kPrivateUse1);                       // through FakeGuard()
//
// The id of a c10::Stream is 0 for a device's default stream, and counts those that were made later. Streams live as
// long as the process.
//
// Threads: any. The current device and the current streams belong to a thread.
#ifndef ADJOIN_PRIMITIVES_TESTING_FAKE_STREAMS_H_
#define ADJOIN_PRIMITIVES_TESTING_FAKE_STREAMS_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "primitives/device/fake_device.h"

namespace adjoin {

// Index of the current device.
c10::DeviceIndex CurrentFakeDevice();
// Makes `index` current and returns the one before. Throws c10::Error for a device that is not there.
c10::DeviceIndex ExchangeFakeDevice(c10::DeviceIndex index);

c10::StreamId CurrentFakeStreamId(c10::DeviceIndex index);
FakeStream& CurrentFakeStream(c10::DeviceIndex index);
FakeStream& FakeStreamOf(const c10::Stream& stream);

// Waits for all streams that were used, uncounted: LibTorch, whose operators their kernels call, ends before the
// threads.
void DrainFakeStreams();

// What LibTorch's guards, streams and events of at::kPrivateUse1 call.
const c10::impl::DeviceGuardImplInterface& FakeGuard();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TESTING_FAKE_STREAMS_H_
