#include "worker/data/box_runs.h"

namespace adjoin {

std::vector<CellRun> RunsOf(const std::vector<int64_t>& shape, const Box& box) {
  std::vector<CellRun> runs;
  if (box.empty()) return runs;
  const int dims = static_cast<int>(shape.size());
  std::vector<int64_t> at = box.Origin();
  for (;;) {
    int64_t first = 0;
    for (int dim = 0; dim < dims; ++dim) first = first * shape[dim] + at[dim];
    const int64_t row = dims == 0 ? 1 : box[dims - 1].size();
    if (!runs.empty() && runs.back().first + runs.back().count == first) {
      runs.back().count += row;
    } else {
      runs.push_back({first, row});
    }
    int dim = dims - 2;
    while (dim >= 0 && ++at[dim] == box[dim].hi) {
      at[dim] = box[dim].lo;
      --dim;
    }
    if (dim < 0) return runs;
  }
}

}  // namespace adjoin
