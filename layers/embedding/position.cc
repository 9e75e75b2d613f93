// Adds a vector for each position.
//
// "learned": the parameter "weight", of the shape of this rank's part of a sample. "sinusoidal": at position t, feature
// 2 i is sin(t / 10000^(2 i / features)), feature 2 i + 1 the cosine of the same; made once, in float64. It can be
// differentiated any number of times. Local shapes: x and y alike. Errors: kInvalidArgument where the plan's layout is
// none.
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr double kLongest = 10000;  // wavelength, in positions times 2 pi

class PositionLayer : public LayerModule {
 public:
  // `fixed`: what is added where nothing is trained; else undefined.
  PositionLayer(LayerContext context, at::Tensor fixed) : LayerModule(std::move(context)), fixed_(std::move(fixed)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    const at::Tensor weight = Parameter(kRoleWeight, tape);
    return Output(x + (fixed_.defined() ? fixed_ : weight).to(x.scalar_type()), tape);
  }

 private:
  const at::Tensor fixed_;
};

// The sines and cosines of these positions and of these features, of `all_features` in all.
at::Tensor Sinusoids(Interval positions, Interval features, int64_t all_features) {
  at::Tensor table = at::empty({positions.size(), features.size()}, at::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t position = positions.lo; position < positions.hi; ++position) {
    for (int64_t feature = features.lo; feature < features.hi; ++feature) {
      const auto even = static_cast<double>(feature - feature % 2);
      const double angle = static_cast<double>(position) / std::pow(kLongest, even / static_cast<double>(all_features));
      *out++ = feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPosition(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(context.plan.compute()));
  const Box box = x.BoxOf(context.rank);
  at::Tensor fixed;
  if (context.plan.spec().position().kind() == "sinusoidal") {
    fixed = Sinusoids(box[1], box[2], x.shape()[2]).to(context.device);
  }
  return std::make_unique<PositionLayer>(std::move(context), std::move(fixed));
}

}  // namespace adjoin
