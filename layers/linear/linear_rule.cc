// y = x W^T + b over the last dim of [batch, ..., features]; with `transposed`, of a weight [in, out], y = x W + b.
//
// With w, a layout of the weight [out, in]: x goes to the ranks of w, its features cut as W's columns and the same for
// all of W's rows; each rank multiplies with its own block of the weight; the products are partial sums along `in`,
// moved to y by summing them. Axes along which w is the same (B) cut the batch, or what x cuts along them: data and
// tensor parallel. The bias lives and is added on the ranks of `in` index 0. Absent y: the products of those ranks.
//
// Without w, W follows from x and y: its columns are cut as the features of x; its rows as those of y along axes of the
// same mesh along which x is the same; along all other axes ranks use the same weight. Absent y: cut like x.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

// Dims of the weight W; a transposed one is stored, and cut by w, in the other order.
constexpr int kOut = 0, kIn = 1;

std::vector<int64_t> Stored(const Layer& spec, const std::vector<int64_t>& weight) {
  if (!spec.linear().transposed()) return weight;
  return {weight[kIn], weight[kOut]};
}

// The same weight with its dims in the other order.
absl::StatusOr<Layout> Turned(const Layout& layout) {
  std::vector<Placement> placements = layout.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Placement::Kind::kSplit) placement = Placement::Split(1 - placement.dim);
  }
  Layout::Cuts cuts;
  for (int dim : {0, 1}) {
    if (!layout.AxesOf(dim).empty()) cuts[1 - dim] = PartSizes(layout, dim);
  }
  return Layout::Create({layout.shape()[1], layout.shape()[0]}, layout.dtype(), layout.mesh(), std::move(placements),
                        std::move(cuts));
}

absl::Status CheckInput(const Layout& x) {
  if (x.dims() < 2) {
    return AtField("input", InvalidSpec("it reads [batch, ..., features]; its input is ", ShapeText(x.shape())));
  }
  if (x.shape().back() < 1) return AtField("input", InvalidSpec("its input has no features"));
  return absl::OkStatus();
}

// Who multiplies what: placements of the input and of the weight on one mesh.
struct WeightBlocks {
  Mesh mesh;
  std::vector<Placement> x;        // S or B; of the features where the weight has S(kIn)
  std::vector<Placement> weight;   // S(kOut), S(kIn), B
  Layout::Cuts x_cuts;             // of dims that are not there: even
  std::vector<int64_t> out_sizes;  // absent where no axis cuts the outputs

  bool HasAxis(int weight_dim) const {
    return std::find(weight.begin(), weight.end(), Placement::Split(weight_dim)) != weight.end();
  }
};

absl::StatusOr<WeightBlocks> BlocksOfWeight(const LayerRequest& request, const std::vector<int64_t>& weight) {
  ADJOIN_ASSIGN_OR_RETURN(
      Layout w, request.layouts.Resolve(request.spec.w(), Stored(request.spec, weight), request.parameter_dtype));
  if (request.spec.linear().transposed()) {
    ADJOIN_ASSIGN_OR_RETURN(w, Turned(w));
  }
  const Layout& x = request.input[0];
  const int features = x.dims() - 1;
  WeightBlocks blocks{w.mesh(), {}, w.placements(), {}, {}};
  std::vector<int64_t> parts(x.dims(), 1);
  for (int axis = 0; axis < w.mesh().axes(); ++axis) {
    Placement placement = Placement::Broadcast();
    if (w.placements()[axis] == Placement::Split(kIn)) {
      placement = Placement::Split(features);
    } else if (w.placements()[axis] == Placement::Broadcast()) {
      // All that the same weight is for: other samples.
      const bool kept = x.mesh() == w.mesh() && x.placements()[axis].kind == Placement::Kind::kSplit &&
                        x.placements()[axis].dim != features;
      placement = kept ? x.placements()[axis] : Placement::Split(0);
      parts[placement.dim] *= w.mesh().shape()[axis];
    }
    blocks.x.push_back(placement);
  }
  for (int dim = 0; dim < features; ++dim) {
    if (parts[dim] > 1 && parts[dim] == x.Parts(dim)) blocks.x_cuts[dim] = PartSizes(x, dim);
  }
  if (blocks.HasAxis(kIn)) blocks.x_cuts[features] = PartSizes(w, kIn);
  if (blocks.HasAxis(kOut)) blocks.out_sizes = PartSizes(w, kOut);
  return blocks;
}

