#include "primitives/testing/rank_memory.h"

#include <cstdlib>
#include <utility>

#include "base/status_macros.h"
#include "primitives/device/device.h"
#include "primitives/exact_arithmetic.h"
#include "primitives/libtorch_versions.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/fake_backend.h"

namespace adjoin {
namespace {

// LibTorch 1 makes its threads for backward passes once, for the devices that it knows by then: before main, since a
// test may begin with a pass on the CPU.
const bool registered = [] {
  const bool wanted = std::getenv("ADJOIN_TEST_TRANSPORT") != nullptr;
  if (wanted) RegisterFakeBackend();
  return wanted;
}();

}  // namespace

absl::StatusOr<std::unique_ptr<LocalMemory>> MemoryOfRank(TransportKind kind, int rank, uint64_t seed) {
  (void)registered;
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
