// Lets a test written for host memory run on the fake device: every message leaves from the device's memory and arrives
// there.
//
//   std::unique_ptr<Transport> on_device = OnDevice(std::move(in_memory_transport), &fabric->fake_device());
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_

#include <memory>

#include "primitives/transport/fake_device.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// As `inner`, with host memory for its users: what is sent is first copied to `device` (which outlives the result, and
// whose memory `inner` can move), and what is received is copied from there by Wait.
std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner, FakeDevice* device);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
