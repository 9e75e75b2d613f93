// Sum, mean or variance of the local part over some dims, to be added up over the ranks that cut these dims.
//
// Sums are float32 for types of fewer bits. It can be differentiated any number of times. Local shapes: x any, y the
// same with extent 1 in these dims, or without them. Errors: kInvalidArgument where the plan's layout is none.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
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
  // `inside`: this rank is in the mesh; elsewhere all tensors are empty.
  ReduceLayer(LayerContext context, bool inside)
      : LayerModule(std::move(context)),
        inside_(inside),
        dims_(spec().reduce().dim().begin(), spec().reduce().dim().end()) {
    for (int64_t dim : dims_) count_ *= static_cast<double>(this->context().input_shapes[0][dim]);
  }

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    const Reduce& reduce = spec().reduce();
    Tensor summands = InSumType(x);
    double divisor = reduce.kind() == "mean" ? count_ : 1;
    if (reduce.kind() == "var") {
      const Tensor own = inside_ ? summands.sum(dims_, /*keepdim=*/true) / count_ : summands;
      const Tensor mean = Move(kRoleMean, own, tape);
      summands = inside_ ? at::square(summands - mean) : summands + mean;
      divisor = std::max(0.0, count_ - reduce.correction());
    }
    if (!inside_) return Output(EmptyResult(context().compute_shape, {x, summands}), tape);
    const Tensor sum = summands.sum(dims_, reduce.keepdim());
    return Output((divisor == 1 ? sum : sum / divisor).to(x.scalar_type()), tape);
  }

 private:
  const bool inside_;
  const std::vector<int64_t> dims_;
  double count_ = 1;  // elements that are added up, on all ranks
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildReduce(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  const bool inside = compute.mesh().CoordsOf(context.rank).has_value();
  return std::make_unique<ReduceLayer>(std::move(context), inside);
}

}  // namespace adjoin
