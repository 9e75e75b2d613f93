#include "layers/attention/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>

#include "layers/sum_type.h"

namespace adjoin {

using at::Tensor;

Tensor ToHeads(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t n = x.size(0), length = x.size(1), features = x.size(2);
  const int64_t projections = weight.size(0), heads = weight.size(1), width = weight.size(2);
  const Tensor rows = x.reshape({n * length, features});
  const Tensor columns = weight.reshape({projections * heads * width, features}).t();
  const Tensor y =
      bias.defined() ? at::addmm(bias.reshape({projections * heads * width}), rows, columns) : at::mm(rows, columns);
  return y.reshape({n, length, projections, heads, width}).permute({2, 0, 3, 1, 4}).contiguous();
}

Tensor HeadsOf(const Tensor& x, int64_t width) {
  return x.reshape({x.size(0), x.size(1), x.size(2) / width, width}).transpose(1, 2);
}

Tensor FromHeads(const Tensor& x, const Tensor& weight) {
  const int64_t n = x.size(0), heads = x.size(1), length = x.size(2), width = x.size(3);
  const Tensor rows = x.permute({0, 2, 1, 3}).reshape({n * length, heads * width});
  return at::mm(rows, weight.reshape({weight.size(0), heads * width}).t()).reshape({n, length, weight.size(0)});
}

Tensor DenseAttention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added, const Tensor& factors) {
  // A score that is off by a bfloat16's step makes its weight wrong by a few percent.
  Tensor scores = at::matmul(InSumType(q), InSumType(k).transpose(-2, -1));
  if (added.defined()) scores = scores + added;
  Tensor weights = at::softmax(scores, -1);
  if (factors.defined()) weights = weights * factors;
  return at::matmul(weights.to(v.scalar_type()), v);
}

}  // namespace adjoin
