// Sum, mean or variance of the local part over some dims, to be added up over the ranks that cut these dims; or the
// largest or smallest element of all these ranks, which one of them gives and the others add 0 to.
//
// Sums are float32 for types of fewer bits. It can be differentiated any number of times. Local shapes: x any, y the
// same with extent 1 in these dims, or without them. Errors: kInvalidArgument where the plan's layout is none.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/full.h>
#include <ATen/ops/square.h>

#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/reduce/reduce_roles.h"
#include "layers/rules/layout_proto.h"
#include "layers/sum_type.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using at::Tensor;

class ReduceLayer : public LayerModule {
 public:
  // `inside`: this rank is in the mesh; elsewhere all tensors are empty. `first`: of the ranks whose sums are added.
  ReduceLayer(LayerContext context, bool inside, bool first)
      : LayerModule(std::move(context)),
        inside_(inside),
        first_(first),
        dims_(spec().reduce().dim().begin(), spec().reduce().dim().end()) {
    for (int64_t dim : dims_) count_ *= static_cast<double>(this->context().input_shapes[0][dim]);
  }

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    const Reduce& reduce = spec().reduce();
    if (reduce.kind() == "amax") return Output(Largest(InSumType(x), tape).to(x.scalar_type()), tape);
    if (reduce.kind() == "amin") return Output(Largest(InSumType(x).neg(), tape).neg().to(x.scalar_type()), tape);
    Tensor summands = InSumType(x);
    double divisor = reduce.kind() == "mean" ? count_ : 1;
    if (reduce.kind() == "var") {
      const Tensor own = inside_ ? summands.sum(dims_, /*keepdim=*/true) / count_ : summands;
      const Tensor mean = Move(kRoleMean, own, tape);
      summands = inside_ ? at::square(summands - mean) : summands + mean;
      divisor = std::max(0.0, count_ - reduce.correction());
    }
    if (!inside_) {
      return Output(EmptyResult(context().compute_shape, {x, summands}).to(x.scalar_type()), tape);
    }
    const Tensor sum = summands.sum(dims_, reduce.keepdim());
    return Output((divisor == 1 ? sum : sum / divisor).to(x.scalar_type()), tape);
  }

 private:
  // This rank's part of the sum that is the largest element of each row. Those that are equal to it have even shares of
  // its gradient, as in PyTorch: also on other ranks, so they are counted.
  Tensor Largest(const Tensor& x, Tape& tape) {
    const Tensor values = x.detach();
    const Tensor largest = Move(kRoleExtreme, inside_ ? OwnLargest(values) : values, tape);
    const Tensor equal = inside_ ? values == largest : values;
    const Tensor own = inside_ ? equal.to(values.scalar_type()).sum(dims_, /*keepdim=*/true) : values;
    const Tensor ties = Move(kRoleTies, own, tape);
    if (!inside_) return EmptyResult(context().compute_shape, {x});
    const Tensor shares = equal.to(values.scalar_type()).div_(ties);
    // 0, which has the gradient; an infinity has no distance from itself.
    const Tensor distance = (x - largest).masked_fill((equal & largest.isfinite()).logical_not(), 0);
    const Tensor zero = (distance * shares).sum(dims_, spec().reduce().keepdim());
    return first_ ? zero + largest.sum(dims_, spec().reduce().keepdim()) : zero;
  }

  Tensor OwnLargest(const Tensor& values) const {
    std::vector<int64_t> shape = values.sizes().vec();
    bool any = true;
    for (const int64_t dim : dims_) {
      any = any && shape[dim] > 0;
      shape[dim] = 1;
    }
    if (any) return at::amax(values, dims_, /*keepdim=*/true);
    return at::full(shape, -std::numeric_limits<double>::infinity(), values.options());
  }

  const bool inside_;
  const bool first_;
  const std::vector<int64_t> dims_;
  double count_ = 1;  // elements that are added up, on all ranks
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildReduce(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  const auto coords = compute.mesh().CoordsOf(context.rank);
  bool first = coords.has_value();
  for (int axis = 0; first && axis < compute.mesh().axes(); ++axis) {
    first = compute.placements()[axis].kind != Placement::Kind::kPartial || (*coords)[axis] == 0;
  }
  return std::make_unique<ReduceLayer>(std::move(context), coords.has_value(), first);
}

}  // namespace adjoin
