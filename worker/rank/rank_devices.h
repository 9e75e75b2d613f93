// The GPUs of a node, as the program of a rank uses them.
//
//   for (const NodeGpu& found : *CudaDevices().List()) ...                          // all that the process sees
//   ADJOIN_ASSIGN_OR_RETURN(const OpenedDevice opened, CudaDevices().Open("cuda:0"));
//
// `adjoin-rank --list-gpus` prints what List returns (worker/rank/gpu_lines.h): a daemon asks it once, when it starts.
#ifndef ADJOIN_WORKER_RANK_RANK_DEVICES_H_
#define ADJOIN_WORKER_RANK_RANK_DEVICES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/open_device.h"
#include "worker/rank/gpu_lines.h"

namespace adjoin {

class RankDevices {
 public:
  virtual ~RankDevices() = default;
  // The GPUs that this process sees, in their order; of each, whether this program can compute on it.
  // Errors: kNotFound (no driver, or none of its devices), as OpenDevice.
  virtual absl::StatusOr<std::vector<NodeGpu>> List() const = 0;
  // The GPU with this name of LibTorch's, "cuda:0". Errors: as OpenDevice.
  virtual absl::StatusOr<OpenedDevice> Open(const std::string& name) const = 0;
};

// Those of CUDA's driver.
const RankDevices& CudaDevices();

// The devices of this driver; `usable` says of each whether the program can compute on it. Errors: as ListCudaDevices.
absl::StatusOr<std::vector<NodeGpu>> GpusOf(const CudaDriver& driver,
                                            const std::function<absl::Status(int index)>& usable);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_RANK_DEVICES_H_
