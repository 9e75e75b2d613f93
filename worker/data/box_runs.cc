#include "worker/data/box_runs.h"

namespace adjoin {

std::vector<CellRun> RunsOf(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<CellRun> runs;
  ForEachRun(shape, box, [&runs](const CellRun& run) {
    runs.push_back(run);
    return absl::OkStatus();
  }).IgnoreError();
  return runs;
}

}  // namespace adjoin
