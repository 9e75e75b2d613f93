// Convolution in one to three spatial dims, as torch.nn.Conv{1,2,3}d and ConvTranspose{1,2,3}d.
//
// The role "x" fetches exactly what this rank's outputs read, the physical boundary included, so the local kernel needs
// no padding there; stride, dilation and uneven cuts need nothing special. Dims that the plan has no reading for are
// padded by the kernel (edge_halo.h). For the backward pass, part and halo are kept together or apart, as the plan says
// (part_with_halo.h). A transposed kernel returns all that its inputs give to, which is then cut, or
// extended with zeros, to this rank's outputs. Local shapes, of this rank's share of the channels and groups:
// x [n, ci, ...], weight [co, ci / groups, ...] (transposed: [ci, co / groups, ...]), bias [co] or empty, y [n, co,
// ...].
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "layers/conv/convolution_kernel.h"
#include "layers/conv/edge_convolution.h"
#include "layers/conv/edge_halo.h"
#include "layers/conv/edge_roles.h"
#include "layers/conv/part_with_halo.h"
#include "layers/layer.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "layers/sum_type.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/own_part.h"
#include "primitives/geometry/transposed_window.h"
#include "primitives/geometry/window.h"
#include "primitives/movement.h"

namespace adjoin {
namespace {

class ConvLayer : public LayerModule {
 public:
  ConvLayer(LayerContext context, const Layout& compute, std::vector<Window> windows)
      : LayerModule(std::move(context)), windows_(std::move(windows)) {
    const WindowSpec& window = spec().conv().window();
    stride_.assign(window.stride().begin(), window.stride().end());
    dilation_.assign(window.dilation().begin(), window.dilation().end());
    transposed_ = spec().conv().transposed();
    for (int dim = 0; dim < window.pad_lo_size(); ++dim) {
      const bool fetched = transposed_ || this->context().reads[0].count(dim + 2) > 0;
      padding_.push_back(fetched ? 0 : window.pad_lo(dim));
    }
    const Box part = compute.BoxOf(this->context().rank);
    for (int dim = 2; dim < part.dims(); ++dim) {
      if (Moves(EdgeRole(dim))) cut_.push_back({dim, part[dim].lo > 0, part[dim].hi < compute.shape()[dim]});
    }
  }

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor read = Input(inputs, 0, tape);
    if (!cut_.empty()) return Output(BesideItsNeighbours(read, tape), tape);
    const at::Tensor x = InKernelType(read);
    const at::Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    const at::Tensor bias = Bias(x, tape);
    const bool is_kept = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
    const std::optional<Region> own = is_kept && runs_here() && weight.numel() > 0 ? OwnPart() : std::nullopt;
    if (own.has_value()) {
      return Output(ConvolveKeepingHaloApart(inputs[0], x, *own, weight, bias, Geometry(x, weight)), tape);
    }
    const at::Tensor y = runs_here() ? Kernel(x, weight, bias) : EmptyResult(context().compute_shape, {x, weight});
    return Output(y.to(read.scalar_type()), tape);
  }

 private:
  // On CPUs without AVX-512, LibTorch 1 has no transposed kernel of bfloat16.
  at::Tensor InKernelType(const at::Tensor& x) const { return transposed_ && x.is_cpu() ? InSumType(x) : x; }

  // Where this rank's part is in what the kernel reads; absent where the halo is not kept apart, or there is none.
  std::optional<Region> OwnPart() const {
    if (!context().plan.keeps_halo_apart()) return std::nullopt;
    const std::shared_ptr<Movement> halo = MovementOf(InputRole(0));
    if (halo == nullptr) return std::nullopt;
    for (const auto& [dim, reads] : context().reads[0]) {
      if (reads.boundary.defined()) return std::nullopt;
    }
    const ExchangeSchedule& schedule = halo->forward_plan().direct();
    std::optional<Region> own = OwnPartIn(schedule);
    return own.has_value() && own->size != schedule.to_shape() ? own : std::nullopt;
  }