// Without w. `y`: the output's layout, where the job names one.
WeightBlocks BlocksOfInput(const Layout& x, const std::optional<Layout>& y) {
  const int features = x.dims() - 1;
  WeightBlocks blocks{x.mesh(), x.placements(), {}, {}, {}};
  std::vector<int> out_axes;
  if (y.has_value() && y->mesh() == x.mesh()) out_axes = y->AxesOf(features);
  for (int axis : out_axes) {
    if (x.placements()[axis].kind == Placement::Kind::kBroadcast) continue;
    out_axes.clear();
    break;
  }
  if (!out_axes.empty()) blocks.out_sizes = PartSizes(*y, features);
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    // An axis of one rank sums nothing: the result is not partial along it.
    const bool in = x.placements()[axis] == Placement::Split(features) && x.mesh().shape()[axis] > 1;
    const bool out = std::find(out_axes.begin(), out_axes.end(), axis) != out_axes.end();
    blocks.weight.push_back(in ? Placement::Split(kIn) : out ? Placement::Split(kOut) : Placement::Broadcast());
  }
  for (int dim = 0; dim <= features; ++dim) {
    if (!x.AxesOf(dim).empty()) blocks.x_cuts[dim] = PartSizes(x, dim);
  }
  return blocks;
}

// The ranks of `in` index 0, without the axes that cut the weight's columns; `placements` loses the same axes.
absl::StatusOr<Mesh> FirstColumn(const WeightBlocks& blocks, std::vector<Placement>& placements) {
  std::vector<int64_t> shape;
  std::vector<Placement> kept;
  for (int axis = 0; axis < blocks.mesh.axes(); ++axis) {
    if (blocks.weight[axis] == Placement::Split(kIn)) continue;
    shape.push_back(blocks.mesh.shape()[axis]);
    kept.push_back(placements[axis]);
  }
  std::vector<int> ranks;
  for (int rank : blocks.mesh.ranks()) {
    const std::vector<int64_t> coords = *blocks.mesh.CoordsOf(rank);
    bool first = true;
    for (int axis = 0; axis < blocks.mesh.axes(); ++axis) {
      first = first && (blocks.weight[axis] != Placement::Split(kIn) || coords[axis] == 0);
    }
    if (first) ranks.push_back(rank);
  }
  if (shape.empty()) {
    shape.push_back(1);
    kept.push_back(Placement::Broadcast());
  }
  placements = std::move(kept);
  ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(std::move(shape), std::move(ranks)));
  return mesh.WithWeights(blocks.mesh.weights());
}

struct Operands {
  Layout x;
  Layout weight;
  Layout bias;
  Layout compute;
  Layout output;  // where the job has no y
};

