// An accelerator, its memory and its streams, whoever made it: a GPU through its driver (cuda_device.h), the host
// itself (host_device.h), or the fake one of the tests (fake_device.h). Work that is queued on a stream runs later, in
// the order in which it was queued; what is on different streams runs in any order, but where one waits for an event of
// another.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> stream, device.CreateStream());
//   ADJOIN_RETURN_IF_ERROR(stream->Copy(on_device.data, pinned.data, bytes));    // returns at once
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> copied, stream->Record());
//   ADJOIN_RETURN_IF_ERROR(other->WaitFor(*copied));   // what is queued on `other` from now on runs after the copy
//   ADJOIN_ASSIGN_OR_RETURN(const bool done, copied->Done());                    // does not wait, either
//
// Nothing here waits for the device but Synchronize, which no step of a training calls: each device counts its calls.
// Taking and freeing memory may wait, and so may a copy of host memory that is not pinned.
//
// Memory, streams and events may outlive the device's object, and what is queued runs also where its stream is dropped.
//
// Threads: any thread may call anything at any time. Errors of a device name the call, the device and its own words:
// kResourceExhausted (memory), kUnavailable (the device was lost), kInvalidArgument (rows that overlap, an event of
// another kind of device), kInternal (all else).
#ifndef ADJOIN_PRIMITIVES_DEVICE_DEVICE_H_
#define ADJOIN_PRIMITIVES_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

enum class MemoryKind {
  kHost,
  kPinnedHost,  // host memory that a device copies to and from while its stream runs on
  kCuda,
  kFakeDevice,  // for tests: memory that the host may not touch (fake_device.h)
};

std::string ToString(MemoryKind kind);  // "host memory", "CUDA memory", ...

// A point in the work of a stream: everything that was queued there before it was recorded.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // True once the work is done; never waits. Errors: the first error of the device's work.
  virtual absl::StatusOr<bool> Done() const = 0;
};

class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  virtual absl::StatusOr<std::shared_ptr<DeviceEvent>> Record() = 0;
  // Work that is queued on this stream from now on runs after `event`, which is one of the same kind of device.
  virtual absl::Status WaitFor(const DeviceEvent& event) = 0;

  // Copies between memory of the device, pinned memory and, where the device can, other host memory. The two spans do
  // not overlap and stay valid until the copy is done.
  virtual absl::Status Copy(void* to, const void* from, std::size_t bytes) = 0;
  // Copies `rows` spans of `row_bytes` bytes whose beginnings are `to_pitch` and `from_pitch` bytes apart.
  virtual absl::Status CopyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t row_bytes, std::size_t rows) = 0;
  virtual absl::Status Set(void* to, unsigned char value, std::size_t bytes) = 0;

  // Waits for all that was queued: for the ends of programs and for tests.
  virtual absl::Status Synchronize() = 0;
};

// Memory of a device, or pinned memory of the host: freed with the last copy of `keepalive`.
struct DeviceAllocation {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> keepalive;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual MemoryKind kind() const = 0;   // of its memory; kHost for the host itself
  virtual int index() const = 0;         // among the devices of its kind that this process sees
  virtual std::string name() const = 0;  // for people: "NVIDIA H100 80GB HBM3"
  virtual int64_t memory_bytes() const = 0;

  virtual absl::StatusOr<std::shared_ptr<DeviceStream>> CreateStream() = 0;
  // The stream that another library made, by that library's handle of it ("CUstream"; null: the default stream). The
  // handle outlives it.
  virtual absl::StatusOr<std::shared_ptr<DeviceStream>> StreamOf(void* native_handle) = 0;

  // No bytes give a null pointer.
  virtual absl::StatusOr<DeviceAllocation> Allocate(std::size_t bytes) = 0;
  virtual absl::StatusOr<DeviceAllocation> AllocatePinned(std::size_t bytes) = 0;
  // Whose memory an address is in; kHost for one that the device knows nothing of.
  virtual absl::StatusOr<MemoryKind> KindOf(const void* address) const = 0;

  // Calls of Synchronize on all streams so far.
  virtual int64_t synchronizations() const = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_DEVICE_H_
