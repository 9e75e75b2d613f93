// torch.nn.Dropout and its forms for whole channels.
//
// In programs that train each element stays where its number (placed_random.h) is at least p, divided by 1 - p, and is
// 0 elsewhere; p = 1 leaves zeros. Elsewhere the layer returns its input. A second run (recompute) draws the same. It
// can be differentiated any number of times. Local shapes: x and y alike. Errors: kInvalidArgument where the plan's
// layout is none.
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/placed_random.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/random/philox.h"

namespace adjoin {
namespace {

class DropoutLayer : public LayerModule {
 public:
  // `shape`, `box`: of what a number is drawn for, the elements or, of the first two dims, the channels.
  DropoutLayer(LayerContext context, std::vector<int64_t> shape, Box box)
      : LayerModule(std::move(context)), p_(spec().dropout().p()), shape_(std::move(shape)), box_(std::move(box)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    if (!context().training || p_ == 0) return Output(x, tape);
    const at::Tensor kept = PlacedKept(Draws(kPurposeDropout), place().first_sample, shape_, box_, p_, x.device());
    std::vector<int64_t> each = box_.Shape();
    each.resize(x.dim(), 1);
    const at::Tensor y = x.masked_fill(kept.logical_not().reshape(each), 0);
    return Output(p_ < 1 ? y / (1 - p_) : y, tape);
  }

 private:
  const double p_;
  const std::vector<int64_t> shape_;
  const Box box_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildDropout(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(context.plan.compute()));
  std::vector<int64_t> shape = x.shape();
  Box box = x.BoxOf(context.rank);
  if (context.plan.spec().dropout().channel()) {
    shape.resize(2);
    box = Box({box[0], box[1]});
  }
  return std::make_unique<DropoutLayer>(std::move(context), std::move(shape), std::move(box));
}

}  // namespace adjoin
