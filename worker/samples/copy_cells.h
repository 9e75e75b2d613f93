// Copies row-major cells to positions with any strides, also negative ones, and converts them.
//
//   CopyCells(cells.data(), {2, 3}, {-4, 1}, float_tensor + 4);    // row 0 to cells 4 .. 6, row 1 to 0 .. 2
//
// Any thread.
#ifndef ADJOIN_WORKER_SAMPLES_COPY_CELLS_H_
#define ADJOIN_WORKER_SAMPLES_COPY_CELLS_H_

#include <cstdint>
#include <vector>

namespace adjoin {

// `strides`: in cells of `out`, one per extent. `out` gets the first cell.
template <typename To>
void CopyCells(const double* in, const std::vector<int64_t>& extents, const std::vector<int64_t>& strides, To* out) {
  const size_t dims = extents.size();
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  const int64_t row = dims == 0 ? 1 : extents[dims - 1];
  const int64_t step = dims == 0 ? 1 : strides[dims - 1];
  std::vector<int64_t> at(dims, 0);
  while (true) {
    for (int64_t i = 0; i < row; ++i) out[i * step] = static_cast<To>(in[i]);
    in += row;
    // To the next row: the last dim but one counts fastest.
    size_t dim = dims < 2 ? 0 : dims - 1;
    while (dim > 0) {
      --dim;
      out += strides[dim];
      if (++at[dim] < extents[dim]) break;
      out -= strides[dim] * extents[dim];
      at[dim] = 0;
      if (dim == 0) return;
    }
    if (dims < 2) return;
  }
}

// The strides of a row-major array, in cells.
inline std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim > 1; --dim) strides[dim - 2] = strides[dim - 1] * shape[dim - 1];
  return strides;
}

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_COPY_CELLS_H_
