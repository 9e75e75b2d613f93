// Memory that a transport may read or write, wherever it is.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_

#include <cstddef>
#include <memory>

namespace adjoin {

enum class MemoryKind {
  kHost,
  kPinnedHost,
  kCuda,
  kFakeDevice,  // for tests: memory that the host may not touch (fake_device.h)
};

// A span of memory. It does not own the memory, but `keepalive` holds its owner: a transport keeps it until the
// operation is over, also when the operation is abandoned by an abort and the transport cannot take the request back.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;              // index of the device for kCuda and kFakeDevice
  void* ready_event = nullptr;  // device event to wait for before the memory may be used; null for host memory
  std::shared_ptr<void> keepalive;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_
