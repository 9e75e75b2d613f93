#include "layers/conv/edge_convolution.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/kept_in_graph.h"

namespace adjoin {

// LibTorch runs the nodes that are ready in reverse order of creation, so Interior's before TakeEdges'. Should it ever
// not, Interior keeps x's gradient for itself: it is then added up as any other.
struct EdgeConvolution::Handover {
  bool expected = false;  // whether TakeEdges takes part in the backward pass
  bool too_late = false;  // TakeEdges came first in this one
  at::Tensor gradient;    // x's, by Interior
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Handover = EdgeConvolution::Handover;

// The first or last `size` cells of a dim.
at::Tensor First(const at::Tensor& x, int64_t dim, int64_t size) { return x.narrow(dim, 0, size); }
at::Tensor Last(const at::Tensor& x, int64_t dim, int64_t size) { return x.narrow(dim, x.size(dim) - size, size); }

// `part` at the front of `extent` cells of `dim`, or at their back, and zeros.
at::Tensor Widened(const at::Tensor& part, int64_t dim, int64_t extent, bool front) {
  std::vector<int64_t> padding(2 * part.dim(), 0);
  padding[2 * (part.dim() - 1 - dim) + (front ? 1 : 0)] = extent - part.size(dim);
  return at::constant_pad_nd(part, padding, 0);
}

class TakeEdgesFunction : public torch::autograd::Function<TakeEdgesFunction> {
 public:
  // The first cells that are taken of each of `dims`, and the last ones.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, std::vector<int64_t> dims,
                               std::vector<int64_t> first, std::vector<int64_t> last,
                               std::shared_ptr<Handover> handover) {
    variable_list edges;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (x.numel() == 0 && x.size(dims[i]) == 0) {
        edges.push_back(x.clone());
        continue;
      }
      edges.push_back(at::cat({First(x, dims[i], first[i]), Last(x, dims[i], last[i])}, dims[i]));
    }
    ctx->saved_data["dims"] = dims;
    ctx->saved_data["first"] = first;
    ctx->saved_data["last"] = last;
    ctx->saved_data["shape"] = x.sizes().vec();
    KeepInGraph(ctx, handover);
    return edges;
  }

  static variable_list backward(AutogradContext* ctx, variable_list edges) {
    const auto dims = ctx->saved_data["dims"].toIntVector(), shape = ctx->saved_data["shape"].toIntVector();
    const auto first = ctx->saved_data["first"].toIntVector(), last = ctx->saved_data["last"].toIntVector();
    if (at::GradMode::is_enabled()) {
      at::Tensor sum;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (!edges[i].defined() || shape[dims[i]] == 0) continue;
        for (const bool front : {true, false}) {
          const int64_t cells = front ? first[i] : last[i];
          if (cells == 0) continue;
          const at::Tensor edge = front ? First(edges[i], dims[i], cells) : Last(edges[i], dims[i], cells);
          const at::Tensor whole = Widened(edge, dims[i], shape[dims[i]], front);
          sum = sum.defined() ? sum + whole : whole;
        }
      }
      return {sum, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
    }
    Handover& handover = KeptInGraph<Handover>(ctx);
    at::Tensor gradient = std::exchange(handover.gradient, at::Tensor());
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!edges[i].defined() || shape[dims[i]] == 0) continue;
      if (!gradient.defined()) {
        handover.too_late = handover.expected;
        gradient = at::zeros(shape, edges[i].options());
      }
      First(gradient, dims[i], first[i]).add_(First(edges[i], dims[i], first[i]));
      Last(gradient, dims[i], last[i]).add_(Last(edges[i], dims[i], last[i]));
    }
    return {gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class InteriorFunction : public torch::autograd::Function<InteriorFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const ConvolutionGeometry& geometry, std::shared_ptr<Handover> handover) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["biased"] = bias.numel() > 0;
    ctx->saved_data["stride"] = geometry.stride;
    ctx->saved_data["padding"] = geometry.padding;
    ctx->saved_data["dilation"] = geometry.dilation;
    ctx->saved_data["groups"] = geometry.groups;
    KeepInGraph(ctx, handover);
    return Convolve(x, weight, bias.numel() > 0 ? bias : at::Tensor(), geometry);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    const ConvolutionGeometry geometry = {.stride = ctx->saved_data["stride"].toIntVector(),
                                          .padding = ctx->saved_data["padding"].toIntVector(),
                                          .dilation = ctx->saved_data["dilation"].toIntVector(),
                                          .groups = ctx->saved_data["groups"].toInt()};
    const bool needs_x = ctx->needs_input_grad(0);
    ConvolutionGradients made = ConvolveBackward(
        gradients[0], saved[0], saved[1], geometry,
        {needs_x, ctx->needs_input_grad(1), ctx->saved_data["biased"].toBool() && ctx->needs_input_grad(2)});
    Handover& handover = KeptInGraph<Handover>(ctx);
    handover.gradient = at::Tensor();
    const bool too_late = std::exchange(handover.too_late, false);
    if (needs_x && handover.expected && !too_late && !at::GradMode::is_enabled()) {
      handover.gradient = std::exchange(made.x, at::Tensor());
    }
    return {made.x, made.weight, made.bias, at::Tensor(), at::Tensor()};
  }
};

