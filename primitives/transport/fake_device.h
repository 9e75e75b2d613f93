// A device for tests on machines without one: memory that crashes the program when the host touches it. A process has
// one such device; every FakeDevice is that one.
//
//   FakeDevice device;
//   ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(2, {.seed = 0, .delay = false, .view = device.View}));
//   ADJOIN_ASSIGN_OR_RETURN(Buffer on_device, device.Allocate(1024));
//   device.CopyIn(on_device, values.data());       // as a copy from the host to a device
//   transport.StartSend(peer, tag, on_device);     // the fabric's transports copy through the device's own view
//
// Threads: any thread may call anything at any time.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_

#include <cstddef>
#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class FakeDevice {
 public:
  // Memory of kind kFakeDevice, zeroed, freed with its `keepalive`. Errors: kResourceExhausted.
  static absl::StatusOr<Buffer> Allocate(std::size_t bytes);

  // The address at which this process may touch the memory of `buffer`: its own pointer for host memory; the device's
  // own mapping for the device's memory. Errors: kInvalidArgument (neither, or a span that leaves its allocation).
  static absl::StatusOr<char*> View(const Buffer& buffer);

  // Copies all of the buffer's bytes. Errors: as View.
  static absl::Status CopyIn(const Buffer& to, const void* from);
  static absl::Status CopyOut(void* to, const Buffer& from);

 private:
  // The same pages twice: at an address without any access, which users see, and at one for the device itself.
  struct Allocation {
    char* view = nullptr;
    std::size_t bytes = 0;
  };
  struct Registry {
    std::mutex mutex;
    std::map<char*, Allocation> allocations;  // by the address that users see; guarded by mutex
  };
  static Registry& TheRegistry();
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_
