#include "layers/conv/part_with_halo.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/conv/unread_tensor.h"
#include "layers/kept_in_graph.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where the part and the halo are in what is read, and the convolution.
struct PartWithHalo {
  std::vector<int64_t> shape;  // of what is read
  Region own;
  ConvolutionGeometry geometry;
  std::vector<Region> around;  // boxes that do not meet, none empty, and with `own` are all of it
};

PartWithHalo CutAround(const Region& own, const ConvolutionGeometry& geometry, std::vector<int64_t> shape) {
  PartWithHalo cut{std::move(shape), own, geometry, {}};
  for (size_t dim = 0; dim < cut.shape.size(); ++dim) {
    const int64_t end = own.at[dim] + own.size[dim];
    for (const bool before : {true, false}) {
      // It has the part's extent in earlier dims, all of what is read in later ones.
      Region box{std::vector<int64_t>(cut.shape.size(), 0), cut.shape};
      for (size_t earlier = 0; earlier < dim; ++earlier) {
        box.at[earlier] = own.at[earlier];
        box.size[earlier] = own.size[earlier];
      }
      box.at[dim] = before ? 0 : end;
      box.size[dim] = before ? own.at[dim] : cut.shape[dim] - end;
      if (box.Volume() > 0) cut.around.push_back(std::move(box));
    }
  }
  return cut;
}

at::Tensor BoxOf(const at::Tensor& x, const Region& box) {
  at::Tensor cells = x;
  for (size_t dim = 0; dim < box.at.size(); ++dim) {
    const auto at = static_cast<int64_t>(dim);
    if (box.size[dim] != x.size(at)) cells = cells.narrow(at, box.at[dim], box.size[dim]);
  }
  return cells;
}

// `cells` in the box, and zeros around it.
at::Tensor AmongZeros(const at::Tensor& cells, const Region& box, const std::vector<int64_t>& shape) {
  std::vector<int64_t> padding;  // last dim first
  for (size_t dim = shape.size(); dim-- > 0;) {
    padding.push_back(box.at[dim]);
    padding.push_back(shape[dim] - box.at[dim] - box.size[dim]);
  }
  return at::constant_pad_nd(cells, padding, 0);
}

at::Tensor PutTogether(const at::Tensor& part, const variable_list& halo, const PartWithHalo& cut) {
  if (at::GradMode::is_enabled()) {
    at::Tensor sum = AmongZeros(part, cut.own, cut.shape);
    for (size_t i = 0; i < halo.size(); ++i) sum = sum + AmongZeros(halo[i], cut.around[i], cut.shape);
    return sum;
  }
  const at::Tensor read = at::empty(cut.shape, part.options());
  BoxOf(read, cut.own).copy_(part);
  for (size_t i = 0; i < halo.size(); ++i) BoxOf(read, cut.around[i]).copy_(halo[i]);
  return read;
}

ConvolutionGradients Gradients(const at::Tensor& of_result, const at::Tensor& part, const variable_list& halo,
                               const at::Tensor& weight, const PartWithHalo& cut, ConvolutionGradientsWanted wanted) {
  if (at::GradMode::is_enabled())
    return ConvolveBackward(of_result, PutTogether(part, halo, cut), weight, cut.geometry, wanted);
  // What is put together is gone before the input's gradient is made, which needs no more than the shape.
  ConvolutionGradients made;
  ConvolutionGradientsWanted left = wanted;
  if (wanted.weight) {
    made = ConvolveBackward(of_result, PutTogether(part, halo, cut), weight, cut.geometry, {false, true, wanted.bias});
    left.weight = left.bias = false;
  }
  if (!left.x && !left.bias) return made;
  const ConvolutionGradients others =
      ConvolveBackward(of_result, UnreadTensor(cut.shape, part.options()), weight, cut.geometry, left);
  made.x = others.x;
  if (left.bias) made.bias = others.bias;
  return made;
}

class KeepingHaloApartFunction : public torch::autograd::Function<KeepingHaloApartFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& read, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& part, at::TensorList halo,
                            std::shared_ptr<PartWithHalo> cut) {
    variable_list kept = {part, weight};
    kept.insert(kept.end(), halo.begin(), halo.end());
    ctx->save_for_backward(std::move(kept));
    ctx->saved_data["biased"] = bias.numel() > 0;
    KeepInGraph(ctx, cut);
    return Convolve(read, weight, bias.numel() > 0 ? bias : at::Tensor(), cut->geometry);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    variable_list halo = ctx->get_saved_variables();
    const at::Tensor part = halo[0], weight = halo[1];
    halo.erase(halo.begin(), halo.begin() + 2);
    const PartWithHalo& cut = KeptInGraph<PartWithHalo>(ctx);
    const ConvolutionGradients made = Gradients(gradients[0], part, halo, weight, cut,
                                                {ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                                                 ctx->saved_data["biased"].toBool() && ctx->needs_input_grad(2)});
    variable_list results = {made.x, made.weight, made.bias};
    results.resize(3 + 1 + halo.size() + 1);  // the part, the halo, and what is no tensor have none
    return results;
  }
};

}  // namespace

at::Tensor ConvolveKeepingHaloApart(const at::Tensor& part, const at::Tensor& read, const Region& own,
                                    const at::Tensor& weight, const at::Tensor& bias,
                                    const ConvolutionGeometry& geometry) {
  auto cut = std::make_shared<PartWithHalo>(CutAround(own, geometry, read.sizes().vec()));
  std::vector<at::Tensor> halo;
  for (const Region& box : cut->around) halo.push_back(BoxOf(read, box).clone());
  // A Function takes no undefined tensor.
  return KeepingHaloApartFunction::apply(read, weight, bias.defined() ? bias : at::empty({0}, read.options()), part,
                                         at::TensorList(halo), std::move(cut));
}

}  // namespace adjoin