  at::Tensor Bias(const at::Tensor& x, Tape& tape) const {
    const at::Tensor bias = Parameter(kRoleBias, tape);
    if (!bias.defined() || bias.numel() == 0) return at::Tensor();  // another rank's of this sum adds it
    return bias.to(x.scalar_type());
  }

  int64_t Groups(const at::Tensor& x, const at::Tensor& weight) const {
    return (transposed_ ? context().compute_shape[1] : x.size(1)) / weight.size(1);
  }

  // The edges travel while the kernel runs on what lies here.
  at::Tensor BesideItsNeighbours(const at::Tensor& x, Tape& tape) {
    const at::Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    const at::Tensor bias = Bias(x, tape);
    const bool computes = runs_here() && x.numel() > 0 && weight.numel() > 0;
    EdgeConvolution pass({.windows = windows_, .groups = computes ? Groups(x, weight) : 1, .cut = cut_});
    const std::vector<at::Tensor> inner = pass.TakeEdges(x);
    std::vector<std::unique_ptr<Movement::Pending>> pending;
    for (size_t i = 0; i < cut_.size(); ++i) pending.push_back(StartMove(EdgeRole(cut_[i].dim), inner[i], tape));
    const at::Tensor y = computes ? pass.Interior(x, weight, bias) : at::Tensor();
    std::vector<at::Tensor> outer;
    for (auto& edges : pending) outer.push_back(edges->Wait(tape));
    if (computes) return pass.AddEdges(y, outer, weight);
    outer.insert(outer.end(), {x, weight});
    return runs_here() ? Kernel(x, weight, bias) : EmptyResult(context().compute_shape, outer);
  }

  at::Tensor Kernel(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    if (x.numel() > 0 && weight.numel() > 0 && !transposed_) return Convolution(x, weight, bias);
    at::Tensor y;
    if (x.numel() > 0 && weight.numel() > 0) {
      y = at::constant_pad_nd(Convolution(x, weight, {}), PaddingToOutputs());
    } else {
      // No channels, or no input that would give to these outputs.
      y = at::zeros(context().compute_shape, x.options()) + EmptyResult({0}, {x, weight}).sum();
    }
    if (!bias.defined()) return y;
    std::vector<int64_t> channels(y.dim(), 1);
    channels[1] = bias.numel();
    return y + bias.reshape(channels);
  }

  // Its groups are those of this rank.
  at::Tensor Convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
    return Convolve(x, weight, bias, Geometry(x, weight));
  }

  ConvolutionGeometry Geometry(const at::Tensor& x, const at::Tensor& weight) const {
    return {stride_, padding_, dilation_, transposed_, Groups(x, weight)};
  }

  // From what this rank's inputs give to, to its outputs: cells to add, or, negative, to leave out. Last dim first.
  std::vector<int64_t> PaddingToOutputs() const {
    std::vector<int64_t> padding;
    const std::map<int, LocalReads>& reads = context().reads[0];
    for (auto dim = reads.rbegin(); dim != reads.rend(); ++dim) {
      const Interval outputs = dim->second.outputs;
      const auto* window = dim->second.reading.As<TransposedWindow>();
      const Interval written = window->Writes(window->Reads(outputs, dim->second.inputs));
      padding.push_back(written.lo - outputs.lo);
      padding.push_back(outputs.hi - written.hi);
    }
    return padding;
  }

  std::vector<int64_t> stride_;
  std::vector<int64_t> dilation_;
  bool transposed_;
  std::vector<int64_t> padding_;           // by the kernel, per spatial dim
  std::vector<Window> windows_;            // per spatial dim; none if transposed
  std::vector<EdgeConvolution::Cut> cut_;  // dims whose edges are exchanged alone
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConv(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  std::vector<Window> windows;
  const Conv& conv = context.plan.spec().conv();
  for (int dim = 2; dim < compute.dims() && !conv.transposed(); ++dim) {
    ADJOIN_ASSIGN_OR_RETURN(Window window, WindowOfConv(conv, dim));
    windows.push_back(std::move(window));
  }
  return std::make_unique<ConvLayer>(std::move(context), compute, std::move(windows));
}

}  // namespace adjoin