// Adds part i in place to the first cells of y in dims[i], or, where last[i], to the last ones.
class AddEdgesFunction : public torch::autograd::Function<AddEdgesFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::Tensor y, at::TensorList parts, std::vector<int64_t> dims,
                            std::vector<int64_t> last) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < parts.size(); ++i) {
      sizes.push_back(parts[i].size(dims[i]));
      (last[i] ? Last(y, dims[i], sizes[i]) : First(y, dims[i], sizes[i])).add_(parts[i]);
    }
    ctx->saved_data["dims"] = dims;
    ctx->saved_data["last"] = last;
    ctx->saved_data["sizes"] = sizes;
    ctx->mark_dirty({y});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto dims = ctx->saved_data["dims"].toIntVector(), last = ctx->saved_data["last"].toIntVector();
    const auto sizes = ctx->saved_data["sizes"].toIntVector();
    const at::Tensor& g = gradients[0];
    variable_list results = {g};
    for (size_t i = 0; i < dims.size(); ++i) {
      results.push_back(last[i] ? Last(g, dims[i], sizes[i]) : First(g, dims[i], sizes[i]));
    }
    results.resize(results.size() + 2);
    return results;
  }
};

}  // namespace

EdgeConvolution::EdgeConvolution(Options options)
    : cut_(std::move(options.cut)), handover_(std::make_shared<Handover>()) {
  for (const Window& window : options.windows) {
    geometry_.stride.push_back(window.options().stride);
    geometry_.padding.push_back(window.options().pad_lo);
    geometry_.dilation.push_back(window.options().dilation);
  }
  geometry_.groups = options.groups;
  for (const Cut& cut : cut_) edges_.push_back(EdgesOf(options.windows[cut.dim - 2]).value());
}

std::vector<at::Tensor> EdgeConvolution::TakeEdges(const at::Tensor& x) {
  std::vector<int64_t> dims, first, last;
  for (size_t i = 0; i < cut_.size(); ++i) {
    dims.push_back(cut_[i].dim);
    // What is read after a part are the next one's first cells.
    first.push_back(edges_[i].after.cells);
    last.push_back(edges_[i].before.cells);
  }
  handover_->expected = x.requires_grad() && !cut_.empty();
  return TakeEdgesFunction::apply(x, std::move(dims), std::move(first), std::move(last), handover_);
}

at::Tensor EdgeConvolution::Interior(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  // A Function takes no undefined tensor.
  return InteriorFunction::apply(x, weight, bias.defined() ? bias : at::empty({0}, x.options()), geometry_, handover_);
}

at::Tensor EdgeConvolution::AddEdges(const at::Tensor& y, const std::vector<at::Tensor>& outer,
                                     const at::Tensor& weight) {
  std::vector<at::Tensor> parts;
  std::vector<int64_t> dims, last;
  // A later cut dim has come with its halo; of an earlier one there are this part's cells alone.
  ConvolutionGeometry geometry = geometry_;
  for (const Cut& cut : cut_) geometry.padding[cut.dim - 2] = 0;
  for (size_t i = 0; i < cut_.size(); ++i) {
    const Cut& cut = cut_[i];
    for (const bool after : {false, true}) {
      const WindowEdges::Side& side = after ? edges_[i].after : edges_[i].before;
      if (!(after ? cut.after : cut.before) || side.cells == 0) continue;
      // Zeros in the place of the part's own cells.
      const at::Tensor cells = after ? Last(outer[i], cut.dim, side.cells) : First(outer[i], cut.dim, side.cells);
      parts.push_back(Convolve(Widened(cells, cut.dim, side.reads, /*front=*/!after), weight, {}, geometry));
      dims.push_back(cut.dim);
      last.push_back(after);
    }
    geometry.padding[cut.dim - 2] = geometry_.padding[cut.dim - 2];
  }
  return AddEdgesFunction::apply(y, at::TensorList(parts), std::move(dims), std::move(last));
}

}  // namespace adjoin