absl::StatusOr<Operands> OperandsOf(const LayerRequest& request, const WeightBlocks& blocks,
                                    const std::vector<int64_t>& weight_shape) {
  const Layout& x = request.input[0];
  const int features = x.dims() - 1;
  const DType dtype = request.parameter_dtype;
  ADJOIN_ASSIGN_OR_RETURN(Layout needed, Layout::Create(x.shape(), x.dtype(), blocks.mesh, blocks.x, blocks.x_cuts));
  Layout::Cuts weight_cuts;
  if (blocks.HasAxis(kOut)) weight_cuts[kOut] = blocks.out_sizes;
  if (blocks.HasAxis(kIn)) weight_cuts[kIn] = PartSizes(needed, features);
  ADJOIN_ASSIGN_OR_RETURN(Layout weight, Layout::Create(weight_shape, dtype, blocks.mesh, blocks.weight, weight_cuts));

  std::vector<int64_t> shape = x.shape();
  shape[features] = weight_shape[kOut];
  std::vector<Placement> products = blocks.x;
  for (size_t axis = 0; axis < products.size(); ++axis) {
    if (blocks.weight[axis] == Placement::Split(kOut)) products[axis] = Placement::Split(features);
    if (blocks.weight[axis] == Placement::Split(kIn)) products[axis] = Placement::Partial();
  }
  Layout::Cuts cuts = blocks.x_cuts;
  cuts.erase(features);
  Layout::Cuts product_cuts = cuts;
  if (blocks.HasAxis(kOut)) product_cuts[features] = blocks.out_sizes;
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Layout::Create(shape, x.dtype(), blocks.mesh, products, product_cuts));

  std::vector<Placement> of_bias = blocks.weight;
  ADJOIN_ASSIGN_OR_RETURN(const Mesh column, FirstColumn(blocks, of_bias));
  Layout::Cuts bias_cuts;
  if (blocks.HasAxis(kOut)) bias_cuts[0] = blocks.out_sizes;
  ADJOIN_ASSIGN_OR_RETURN(Layout bias, Layout::Create({weight_shape[kOut]}, dtype, column, of_bias, bias_cuts));

  Layout output = compute;
  if (!request.spec.w().empty()) {
    ADJOIN_RETURN_IF_ERROR(FirstColumn(blocks, products).status());
    ADJOIN_ASSIGN_OR_RETURN(output, Layout::Create(shape, x.dtype(), column, products, product_cuts));
  } else if (blocks.HasAxis(kIn)) {
    ADJOIN_ASSIGN_OR_RETURN(output, Layout::Create(shape, x.dtype(), blocks.mesh, blocks.x, cuts));
  }
  return Operands{std::move(needed), std::move(weight), std::move(bias), std::move(compute), std::move(output)};
}

absl::StatusOr<WeightBlocks> BlocksOf(const LayerRequest& request, const std::vector<int64_t>& weight_shape) {
  const Layout& x = request.input[0];
  if (!request.spec.w().empty()) {
    auto blocks = BlocksOfWeight(request, weight_shape);
    return blocks.ok() ? blocks : AtField("w", blocks.status());
  }
  std::optional<Layout> y;
  if (!request.spec.y().empty()) {
    std::vector<int64_t> shape = x.shape();
    shape.back() = weight_shape[kOut];
    ADJOIN_ASSIGN_OR_RETURN(y, OutputLayout(request, shape, x));
  }
  return BlocksOfInput(x, y);
}

}  // namespace

absl::StatusOr<LayerOutcome> LinearRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  ADJOIN_RETURN_IF_ERROR(CheckInput(x));
  Layer spec = request.spec;
  Linear& linear = *spec.mutable_linear();
  if (linear.out_features() < 1) {
    return AtField("linear.out_features", InvalidSpec("linear.out_features is missing; it must be at least 1"));
  }
  linear.set_bias(linear.has_bias() ? linear.bias() : true);
  const int64_t in_features = x.shape().back();
  const std::vector<int64_t> weight = {linear.out_features(), in_features};
  auto weight_volume = CheckedVolume(weight);
  if (!weight_volume.ok()) return AtField("linear", weight_volume.status());
  std::vector<int64_t> shape = x.shape();
  shape.back() = linear.out_features();
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  ADJOIN_ASSIGN_OR_RETURN(const WeightBlocks blocks, BlocksOf(request, weight));
  ADJOIN_ASSIGN_OR_RETURN(Operands operands, OperandsOf(request, blocks, weight));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, operands.output));

  if (linear.transposed()) {
    ADJOIN_ASSIGN_OR_RETURN(operands.weight, Turned(operands.weight));
  }
  const std::vector<int>& ranks = operands.weight.mesh().ranks();
  ADJOIN_ASSIGN_OR_RETURN(Layout weight_home, HomeOf(spec, operands.weight, operands.weight, ranks));
  std::vector<ParameterNeed> parameters;
  parameters.push_back(
      {.role = kRoleWeight, .home = std::move(weight_home), .needed = operands.weight, .fan_in = in_features});
  if (linear.bias()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout bias_home, HomeOf(spec, operands.bias, operands.bias, ranks));
    parameters.push_back(
        {.role = kRoleBias, .home = std::move(bias_home), .needed = operands.bias, .fan_in = in_features});
  }
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{.layout = std::move(operands.x)}},
                      .parameter = std::move(parameters),
                      .compute = std::move(operands.compute),
                      .output = std::move(output),
                      .flops = 2.0 * static_cast<double>(volume) * static_cast<double>(in_features)};
}

}  // namespace adjoin
