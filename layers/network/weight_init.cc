#include "layers/network/weight_init.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "layers/rules/init_rule.h"

namespace adjoin {
namespace {

// Sets every element of the block from its row-major position in the whole tensor.
template <typename Fn>
at::Tensor FromPositions(const std::vector<int64_t>& shape, const Box& box, Fn value) {
  at::Tensor block = at::empty(box.Shape(), at::kDouble);
  double* out = block.data_ptr<double>();
  const int64_t volume = box.Volume();
  std::vector<int64_t> at = box.Origin();
  for (int64_t local = 0; local < volume; ++local) {
    int64_t global = 0;
    for (int dim = 0; dim < box.dims(); ++dim) global = global * shape[dim] + at[dim];
    out[local] = value(global);
    for (int dim = box.dims() - 1; dim >= 0 && ++at[dim] == box[dim].hi; --dim) at[dim] = box[dim].lo;
  }
  return block;
}

constexpr double kTruncated = 2;  // torch.nn.init.trunc_normal_'s default of a and b

// Draws from the standard normal distribution by Box and Muller's transform: two numbers of the stream per element.
double NormalAt(const RandomStream& stream, int64_t index) {
  const double radius = std::sqrt(-2 * std::log1p(-stream.UniformAt(2 * index)));
  return radius * std::cos(2 * M_PI * stream.UniformAt(2 * index + 1));
}

at::Tensor Drawn(const InitSpread& spread, const std::vector<int64_t>& shape, const Box& box,
                 const RandomStream& stream) {
  switch (spread.kind) {
    case InitSpread::Kind::kUniform:
      return FromPositions(shape, box, [&](int64_t index) {
        return spread.center + spread.scale * (2.0 * stream.UniformAt(index) - 1.0);
      });
    case InitSpread::Kind::kNormal:
      return FromPositions(shape, box,
                           [&](int64_t index) { return spread.center + spread.scale * NormalAt(stream, index); });
    default: {
      // As torch.nn.init.trunc_normal_: the inverse of the distribution, of what is between -2 and 2.
      const double spread_root = spread.scale * std::sqrt(2.0);
      const double low = std::erf((-kTruncated - spread.center) / spread_root);
      const double high = std::erf((kTruncated - spread.center) / spread_root);
      const at::Tensor part =
          FromPositions(shape, box, [&](int64_t index) { return low + (high - low) * stream.UniformAt(index); });
      return (at::erfinv(part) * spread_root + spread.center).clamp(-kTruncated, kTruncated);
    }
  }
}

// 1 in the middle of the kernel of output channel i for input channel i.
bool IsDirac(const std::vector<int64_t>& at, const std::vector<int64_t>& shape) {
  if (at[0] != at[1]) return false;
  for (size_t dim = 2; dim < at.size(); ++dim) {
    if (at[dim] != shape[dim] / 2) return false;
  }
  return true;
}

}  // namespace

at::Tensor InitialBlock(const std::optional<Init>& init, int64_t fan_in, const std::vector<int64_t>& stored_shape,
                        const std::vector<int64_t>& shape, const Box& box, const RandomStream& stream) {
  if (!init.has_value()) {
    const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
    return Drawn({InitSpread::Kind::kUniform, bound, 0}, shape, box, stream);
  }
  const std::string& kind = init->kind();
  if (kind == "zeros") return at::zeros(box.Shape(), at::kDouble);
  if (kind == "ones") return at::ones(box.Shape(), at::kDouble);
  if (kind == "constant") return at::full(box.Shape(), init->value(), at::kDouble);
  if (kind == "values") {
    return FromPositions(shape, box, [&](int64_t index) { return init->values(static_cast<int>(index)); });
  }
  const Box stored = Box::Whole(stored_shape);
  if (kind == "eye")
    return FromPositions(shape, box, [&](int64_t index) {
      const std::vector<int64_t> at = stored.CellAt(index);
      return at[0] == at[1] ? 1.0 : 0.0;
    });
  if (kind == "dirac") {
    return FromPositions(shape, box,
                         [&](int64_t index) { return IsDirac(stored.CellAt(index), stored_shape) ? 1.0 : 0.0; });
  }
  at::Tensor block = Drawn(Spread(*init, stored_shape), shape, box, stream);
  if (!HasPadding(*init)) return block;
  const auto row = static_cast<int64_t>(init->value());
  if (box[0].Contains(row)) block.select(0, row - box[0].lo).zero_();
  return block;
}

}  // namespace adjoin
