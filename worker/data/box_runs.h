// A box within a row-major array, as runs of neighbouring cells that can be read from a file one by one.
//
//   for (const CellRun& run : RunsOf({4, 6}, Box({{1, 3}, {2, 5}}))) ...      // {8, 3}, {14, 3}
#ifndef ADJOIN_WORKER_DATA_BOX_RUNS_H_
#define ADJOIN_WORKER_DATA_BOX_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "primitives/geometry/box.h"

namespace adjoin {

struct CellRun {
  int64_t first = 0;  // in the array's row-major order
  int64_t count = 0;
  friend bool operator==(const CellRun& a, const CellRun& b) { return a.first == b.first && a.count == b.count; }
};

// Calls `f(CellRun)`, which returns a status, for each run in order, no two adjoining; ends at the first error. Needs
// no memory for the runs. `box` and `shape` are those of RunsOf.
template <typename F>
absl::Status ForEachRun(const std::vector<int64_t>& shape, const Box& box, F f) {
  if (box.empty()) return absl::OkStatus();
  // A run covers the last dims, as far as the box has them whole, and the box's part of the dim before them.
  int dim = static_cast<int>(shape.size());
  int64_t stride = 1;
  while (dim > 0 && box[dim - 1].size() == shape[dim - 1]) stride *= shape[--dim];
  const int rows = dim > 0 ? dim - 1 : 0;  // the dims to step through
  const int64_t count = dim > 0 ? stride * box[rows].size() : stride;
  std::vector<int64_t> strides(shape.size());
  int64_t product = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    strides[d] = product;
    product *= shape[d];
  }
  int64_t first = 0;
  for (int d = 0; d < dim; ++d) first += box[d].lo * strides[d];
  std::vector<int64_t> at = box.Origin();
  for (;;) {
    absl::Status status = f(CellRun{first, count});
    if (!status.ok()) return status;
    int d = rows - 1;
    for (; d >= 0; --d) {
      first += strides[d];
      if (++at[d] < box[d].hi) break;
      first -= strides[d] * box[d].size();
      at[d] = box[d].lo;
    }
    if (d < 0) return absl::OkStatus();
  }
}

// Returns the runs in order, no two adjoining. `box` is within `shape`; an empty box has none. A scalar is one run of
// one cell.
std::vector<CellRun> RunsOf(const std::vector<int64_t>& shape, const Box& box);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_BOX_RUNS_H_
