// Lets a test written for host memory run on the fake device: every message leaves from the device's memory and arrives
// there.
//
//   std::unique_ptr<Transport> on_device = OnDevice(std::move(in_memory_transport));
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_

#include <memory>

#include "primitives/transport/transport.h"

namespace adjoin {

// Returns a transport with host memory for its users: a buffer that is sent is first copied to the fake device, whose
// memory `inner` can move, and Wait copies what was received from there.
std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_ON_DEVICE_TRANSPORT_H_
