// Upsampling in one to three spatial dims, as torch.nn.Upsample.
//
// The role "x" fetches the box that this rank's outputs are interpolated from. Source cells and weights belong to
// global indices, and LibTorch's own kernels would take the box for the whole input; so each spatial dim in turn is a
// weighted sum of selections, with indices and weights made once. It can be differentiated any number of times; the
// gradient is the adjoint of the forward pass. The mode "area" is pooling (layers/pool).
// Errors: kInvalidArgument (as InterpolationsOf of layers/upsample/upsample_rule.h).
#include <map>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/pool/pool.h"
#include "layers/rules/layout_proto.h"
#include "layers/sum_type.h"
#include "layers/upsample/upsample_rule.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

// A cell of each output of one dim: where it lies in the local box, and its weight.
struct Tap {
  at::Tensor index;
  at::Tensor weight;  // broadcasts over the other dims; undefined: 1
};

struct Pass {
  int64_t dim = 0;
  std::vector<Tap> taps;
};

Pass PassOf(int64_t dim, int64_t dims, const Interpolation& interpolation, Interval outputs, at::ScalarType dtype,
            at::Device device) {
  Pass pass;
  pass.dim = dim;
  const int64_t first = interpolation.Reads(outputs).lo;
  std::vector<int64_t> shape(dims, 1);
  shape[dim] = outputs.size();
  for (int tap = 0; tap < interpolation.taps(); ++tap) {
    at::Tensor index = at::empty({outputs.size()}, at::kLong);
    at::Tensor weight = at::empty({outputs.size()}, at::kDouble);
    for (int64_t output = outputs.lo; output < outputs.hi; ++output) {
      const Interpolation::Tap of = interpolation.TapOf(output, tap);
      index.data_ptr<int64_t>()[output - outputs.lo] = of.index - first;
      weight.data_ptr<double>()[output - outputs.lo] = of.weight;
    }
    weight = interpolation.taps() == 1 ? at::Tensor() : weight.to(dtype).reshape(shape);
    pass.taps.push_back({index.to(device), weight.defined() ? weight.to(device) : weight});
  }
  return pass;
}

class UpsampleLayer : public LayerModule {
 public:
  UpsampleLayer(LayerContext context, std::vector<Pass> passes)
      : LayerModule(std::move(context)), passes_(std::move(passes)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    at::Tensor x = Input(inputs, 0, tape);
    // A cell adds up the gradients of all outputs that it gives to.
    at::Tensor y = runs_here() ? Kernel(InSumType(x)) : EmptyResult(context().compute_shape, {x});
    return Output(y.to(x.scalar_type()), tape);
  }

 private:
  at::Tensor Kernel(at::Tensor x) const {
    for (const Pass& pass : passes_) {
      at::Tensor y;
      for (const Tap& tap : pass.taps) {
        at::Tensor part = at::index_select(x, pass.dim, tap.index);
        if (tap.weight.defined()) part = part * tap.weight;
        y = y.defined() ? y + part : part;
      }
      x = y;
    }
    return x;
  }

  const std::vector<Pass> passes_;  // none for a dim that is copied
};

absl::StatusOr<std::unique_ptr<LayerModule>> BuildArea(LayerContext context) {
  const auto& shape = context.plan.compute().shape();
  if (shape.size() < 2) return absl::InvalidArgumentError("upsampling to a tensor without channels");
  *context.plan.mutable_spec()->mutable_pool() = AreaAsPool({shape.begin() + 2, shape.end()});
  return BuildPool(std::move(context));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildUpsample(LayerContext context) {
  if (context.plan.spec().upsample().mode() == kAreaMode) return BuildArea(std::move(context));
  if (context.input_shapes.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("upsampling reads one input, not ", context.input_shapes.size()));
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  ADJOIN_ASSIGN_OR_RETURN(const auto interpolations,
                          InterpolationsOf(context.plan.spec().upsample(), context.input_shapes[0], compute.dtype()));
  const Box outputs = compute.BoxOf(context.rank);
  std::vector<Pass> passes;
  for (const auto& [dim, interpolation] : interpolations) {
    if (interpolation.copies()) continue;
    passes.push_back(PassOf(dim, compute.dims(), interpolation, outputs[dim], SumType(ScalarTypeOf(compute.dtype())),
                            context.device));
  }
  return std::make_unique<UpsampleLayer>(std::move(context), std::move(passes));
}

}  // namespace adjoin
