#include "worker/rank/rank_devices.h"

#include <memory>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/status_macros.h"
#include "primitives/device/cuda_device.h"

namespace adjoin {
namespace {

// A driver and a LibTorch that do not fit show only when they compute.
absl::Status Compute(const OpenedDevice& opened) {
  return Caught("LibTorch", [&]() -> absl::Status {
    const double sum = at::ones({8}, at::TensorOptions(opened.tensors)).sum().item<double>();
    return sum == 8 ? absl::OkStatus() : absl::InternalError(absl::StrCat("it adds eight ones to ", sum));
  });
}

class CudaRankDevices final : public RankDevices {
 public:
  absl::StatusOr<std::vector<NodeGpu>> List() const override {
    ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
    return GpusOf(*driver, [this](int index) {
      const absl::StatusOr<OpenedDevice> opened = Open(absl::StrCat("cuda:", index));
      return opened.ok() ? Compute(*opened) : opened.status();
    });
  }

  absl::StatusOr<OpenedDevice> Open(const std::string& name) const override { return OpenDevice(name); }
};

}  // namespace

absl::StatusOr<std::vector<NodeGpu>> GpusOf(const CudaDriver& driver,
                                            const std::function<absl::Status(int index)>& usable) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<CudaDeviceInfo> devices, ListCudaDevices(driver));
  std::vector<NodeGpu> found;
  for (const CudaDeviceInfo& device : devices) {
    NodeGpu& gpu = found.emplace_back();
    gpu.index = static_cast<uint32_t>(device.index);
    gpu.uuid = absl::StrCat(absl::StrContains(device.name, "MIG") ? "MIG-" : "GPU-", device.uuid);
    gpu.name = device.name;
    gpu.memory_bytes = static_cast<uint64_t>(device.memory_bytes);
    gpu.unusable = std::string(usable(device.index).message());
  }
  return found;
}

const RankDevices& CudaDevices() {
  static const CudaRankDevices* const devices = new CudaRankDevices;
  return *devices;
}

}  // namespace adjoin
