// A GPU of NVIDIA's, through CUDA's driver.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, CudaDevice::Open(driver, 0));
//
// It uses the device's primary context, which it shares with LibTorch, UCX and every other library of the process:
// memory and streams of theirs can be given to it, and its own to them.
//
// What waits for the device beside Synchronize, by the driver's own rules: allocating and freeing memory, pinned memory
// too, and a copy from or to host memory that is not pinned. No step of a training does any of them.
//
// Threads: any thread may call anything at any time. A call leaves the device's context current in its thread, so a
// thread of a library that works on another GPU had better not call.
#ifndef ADJOIN_PRIMITIVES_DEVICE_CUDA_DEVICE_H_
#define ADJOIN_PRIMITIVES_DEVICE_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/device/device.h"

namespace adjoin {

struct CudaDeviceInfo {
  int index = 0;
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::string pci_bus_id;  // "0000:1b:00.0"
  std::string uuid;        // "8d3c...", 36 characters: what nvidia-smi prints after "GPU-" or "MIG-"
  int64_t memory_bytes = 0;

  friend bool operator==(const CudaDeviceInfo& a, const CudaDeviceInfo& b) {
    return a.index == b.index && a.name == b.name && a.pci_bus_id == b.pci_bus_id && a.uuid == b.uuid &&
           a.memory_bytes == b.memory_bytes;
  }
};

// Returns the devices that the process sees (CUDA_VISIBLE_DEVICES), in their order, without making a context on any.
// Errors: as CudaDriver::Check.
absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaDriver& driver);

// Returns the bytes of a device that no process uses. Where this process has no context on the device it makes one for
// the moment, which takes some tenths of a second and counts as used itself. Errors: as CudaDevice::Open.
absl::StatusOr<int64_t> FreeBytesOfCudaDevice(std::shared_ptr<const CudaDriver> driver, int index);

class CudaDevice : public Device {
 public:
  // Retains the device's primary context for as long as the device, a stream, an event or memory of it is there.
  // Errors: kNotFound (no device `index`), kFailedPrecondition (a device without unified addresses), as
  // CudaDriver::Check.
  static absl::StatusOr<std::shared_ptr<Device>> Open(std::shared_ptr<const CudaDriver> driver, int index);

  MemoryKind kind() const override { return MemoryKind::kCuda; }
  int index() const override;
  std::string name() const override;
  int64_t memory_bytes() const override;

  // A stream that does not wait for the default stream.
  absl::StatusOr<std::shared_ptr<DeviceStream>> CreateStream() override;
  absl::StatusOr<std::shared_ptr<DeviceStream>> StreamOf(void* native_handle) override;

  absl::StatusOr<DeviceAllocation> Allocate(std::size_t bytes) override;
  // Pinned for all devices of the process.
  absl::StatusOr<DeviceAllocation> AllocatePinned(std::size_t bytes) override;
  // kCuda also for memory of another GPU, and for managed memory.
  absl::StatusOr<MemoryKind> KindOf(const void* address) const override;

  int64_t synchronizations() const override;

 private:
  class State;  // what streams, events and memory share with the device
  class PooledEvent;
  class StreamOnDevice;

  explicit CudaDevice(std::shared_ptr<State> state) : state_(std::move(state)) {}

  friend absl::StatusOr<int64_t> FreeBytesOfCudaDevice(std::shared_ptr<const CudaDriver> driver, int index);

  const std::shared_ptr<State> state_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_CUDA_DEVICE_H_
