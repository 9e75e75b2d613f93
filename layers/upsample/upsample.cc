// Upsampling in one to three spatial dims, as torch.nn.Upsample.
//
// The role "x" fetches the box that this rank's outputs are interpolated from. Source cells and weights belong to
// global indices, and LibTorch's own kernels would take the box for the whole input; so each spatial dim in turn is a
// weighted sum of selections, with indices and weights made once. It can be differentiated any number of times; the
// gradient is the adjoint of the forward pass. The mode "area" is pooling (layers/pool).
//
// Which cells the nearest modes select is LibTorch's choice where its definitions differ: then its kernel is asked
// once, with the cells' numbers in place of their values (primitives/geometry/interpolation.h). Errors:
// kInvalidArgument (as InterpolationsOf of layers/upsample/upsample_rule.h); kInternal (LibTorch reads a cell that no
// known definition has).
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/_upsample_nearest_exact3d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_nearest1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

at::Tensor Nearest(bool is_exact, const at::Tensor& x, const std::vector<int64_t>& outputs,
                   const std::vector<c10::optional<double>>& scale) {
  if (outputs.size() == 1) {
    return is_exact ? at::_upsample_nearest_exact1d(x, outputs, scale[0])
                    : at::upsample_nearest1d(x, outputs, scale[0]);
  }
  if (outputs.size() == 2) {
    return is_exact ? at::_upsample_nearest_exact2d(x, outputs, scale[0], scale[1])
                    : at::upsample_nearest2d(x, outputs, scale[0], scale[1]);
  }
  return is_exact ? at::_upsample_nearest_exact3d(x, outputs, scale[0], scale[1], scale[2])
                  : at::upsample_nearest3d(x, outputs, scale[0], scale[1], scale[2]);
}

// The cell that each of `part`, outputs of the spatial dim `dim`, is a copy of by LibTorch's kernel, in an input with
// so many channels; int64, on the CPU.
//
// The input that LibTorch is asked with has one cell in all other dims. It has what else LibTorch chooses a kernel by:
// the type, whether there are one, few or at least four channels, and the sum of the outputs' extents up to 128.
at::Tensor AskedCells(const std::map<int, Interpolation>& dims, int dim, Interval part, int64_t channels,
                      at::Device device) {
  constexpr int64_t kEnoughChannels = 4, kEnoughOutputs = 130;
  constexpr int64_t kDigit = 4096;  // float32 has no room for large numbers, so there are two samples of digits
  const Interpolation::Options& of = dims.at(dim).options();
  std::vector<int64_t> shape = {2, dims.size() == 1 ? 1 : std::min(channels, kEnoughChannels)}, outputs;
  std::vector<c10::optional<double>> scale;
  int64_t room = std::max<int64_t>(kEnoughOutputs - of.outputs, 0);
  for (const auto& [other, interpolation] : dims) {
    const int64_t extent =
        other == dim ? of.outputs : std::max<int64_t>(1, std::min(interpolation.options().outputs, room));
    if (other != dim) room = std::max<int64_t>(room - extent, 0);
    shape.push_back(other == dim ? of.inputs : 1);
    outputs.push_back(extent);
    scale.push_back(other == dim && of.scale > 0 ? c10::optional<double>(of.scale) : c10::nullopt);
  }
  const at::Tensor cells = at::arange(of.inputs, at::kLong);
  const at::Tensor high = at::floor_divide(cells, kDigit);
  const at::ScalarType type = of.dtype == DType::kFloat64 ? at::kDouble : at::kFloat;
  const at::Tensor numbers = at::stack({cells - high * kDigit, high}).to(type);
  std::vector<int64_t> view(shape.size(), 1);
  view[0] = 2;
  view[dim] = of.inputs;
  const bool is_exact = of.mode == Interpolation::Mode::kNearestExact;
  at::Tensor read = Nearest(is_exact, numbers.reshape(view).expand(shape).contiguous().to(device), outputs, scale)
                        .slice(dim, part.lo, part.hi);
  for (int64_t other = read.dim() - 1; other > 0; --other) {
    if (other != dim) read = read.select(other, 0);
  }
  read = read.to(at::kCPU, at::kLong);
  return read[0] + read[1] * kDigit;
}

// Copies of one cell each. Where the definitions of LibTorch's kernels differ for one of `outputs`, LibTorch is asked.
absl::StatusOr<Pass> NearestPass(const std::map<int, Interpolation>& dims, int dim, Interval outputs, int64_t channels,
                                 at::Device device) {
  const Interpolation& interpolation = dims.at(dim);
  const Interval reads = interpolation.Reads(outputs);
  at::Tensor index = at::empty({outputs.size()}, at::kLong);
  bool is_known = true;
  for (int64_t output = outputs.lo; output < outputs.hi && is_known; ++output) {
    const Interval cells = interpolation.Reads({output, output + 1});
    is_known = cells.size() == 1;
    index.data_ptr<int64_t>()[output - outputs.lo] = cells.lo - reads.lo;
  }
  if (!is_known) {
    index = AskedCells(dims, dim, outputs, channels, device) - reads.lo;
    const int64_t least = index.min().item<int64_t>(), most = index.max().item<int64_t>();
    if (least < 0 || most >= reads.size()) {
      return absl::InternalError(absl::StrCat("upsampling ", interpolation.ToString(), ": for outputs ", outputs.lo,
                                              " to ", outputs.hi - 1, " this LibTorch reads cells ", least + reads.lo,
                                              " to ", most + reads.lo, ", and not ", reads.lo, " to ", reads.hi - 1,
                                              " as the releases that Adjoin knows do"));
    }
  }
  return Pass{dim, {{index.to(device), at::Tensor()}}};
}

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
    pass.taps.push_back({index.to(device), weight.to(dtype).reshape(shape).to(device)});
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
    if (IsNearest(interpolation.options().mode)) {
      ADJOIN_ASSIGN_OR_RETURN(
          Pass pass, NearestPass(interpolations, dim, outputs[dim], context.input_shapes[0][1], context.device));
      passes.push_back(std::move(pass));
      continue;
    }
    passes.push_back(PassOf(dim, compute.dims(), interpolation, outputs[dim], SumType(ScalarTypeOf(compute.dtype())),
                            context.device));
  }
  return std::make_unique<UpsampleLayer>(std::move(context), std::move(passes));
}

}  // namespace adjoin
