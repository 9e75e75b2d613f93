// Upsampling on whole tensors, as PyTorch defines it: LibTorch's gradient, unless it is not the adjoint of LibTorch's
// own forward pass; then the gradient of the forward pass, a linear map, written out.
#include <torch/autograd.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "layers/serial_functions.h"
#include "layers/serial_windows.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

Tensor Interpolate(const Tensor& x, const Upsample& spec) {
  const size_t spatial = SpatialDims(x);
  F::InterpolateFuncOptions options;
  if (spec.size().empty()) {
    std::vector<double> scale(spec.scale().begin(), spec.scale().end());
    if (scale.size() == 1) scale.assign(spatial, scale[0]);
    options.scale_factor(scale).recompute_scale_factor(false);
  } else {
    options.size(PerDim(spec.size(), Sizes(spatial, 0)));
  }
  if (spec.mode() == "nearest") return F::interpolate(x, options.mode(torch::kNearest));
  if (spec.mode() == "nearest-exact") {
    // It has no corners, but without this LibTorch prints a warning about them.
    return F::interpolate(x, options.mode(torch::kNearestExact).align_corners(false));
  }
  if (spec.mode() == "area") return F::interpolate(x, options.mode(torch::kArea));
  options.align_corners(spec.align_corners());
  if (spec.mode() == "linear") return F::interpolate(x, options.mode(torch::kLinear));
  if (spec.mode() == "bilinear") return F::interpolate(x, options.mode(torch::kBilinear));
  if (spec.mode() == "trilinear") return F::interpolate(x, options.mode(torch::kTrilinear));
  TORCH_CHECK(spec.mode() == "bicubic", "upsample.mode \"", spec.mode(), "\" is not known");
  return F::interpolate(x, options.mode(torch::kBicubic));
}

bool GradientIsAdjoint(const Tensor& x, const Upsample& spec) {
  torch::AutoGradMode with_grad(true);
  const Tensor leaf = torch::rand_like(x).requires_grad_();
  const Tensor y = Interpolate(leaf, spec);
  const Tensor cotangent = torch::rand_like(y);
  const Tensor back = torch::autograd::grad({y}, {leaf}, {cotangent})[0];
  const double forward = (y.detach() * cotangent).sum().item<double>();
  return std::abs(forward - (leaf.detach() * back).sum().item<double>()) <= 1e-12 * std::max(1.0, std::abs(forward));
}

// Which cell of the spatial dims, flattened, each output is a copy of.
Tensor NearestCells(const Tensor& x, const Upsample& spec) {
  torch::NoGradGuard no_grad;
  Sizes shape(x.sizes().begin(), x.sizes().end());
  shape[0] = 1;
  int64_t cells = 1;
  for (size_t dim = 2; dim < shape.size(); ++dim) cells *= shape[dim];
  Sizes one = shape;
  one[1] = 1;
  // As many channels as the input has: LibTorch reads a single one by other rules than several.
  const Tensor numbered = torch::arange(cells, torch::kFloat64).reshape(one).expand(shape).contiguous();
  return Interpolate(numbered, spec).select(1, 0).select(0, 0).to(torch::kInt64);
}

// What each of the two dims does to unit vectors: LibTorch interpolates one dim after the other.
Tensor OneDimOfBicubic(const Tensor& x, const Upsample& spec, int dim) {
  torch::NoGradGuard no_grad;
  const int64_t n = x.size(dim + 2);
  Upsample one = spec;
  one.clear_size();
  one.clear_scale();
  for (int other = 0; other < 2; ++other) {
    const auto value = [other](const auto& list) { return list.Get(list.size() == 1 ? 0 : other); };
    if (spec.size().empty()) {
      one.add_scale(other == dim ? value(spec.scale()) : 1);
    } else {
      one.add_size(other == dim ? value(spec.size()) : 1);
    }
  }
  const Tensor units = torch::eye(n, torch::kFloat64).reshape(dim == 0 ? Sizes{n, 1, n, 1} : Sizes{n, 1, 1, n});
  return Interpolate(units, one).reshape({n, -1});
}

}  // namespace

Tensor SerialUpsample(SerialCall& call) {
  const Upsample& spec = call.spec().upsample();
  const Tensor& x = call.input();
  if (!x.requires_grad() || GradientIsAdjoint(x, spec)) return Interpolate(x, spec);
  if (spec.mode() == "nearest" || spec.mode() == "nearest-exact") {
    const Tensor cells = NearestCells(x, spec);
    Sizes shape = {x.size(0), x.size(1)};
    shape.insert(shape.end(), cells.sizes().begin(), cells.sizes().end());
    return x.flatten(2).index_select(2, cells.flatten()).reshape(shape);
  }
  TORCH_CHECK(spec.mode() == "bicubic", "LibTorch's gradient of ", spec.mode(),
              " is not the adjoint of its forward pass");
  const Tensor rows = torch::matmul(x, OneDimOfBicubic(x, spec, 1));
  return torch::matmul(rows.transpose(2, 3), OneDimOfBicubic(x, spec, 0)).transpose(2, 3).contiguous();
}

}  // namespace adjoin
