// Adds a module's own parameter to the input, multiplies the two, or returns the parameter, for every sample or once.
//
// Local shapes: x [samples, ...]; the parameter "weight" as ParameterNeeded cuts it; y as x, or [samples, used ...], or
// [1, used ...]. With "expand" and "value", x gets a gradient of zeros: it stays in the graph, so that all ranks'
// graphs are alike. It can be differentiated any number of times. Errors: kInvalidArgument where the plan's layout is
// none.
#include <map>
#include <utility>

#include <ATen/TensorOperators.h>

#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/pointwise/parameter_part.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

using at::Tensor;

class ParameterLayer : public LayerModule {
 public:
  // `taken`: by dim, which elements this rank takes of what it has; of the other dims all.
  ParameterLayer(LayerContext context, std::map<int, Interval> taken)
      : LayerModule(std::move(context)), taken_(std::move(taken)) {}

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    if (!runs_here()) return Output(EmptyResult(context().compute_shape, {x, weight}), tape);
    for (const auto& [dim, part] : taken_) weight = weight.narrow(dim, part.lo, part.size());
    const std::string& combine = spec().parameter().combine();
    if (combine == "add") return Output(x + weight, tape);
    if (combine == "multiply") return Output(x * weight, tape);
    return Output(weight.expand(context().compute_shape) + EmptyResult({0}, {x}).sum(), tape);
  }

 private:
  const std::map<int, Interval> taken_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildParameter(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  const OwnParameter& spec = context.plan.spec().parameter();
  ADJOIN_ASSIGN_OR_RETURN(const Layout used, ParameterUsed(spec, compute, compute.dtype()));
  std::map<int, Interval> taken;
  const Box box = used.BoxOf(context.rank);
  for (int dim = 0; dim < used.dims(); ++dim) {
    if (used.shape()[dim] != spec.shape(dim)) taken[dim] = box[dim];
  }
  return std::make_unique<ParameterLayer>(std::move(context), std::move(taken));
}

}  // namespace adjoin
