// A device for tests without one: memory that crashes the program when the host touches it.
//
//   FakeDevice device;
//   ADJOIN_ASSIGN_OR_RETURN(Buffer on_device, device.Allocate(1024));
//   device.CopyIn(on_device, values.data());       // what a copy from host to device is
//   transport.StartSend(peer, tag, on_device);     // the in-memory transport copies through the device's own view
//
// Threads: any thread may call anything at any time.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class FakeDevice {
 public:
  FakeDevice() : registry_(std::make_shared<Registry>()) {}

  // Memory of kind kFakeDevice, zeroed, freed with its `keepalive`. Errors: kResourceExhausted.
  absl::StatusOr<Buffer> Allocate(std::size_t bytes);

  // Where this process may touch the memory of `buffer`: its own pointer for host memory; the device's own mapping for
  // this device's memory. Errors: kInvalidArgument (neither, or a span that leaves its allocation).
  absl::StatusOr<char*> View(const Buffer& buffer) const;

  // Copies all of the buffer's bytes. Errors: as View.
  absl::Status CopyIn(const Buffer& to, const void* from) const;
  absl::Status CopyOut(void* to, const Buffer& from) const;

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

  std::shared_ptr<Registry> registry_;  // also held by the memory's keepalives
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_FAKE_DEVICE_H_
