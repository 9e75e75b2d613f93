// Lets a test that was written for host memory run on a device: every message leaves from the device's memory and
// arrives there, in the order of a stream that is never quite done.
//
//   std::unique_ptr<Transport> on_device = OnDevice(std::move(device_transport), device);
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_

#include <memory>

#include "primitives/device/device.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// Returns a transport with host memory for its users: a stream of the device copies what is sent to its memory, which
// `inner` can move, and Wait copies what was received from there.
std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner, std::shared_ptr<Device> device);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
