// Normal noise, added or multiplied.
//
// In programs that train y = x + std z, or x (1 + std z), z a standard normal number for each element
// (placed_random.h). Elsewhere the layer returns its input. A second run (recompute) draws the same. It can be
// differentiated any number of times. Local shapes: x and y alike. Errors: kInvalidArgument where the plan's layout is
// none.
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

class NoiseLayer : public LayerModule {
 public:
  NoiseLayer(LayerContext context, std::vector<int64_t> shape, Box box)
      : LayerModule(std::move(context)), shape_(std::move(shape)), box_(std::move(box)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    if (!context().training) return Output(x, tape);
    const at::Tensor normals =
        PlacedNormals(Draws(kPurposeNoise), place().first_sample, shape_, box_, x.scalar_type(), x.device());
    const Noise& noise = spec().noise();
    if (noise.multiplicative()) return Output(x * (normals * noise.std() + 1), tape);
    return Output(x + normals * noise.std(), tape);
  }

 private:
  const std::vector<int64_t> shape_;
  const Box box_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildNoise(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(context.plan.compute()));
  Box box = x.BoxOf(context.rank);
  return std::make_unique<NoiseLayer>(std::move(context), x.shape(), std::move(box));
}

}  // namespace adjoin
