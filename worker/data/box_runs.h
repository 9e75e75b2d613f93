// A box within a row-major array, as runs of neighbouring cells: what to read of a file.
//
//   for (const CellRun& run : RunsOf({4, 6}, Box({{1, 3}, {2, 5}}))) ...      // {8, 3}, {14, 3}
#ifndef ADJOIN_WORKER_DATA_BOX_RUNS_H_
#define ADJOIN_WORKER_DATA_BOX_RUNS_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/box.h"

namespace adjoin {

struct CellRun {
  int64_t first = 0;  // in the array's row-major order
  int64_t count = 0;
  friend bool operator==(const CellRun& a, const CellRun& b) { return a.first == b.first && a.count == b.count; }
};

// In order, no two adjoining. `box` lies within `shape`; none for an empty box. A scalar is one run of one cell.
std::vector<CellRun> RunsOf(const std::vector<int64_t>& shape, const Box& box);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_BOX_RUNS_H_
