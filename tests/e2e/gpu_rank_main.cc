// A rank on a machine without GPUs that has two: those of the fake CUDA driver, by their UUIDs, whose memory and
// streams are those of the fake devices (primitives/device/fake_device.h).
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/device/fake_device.h"
#include "primitives/device/testing/fake_cuda.h"
#include "primitives/open_device.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/fake_backend.h"
#include "worker/rank/rank_command.h"
#include "worker/rank/rank_devices.h"

namespace adjoin {
namespace {

class FakeRankDevices final : public RankDevices {
 public:
  absl::StatusOr<std::vector<NodeGpu>> List() const override {
    ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaDriver> driver,
                            CudaDriver::Open(FakeCuda::Reset(2).path()));
    return GpusOf(*driver, [](int) { return absl::OkStatus(); });
  }

  // As the driver, it sees what CUDA_VISIBLE_DEVICES names.
  absl::StatusOr<OpenedDevice> Open(const std::string& name) const override {
    const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<NodeGpu> gpus, List());
    for (const NodeGpu& gpu : gpus) {
      if (name != "cuda:0" || visible == nullptr || gpu.uuid != visible) continue;
      RegisterFakeBackend();
      FakeDevice& device = FakeDevice::Get(static_cast<int>(gpu.index));
      device.SetDelays(gpu.index, absl::Microseconds(50));
      OpenedDevice opened;
      opened.device = std::shared_ptr<Device>(std::shared_ptr<void>(), &device);
      opened.tensors = c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(gpu.index));
      opened.memory = std::make_shared<TensorDeviceMemory>(opened.tensors, opened.device);
      return opened;
    }
    return absl::NotFoundError(
        absl::StrCat("CUDA_VISIBLE_DEVICES=", visible == nullptr ? "(unset)" : visible, " has no device ", name));
  }
};

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  // The driver's library lies where it was built; a daemon tells a rank nothing of a test's runfiles.
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../..";
  setenv("TEST_SRCDIR", bin.c_str(), 1);
  setenv("TEST_WORKSPACE", ".", 1);
  return adjoin::RunRankCommand(argc, argv, adjoin::BuiltinLayers(), adjoin::FakeRankDevices());
}
