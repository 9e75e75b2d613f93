// Memory that a transport may read or write, wherever it is.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_

#include <cstddef>
#include <memory>

#include "primitives/device/device.h"

namespace adjoin {

// A span of memory. It does not own the memory, but `keepalive` holds its owner: a transport keeps it until the
// operation is over, also when the operation is abandoned by an abort and the transport cannot take the request back.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  // Memory of a device: the stream on which the work is queued that makes a message, or uses it. A transport reads or
  // writes the memory only after what was queued there before StartSend or StartRecv, and what is queued there after
  // Wait sees what was received. Null: the memory may be used at once (host memory, always).
  std::shared_ptr<DeviceStream> stream;
  std::shared_ptr<void> keepalive;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_BUFFER_H_
