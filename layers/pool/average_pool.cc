#include "layers/pool/average_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "layers/pool/pool_dims.h"
#include "layers/sum_type.h"

namespace adjoin {
namespace {

// How many cells count in each window of one dim, as in LibTorch: padding may, but not what ceil_mode adds to it.
std::vector<int64_t> CountsOf(const PoolDim& dim, bool include_pad) {
  std::vector<int64_t> counts;
  for (const Interval& window : dim.windows) {
    counts.push_back(include_pad ? std::min(window.hi, dim.inputs + dim.pad_hi) - window.lo
                                 : window.Intersect({0, dim.inputs}).size());
  }
  return counts;
}

// The sums over windows of several sizes of one dim.
class WindowSums {
 public:
  WindowSums(const PoolDim& dim, int64_t dims, at::Device device) : dim_(dim) {
    int64_t most = 0, least = dim.box.size();
    for (const Interval& window : dim.windows) {
      most = std::max(most, window.size());
      least = std::min(least, window.size());
    }
    const auto outputs = static_cast<int64_t>(dim.windows.size());
    one_by_one_ = most > outputs;
    if (one_by_one_) return;
    std::vector<int64_t> shape(dims, 1);
    shape[dim.dim] = outputs;
    for (int64_t step = 0; step < most; ++step) {
      std::vector<int64_t> at, inside;
      for (const Interval& window : dim.windows) {
        at.push_back(std::min(window.lo + step, window.hi - 1) - dim.box.lo);
        inside.push_back(step < window.size());
      }
      at::Tensor counts;
      if (step >= least) counts = at::tensor(inside, at::kLong).reshape(shape).to(at::kBool).to(device);
      steps_.push_back({at::tensor(at, at::kLong).to(device), std::move(counts)});
    }
  }

  at::Tensor Of(const at::Tensor& x) const {
    if (one_by_one_) {
      // Few long windows.
      std::vector<at::Tensor> sums;
      for (const Interval& window : dim_.windows) {
        sums.push_back(x.narrow(dim_.dim, window.lo - dim_.box.lo, window.size()).sum(dim_.dim, /*keepdim=*/true));
      }
      return at::cat(sums, dim_.dim);
    }
    // Many short ones: the first cells of all, then the second ones, ...
    at::Tensor sum;
    for (const Step& step : steps_) {
      at::Tensor cells = x.index_select(dim_.dim, step.cells);
      if (step.counts.defined()) cells = at::where(step.counts, cells, at::zeros({}, cells.options()));
      sum = sum.defined() ? sum + cells : cells;
    }
    return sum;
  }

 private:
  struct Step {
    at::Tensor cells;   // of each window one
    at::Tensor counts;  // bool: whether it is in the window; undefined: all are
  };
  PoolDim dim_;
  bool one_by_one_ = false;
  std::vector<Step> steps_;
};

class AveragePoolLayer : public LayerModule {
 public:
  AveragePoolLayer(LayerContext context, std::vector<PoolDim> pool_dims) : LayerModule(std::move(context)) {
    if (!runs_here()) return;
    const Pool& pool = spec().pool();
    const std::vector<int64_t>& global = this->context().input_shapes[0];
    const int dims = static_cast<int>(global.size());
    for (PoolDim& dim : pool_dims) {
      const bool to_one = pool.adaptive_size_size() > 0 && pool.adaptive_size(dim.dim - 2) == 1;
      if (!to_one) dims_.push_back(std::move(dim));
    }
    kernel_.assign(dims - 2, 1);
    stride_.assign(dims - 2, 1);
    const bool include_pad = pool.mode() == "lp" || pool.count_include_pad();
    divisor_ = at::ones(std::vector<int64_t>(dims, 1), at::kLong);
    auto dim = dims_.begin();
    for (int d = 2; d < dims; ++d) {
      if (dim == dims_.end() || dim->dim != d) {
        summed_.push_back(d);
        divisor_ = divisor_ * global[d];
        continue;
      }
      std::vector<int64_t> shape(dims, 1);
      shape[d] = static_cast<int64_t>(dim->windows.size());
      divisor_ = divisor_ * at::tensor(CountsOf(*dim, include_pad), at::kLong).reshape(shape);
      kernel_[d - 2] = dim->kernel;
      stride_[d - 2] = dim->stride;
      ++dim;
    }
    if (pool.has_divisor_override()) divisor_ = at::full_like(divisor_, pool.divisor_override());
    if (divisor_.eq(divisor_.reshape({-1})[0]).all().item<bool>()) divisor_ = divisor_.reshape({-1})[0];
    divisor_ = divisor_.to(this->context().device);
    by_kernel_ = HaveKernels(dims_);
    if (by_kernel_) return;
    for (const PoolDim& dim : dims_) sums_.emplace_back(dim, dims, this->context().device);
  }

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    if (!runs_here()) return Output(EmptyResult(context().compute_shape, {x}), tape);
    const at::Tensor y = spec().pool().mode() == "lp" ? PowerAverage(InSumType(x)) : Average(InSumType(x));
    return Output(y.to(x.scalar_type()), tape);
  }

 private:
  at::Tensor Average(at::Tensor x) const {
    if (!summed_.empty()) x = x.sum(summed_, /*keepdim=*/true);
    if (by_kernel_) {
      x = ByKernel(x);
    } else {
      for (const WindowSums& sums : sums_) x = sums.Of(x);
    }
    return x / divisor_.to(x.scalar_type());
  }

  // As torch.nn.functional.lp_pool2d, at zero and below as well.
  at::Tensor PowerAverage(const at::Tensor& x) const {
    const double p = spec().pool().lp();
    double elements = 1;
    for (int64_t kernel : kernel_) elements *= static_cast<double>(kernel);
    const at::Tensor average = Average(x.pow(p));
    return (at::sign(average) * at::relu(at::abs(average))).mul(elements).pow(1.0 / p);
  }

  at::Tensor ByKernel(const at::Tensor& x) const {
    if (std::all_of(kernel_.begin(), kernel_.end(), [](int64_t kernel) { return kernel == 1; }) && stride_ == kernel_) {
      return x;
    }
    // One, so that the kernel adds up only.
    constexpr int64_t kDivisor = 1;
    switch (x.dim()) {
      case 3:
        return at::avg_pool2d(x.unsqueeze(2), {1, kernel_[0]}, {1, stride_[0]}, 0, false, true, kDivisor).squeeze(2);
      case 4: return at::avg_pool2d(x, kernel_, stride_, 0, false, true, kDivisor);
      default: return at::avg_pool3d(x, kernel_, stride_, 0, false, true, kDivisor);
    }
  }

  std::vector<PoolDim> dims_;    // without those pooled to one element
  std::vector<int64_t> summed_;  // these
  std::vector<int64_t> kernel_;  // per spatial dim
  std::vector<int64_t> stride_;
  bool by_kernel_ = true;
  std::vector<WindowSums> sums_;  // by dim, where there is no kernel
  at::Tensor divisor_;            // per output, int64; one number where they are all the same
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildAveragePool(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<PoolDim> dims, PoolDimsOf(context));
  return std::make_unique<AveragePoolLayer>(std::move(context), std::move(dims));
}

}  // namespace adjoin
