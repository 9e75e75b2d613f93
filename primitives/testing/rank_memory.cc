#include "primitives/testing/rank_memory.h"

#include <utility>

#include "base/status_macros.h"
#include "primitives/autograd_threads.h"
#include "primitives/device/device.h"
#include "primitives/exact_arithmetic.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/fake_backend.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LocalMemory>> MemoryOfRank(TransportKind kind, int rank, uint64_t seed) {
  RunBackwardInThisThread();
  UseExactArithmetic();
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, DeviceOfRank(kind, rank, seed));
  if (device == nullptr) return std::make_unique<HostMemory>();
  const c10::DeviceType type = device->kind() == MemoryKind::kCuda ? c10::kCUDA : c10::kPrivateUse1;
  if (type == c10::kPrivateUse1) RegisterFakeBackend();
  const c10::Device tensors(type, static_cast<c10::DeviceIndex>(device->index()));
  return std::make_unique<TensorDeviceMemory>(tensors, std::move(device));
}

}  // namespace adjoin
