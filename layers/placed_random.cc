#include "layers/placed_random.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "primitives/to_device.h"

namespace adjoin {
namespace {

// A stretch of cells that follow each other both in the box and in the whole tensor.
struct Rows {
  int64_t count = 0;
  int64_t length = 0;

  Rows(const std::vector<int64_t>& shape, const Box& box) : count(1), length(1) {
    int outer = box.dims();  // dims before those that make a row
    while (outer > 0) {
      --outer;
      length *= box[outer].size();
      // Dim 0 goes on in other micro-batches: nothing is outside it.
      if (outer > 0 && box[outer].size() != shape[outer]) break;
    }
    for (int dim = 0; dim < outer; ++dim) count *= box[dim].size();
  }

  // Index of the first cell of row `row`, in the step's batch.
  int64_t Start(int64_t row, int64_t first_sample, const std::vector<int64_t>& shape, const Box& box) const {
    std::vector<int64_t> at = box.CellAt(row * length);
    if (!at.empty()) at[0] += first_sample;
    return RowMajorPlace(at, shape);
  }
};

// fill(out, index, n): n cells from `index` on.
template <typename T, typename Fill>
void FillPlaced(T* out, int64_t first_sample, const std::vector<int64_t>& shape, const Box& box, const Fill& fill) {
  if (box.empty()) return;
  constexpr int64_t kCellsOfATask = 4096;
  const Rows rows(shape, box);
  const auto cells = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / rows.length, column = begin % rows.length;
      const int64_t n = std::min(rows.length - column, end - begin);
      fill(out + begin, rows.Start(row, first_sample, shape, box) + column, n);
      begin += n;
    }
  };
  at::parallel_for(0, rows.count * rows.length, kCellsOfATask, cells);
}

// Both numbers of a pair.
struct NormalPair {
  double of[2];

  NormalPair(const RandomStream& stream, int64_t pair) {
    const double radius = std::sqrt(-2 * std::log1p(-stream.UniformAt(2 * pair)));
    const double angle = 2 * M_PI * stream.UniformAt(2 * pair + 1);
    of[0] = radius * std::cos(angle);
    of[1] = radius * std::sin(angle);
  }
};

template <typename T>
void FillNormals(const RandomStream& stream, T* out, int64_t index, int64_t n) {
  while (n > 0) {
    const NormalPair pair(stream, index / 2);
    for (int64_t i = index % 2; i < 2 && n > 0; ++i, ++index, --n) *out++ = static_cast<T>(pair.of[i]);
  }
}

}  // namespace

at::Tensor PlacedKept(const RandomStream& stream, int64_t first_sample, const std::vector<int64_t>& shape,
                      const Box& box, double p, at::Device device) {
  at::Tensor kept = at::empty(box.Shape(), at::kBool);
  FillPlaced(kept.data_ptr<bool>(), first_sample, shape, box, [&](bool* out, int64_t index, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = stream.UniformAt(index + i) >= p;
  });
  return ToDevice(kept, device);
}

at::Tensor PlacedNormals(const RandomStream& stream, int64_t first_sample, const std::vector<int64_t>& shape,
                         const Box& box, at::ScalarType dtype, at::Device device) {
  if (dtype == at::kDouble) {
    at::Tensor normals = at::empty(box.Shape(), at::kDouble);
    FillPlaced(normals.data_ptr<double>(), first_sample, shape, box,
               [&](double* out, int64_t index, int64_t n) { FillNormals(stream, out, index, n); });
    return ToDevice(normals, device);
  }
  at::Tensor normals = at::empty(box.Shape(), at::kFloat);
  FillPlaced(normals.data_ptr<float>(), first_sample, shape, box,
             [&](float* out, int64_t index, int64_t n) { FillNormals(stream, out, index, n); });
  return ToDevice(normals.to(dtype), device);
}

}  // namespace adjoin
