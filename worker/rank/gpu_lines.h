// What `adjoin-rank --list-gpus` prints, and a daemon reads: a line for each GPU, so that people can read it as well.
//
//   gpu 0 GPU-8d3c... 85899345920 NVIDIA H100 80GB HBM3
//   unusable 1 GPU-4e1f... 85899345920 NVIDIA H100 80GB HBM3: CUDA error: out of memory
//   end
//
// or "none there is no CUDA driver: ...", and "end".
#ifndef ADJOIN_WORKER_RANK_GPU_LINES_H_
#define ADJOIN_WORKER_RANK_GPU_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adjoin {

inline constexpr char kListGpus[] = "--list-gpus";

struct NodeGpu {
  uint32_t index = 0;
  std::string uuid;  // as CUDA_VISIBLE_DEVICES takes it; no blanks
  std::string name;
  uint64_t memory_bytes = 0;
  std::string unusable;  // why the program of a rank cannot compute on it; empty: it can
};

std::string GpuLines(const absl::StatusOr<std::vector<NodeGpu>>& gpus);

// Lines that begin otherwise are those of libraries, and are passed over. Errors: kNotFound (there are none; says why),
// kDataLoss (no "end", a line that is cut or wrong, a GPU that is named twice, more than kMaxGpus).
absl::StatusOr<std::vector<NodeGpu>> ReadGpuLines(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_GPU_LINES_H_
