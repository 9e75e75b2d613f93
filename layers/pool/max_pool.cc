#include "layers/pool/max_pool.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/status_macros.h"
#include "layers/pool/pool_dims.h"
#include "layers/pool/pool_roles.h"
#include "layers/sum_type.h"

namespace adjoin {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// `values`, one per element of tensor dim `dim`, for broadcasts over the `dims` others.
at::Tensor Along(int dim, int64_t dims, const std::vector<int64_t>& values) {
  std::vector<int64_t> shape(dims, 1);
  shape[dim] = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kLong).reshape(shape);
}

class MaxPoolLayer : public LayerModule {
 public:
  MaxPoolLayer(LayerContext context, std::vector<PoolDim> dims)
      : LayerModule(std::move(context)), dims_(std::move(dims)) {
    for (const PoolDim& dim : dims_) {
      kernel_.push_back(dim.kernel);
      stride_.push_back(dim.stride);
      dilation_.push_back(dim.dilation);
      shared_ = shared_ || dim.own_part;
      padded_ = padded_ || dim.box.lo < 0 || dim.box.hi > dim.inputs;
    }
    by_kernel_ = HaveKernels(dims_);
    if (!runs_here() && !shared_) return;
    if (by_kernel_ && padded_) {
      for (const PoolDim& dim : dims_) first_inside_.push_back(FirstInside(dim));
    }
    if (!by_kernel_) MakeSteps();
  }

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    if (shared_) return Output(OverRanks(x, tape), tape);
    if (spec().pool().return_indices()) {
      const auto int64 = x.options().dtype(at::kLong);
      return Output(runs_here() ? InWholeInput(LargestOf(x)) : at::empty(context().compute_shape, int64), tape);
    }
    return Output(runs_here() ? Kernel(x) : EmptyResult(context().compute_shape, {x}), tape);
  }

 private:
  at::Tensor Kernel(const at::Tensor& x) const {
    // On a device the host would have to wait for the answer: there the padded kernel's indices tell what to take.
    if (by_kernel_ && HasKernel(x) && (!padded_ || x.is_cpu())) {
      at::Tensor y = ByKernel(x);
      // Only among minus infinities does the kernel, for which the padding is input, take other elements.
      if (!padded_ || !y.detach().eq(kLowest).any().item<bool>()) return y;
    }
    const at::Tensor index = LargestOf(x);
    return x.flatten(2).gather(2, index.flatten(2)).reshape(index.sizes());
  }

  // Pools dims that are cut to one element: the largest of what each rank found in its part.
  at::Tensor OverRanks(const at::Tensor& x, Tape& tape) {
    std::vector<int64_t> own_shape = {x.size(0), x.size(1)};
    for (const PoolDim& dim : dims_) own_shape.push_back(static_cast<int64_t>(dim.windows.size()));
    at::Tensor own = EmptyResult({0}, {x}), place = at::empty({0}, x.options().dtype(at::kLong));
    if (c10::multiply_integers(own_shape) > 0) {
      const at::Tensor index = LargestOf(x);
      own = x.flatten(2).gather(2, index.flatten(2));
      place = InWholeInput(index);
    }
    const bool indices = spec().pool().return_indices();
    // No gradient passes through indices, and the plan has its movement without one.
    const at::Tensor values = Move(kRoleLargest, (indices ? own.detach() : own).reshape(own_shape), tape);
    const at::Tensor places = Move(kRolePositions, place.reshape(own_shape), tape);
    if (!runs_here()) {
      return indices ? places.reshape({-1}).narrow(0, 0, 0).reshape(context().compute_shape)
                     : EmptyResult(context().compute_shape, {values});
    }
    const at::Tensor choice = Choice(CandidatesLast(values.detach()), CandidatesLast(places));
    return CandidatesLast(indices ? places : values).gather(-1, choice).reshape(context().compute_shape);
  }

  // [..., candidates of all shared dims]
  at::Tensor CandidatesLast(const at::Tensor& x) const {
    std::vector<int64_t> order = {0, 1}, shared;
    for (const PoolDim& dim : dims_) (dim.own_part ? shared : order).push_back(dim.dim);
    const int64_t kept = static_cast<int64_t>(order.size());
    order.insert(order.end(), shared.begin(), shared.end());
    return x.permute(order).flatten(kept);
  }

  // Which candidate is the largest; of equal ones the first in the whole input, of NaNs the last.
  static at::Tensor Choice(const at::Tensor& values, const at::Tensor& places) {
    at::Tensor value = values.select(-1, 0), place = places.select(-1, 0), choice = at::zeros_like(place);
    for (int64_t i = 1; i < values.size(-1); ++i) {
      const at::Tensor v = values.select(-1, i), p = places.select(-1, i);
      const at::Tensor equal_but_first = v.eq(value).logical_and(p.lt(place));
      const at::Tensor last_nan = v.isnan().logical_and(value.isnan().logical_not().logical_or(p.gt(place)));
      const at::Tensor better = v.gt(value).logical_or(equal_but_first).logical_or(last_nan);
      value = at::where(better, v, value);
      place = at::where(better, p, place);
      choice = at::where(better, at::full_like(choice, i), choice);
    }
    return choice.unsqueeze(-1);
  }

  // LibTorch 1 has no kernel of three dims for bfloat16. Its places are found in float32, which is exact.
  static bool HasKernel(const at::Tensor& x) { return x.dim() < 5 || x.scalar_type() == SumType(x.scalar_type()); }

  at::Tensor ByKernel(const at::Tensor& x) const {
    switch (x.dim()) {
      case 3: return at::max_pool1d(x, kernel_, stride_, /*padding=*/0, dilation_);
      case 4: return at::max_pool2d(x, kernel_, stride_, /*padding=*/0, dilation_);
      default: return at::max_pool3d(x, kernel_, stride_, /*padding=*/0, dilation_);
    }
  }

  // Per output, the row-major position of its element in the spatial dims of x.
  at::Tensor LargestOf(const at::Tensor& x) const {
    at::NoGradGuard no_grad;
    if (!by_kernel_) return DimByDim(x.detach());
    at::Tensor y, index;
    switch (x.dim()) {
      case 3: std::tie(y, index) = at::max_pool1d_with_indices(x, kernel_, stride_, 0, dilation_); break;
      case 4: std::tie(y, index) = at::max_pool2d_with_indices(x, kernel_, stride_, 0, dilation_); break;
      default: std::tie(y, index) = at::max_pool3d_with_indices(InSumType(x), kernel_, stride_, 0, dilation_);
    }
    return padded_ ? at::where(y.eq(kLowest), FirstInside(), index) : index;
  }

  // Per output, the first cell of its window that is not before the input.
  at::Tensor FirstInside() const {
    at::Tensor index = at::zeros({1}, first_inside_.at(0).options());
    for (size_t i = 0; i < dims_.size(); ++i) index = index * dims_[i].box.size() + first_inside_[i];
    return index;
  }

  // The same in one dim.
  at::Tensor FirstInside(const PoolDim& dim) const {
    std::vector<int64_t> first;
    for (const Interval& window : dim.windows) {
      const int64_t steps = window.lo < 0 ? (-window.lo + dim.dilation - 1) / dim.dilation : 0;
      first.push_back(window.lo + steps * dim.dilation - dim.box.lo);
    }
    return Along(dim.dim, x_dims(), first).to(context().device);
  }

  int64_t x_dims() const { return static_cast<int64_t>(context().input_shapes[0].size()); }

  // [steps, outputs] of one dim: a cell of each of its windows in the local tensor, and as addend of positions in it.
  struct Steps {
    at::Tensor cells;
    at::Tensor places;
  };

  // A shorter window comes to its last element again, which changes nothing.
  void MakeSteps() {
    int64_t row = 1;  // elements of the box per step in a dim
    for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim) {
      int64_t most = 0;
      for (const Interval& window : dim->windows) most = std::max(most, window.size());
      std::vector<int64_t> at;
      for (int64_t step = 0; step < most; ++step) {
        for (const Interval& window : dim->windows) {
          at.push_back(std::min(window.lo + step, window.hi - 1) - dim->box.lo);
        }
      }
      const auto outputs = static_cast<int64_t>(dim->windows.size());
      const at::Tensor cells = at::tensor(at, at::kLong).reshape({most, outputs});
      steps_.push_back({cells.to(context().device), (cells * row).to(context().device)});
      row *= dim->box.size();
    }
  }

  // Windows of several sizes. From the last dim to the first: the first largest in row-major order is in the first row
  // that has it, and of NaNs the last one in the last row.
  at::Tensor DimByDim(at::Tensor x) const {
    at::Tensor index;
    auto steps = steps_.begin();
    for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim, ++steps) {
      at::Tensor largest, of_largest;
      std::vector<int64_t> along(x.dim(), 1);
      along[dim->dim] = steps->cells.size(1);
      for (int64_t step = 0; step < steps->cells.size(0); ++step) {
        const at::Tensor cells = steps->cells.select(0, step);
        const at::Tensor value = x.index_select(dim->dim, cells);
        const at::Tensor own = steps->places.select(0, step).reshape(along);
        const at::Tensor place =
            index.defined() ? own + index.index_select(dim->dim, cells) : own.expand(value.sizes());
        const bool first = !largest.defined();
        const at::Tensor better = first ? at::Tensor() : value.gt(largest).logical_or(value.isnan());
        largest = first ? value : at::where(better, value, largest);
        of_largest = first ? place : at::where(better, place, of_largest);
      }
      x = largest;
      index = of_largest;
    }
    return index.contiguous();
  }

  // The same cells' positions in the whole input.
  at::Tensor InWholeInput(at::Tensor index) const {
    at::Tensor result = at::zeros_like(index);
    int64_t row = 1;
    for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim) {
      result = result + (at::remainder(index, dim->box.size()) + dim->box.lo) * row;
      index = at::div(index, dim->box.size(), "floor");
      row *= dim->inputs;
    }
    return result;
  }

  const std::vector<PoolDim> dims_;
  std::vector<int64_t> kernel_;
  std::vector<int64_t> stride_;
  std::vector<int64_t> dilation_;
  std::vector<at::Tensor> first_inside_;  // by dim, where the kernel meets padding
  std::vector<Steps> steps_;              // by dim, the last one first, where there is no kernel
  bool by_kernel_ = false;
  bool padded_ = false;
  bool shared_ = false;  // of some dim, each rank pools its own part
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildMaxPool(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<PoolDim> dims, PoolDimsOf(context));
  return std::make_unique<MaxPoolLayer>(std::move(context), std::move(dims));
}

}  // namespace adjoin
