#include "planner/auto/layer_costs.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "layers/attention/attention_roles.h"
#include "layers/conv/edge_halo.h"
#include "layers/conv/edge_roles.h"
#include "layers/pointwise/softmax_roles.h"
#include "layers/pool/pool_roles.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/roles.h"
#include "layers/rules/spec_error.h"
#include "planner/auto/pairwise_minimum.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/step_memory.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/window_edges.h"

namespace adjoin {
namespace {

// The longest part of each dim: the local shape of a rank that has most.
std::vector<int64_t> LargestPart(const Layout& layout) {
  std::vector<int64_t> shape;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    const std::vector<int64_t>& boundaries = layout.Boundaries(dim);
    int64_t longest = 0;
    for (size_t part = 0; part + 1 < boundaries.size(); ++part) {
      longest = std::max(longest, boundaries[part + 1] - boundaries[part]);
    }
    shape.push_back(longest);
  }
  return shape;
}

// The part of `rank`, or where there is none given, the longest of each dim.
std::vector<int64_t> PartOf(const Layout& layout, std::optional<int> rank) {
  return rank.has_value() ? layout.LocalShape(*rank) : LargestPart(layout);
}

int64_t LargestRead(const Reading& reading, const std::vector<int64_t>& outputs, int64_t extent) {
  int64_t longest = 0;
  for (size_t part = 0; part + 1 < outputs.size(); ++part) {
    longest = std::max(longest, reading.Needed({outputs[part], outputs[part + 1]}, extent).extent);
  }
  return longest;
}

// What a rank computes on; without one, what a rank would that had the longest part of each dim.
LayerSizes SizesOf(const LayerOutcome& outcome, const std::vector<Layout>& x, std::optional<int> rank = std::nullopt) {
  LayerSizes sizes;
  for (size_t i = 0; i < x.size(); ++i) {
    const InputNeed& need = outcome.input[i];
    const Layout& read = need.layout.has_value() ? *need.layout : x[i];
    std::vector<int64_t> shape = PartOf(read, rank);
    const Layout& reader = need.reader.has_value() ? *need.reader : outcome.compute;
    for (const auto& [dim, reading] : need.readings) {
      if (rank.has_value()) {
        shape[dim] = reading.Needed(reader.BoxOf(*rank)[dim], read.shape()[dim]).extent;
      } else {
        shape[dim] = LargestRead(reading, reader.Boundaries(dim), read.shape()[dim]);
      }
    }
    sizes.input.push_back(std::move(shape));
  }
  sizes.output = PartOf(outcome.compute, rank);
  sizes.type = outcome.compute.dtype();
  for (const ParameterNeed& need : outcome.parameter) {
    if (!need.buffer) sizes.parameter.push_back(PartOf(need.needed, rank));
  }
  // [batch, queries, heads]
  if (outcome.spec.has_attention()) sizes.heads = PartOf(*outcome.input[0].reader, rank).back();
  for (const MovementNeed& movement : outcome.movement) {
    sizes.shared = sizes.shared || movement.role == kRoleLargest || movement.role == kRoleMax;
    if (movement.role == RingRole(sizes.key_parts)) ++sizes.key_parts;
    if (!IsEdgeRole(movement.role) || !outcome.spec.has_conv()) continue;
    for (const auto& entry : movement.readings) {
      const int dim = entry.first;
      if (movement.role != EdgeRole(dim)) continue;
      const absl::StatusOr<WindowEdges> read = EdgesOfConv(outcome.spec.conv(), dim);
      if (!read.ok()) continue;
      const int64_t parts = outcome.compute.Parts(dim);
      sizes.edge.resize(sizes.output.size());
      sizes.edge[dim] = {.read = *read, .before = parts > 1, .after = parts > 2};
    }
  }
  return sizes;
}

}  // namespace

double LayerCosts::OneWay(const Layout& from, const ReadNeed& need, bool forward, bool adjoint) {
  const int source = movements_.Layouts().Add(from);
  const MovementCosts::Pair pair = movements_.Seconds(source, movements_.AddRead(need));
  return (forward ? pair.forward : 0) + (adjoint ? pair.adjoint : 0);
}

std::string LayerCosts::Alike(Layer layer) {
  layer.clear_name();
  layer.clear_input();
  layer.clear_x();
  layer.clear_w();
  layer.clear_y();
  return layer.SerializeAsString();
}

const LayerCost& LayerCosts::Of(const Layer& layer, const std::string& alike, const std::vector<int>& inputs,
                                const std::vector<bool>& input_grad, const NamedLayouts& layouts) {
  std::string key =
      absl::StrCat(alike.size(), ",", layer.w().size(), ",", layer.y().size(), ":", alike, layer.w(), layer.y());
  for (size_t i = 0; i < inputs.size(); ++i) {
    // A rule may refuse a named input that it would move were it not named.
    const bool named = static_cast<int>(i) < layer.x_size() && !layer.x(static_cast<int>(i)).empty();
    absl::StrAppend(&key, "|", inputs[i], input_grad[i] ? "g" : "", named ? "x" : "");
  }
  const auto it = known_.find(key);
  if (it != known_.end()) return it->second;
  return known_.emplace(std::move(key), Ask(layer, inputs, input_grad, layouts)).first->second;
}

LayerCost LayerCosts::Ask(const Layer& layer, const std::vector<int>& inputs, const std::vector<bool>& input_grad,
                          const NamedLayouts& layouts) {
  LayerCost cost;
  const LayerRule* rule = options_.rules.Find(KindOf(layer));
  if (rule == nullptr) {
    cost.impossible = absl::StrCat("there is no layer of kind \"", KindOf(layer), "\"");
    return cost;
  }
  std::vector<Layout> x;
  for (const int input : inputs) x.push_back(movements_.Layouts()[input]);
  const auto ask = [&](const Layer& spec) {
    const LayerRequest request = {.spec = spec,
                                  .input = x,
                                  .layouts = layouts,
                                  .parameter_dtype = options_.parameters,
                                  .training = options_.training,
                                  .compute_dtype = options_.compute};
    return (*rule)(request);
  };
  absl::StatusOr<LayerOutcome> outcome = ask(layer);
  if (outcome.ok() && outcome->input.size() != x.size()) outcome = absl::InternalError("another number of inputs");
  if (!outcome.ok()) {
    cost.impossible = std::string(outcome.status().message());
    cost.field = FieldOf(outcome.status());
    return cost;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const InputNeed& need = outcome->input[i];
    const Layout& read = need.layout.has_value() ? *need.layout : x[i];
    cost.moves_input = cost.moves_input || read != x[i];
    ReadNeed wanted{&read};
    if (!need.readings.empty()) {
      wanted = {need.reader.has_value() ? &*need.reader : &outcome->compute, &need.readings, &read};
    }
    const int number = movements_.AddRead(wanted);
    cost.read.push_back(number);
  }
  cost.output = movements_.Layouts().Add(outcome->output);
  bool any_grad = false;
  for (const bool grad : input_grad) any_grad = any_grad || grad;
  for (const ParameterNeed& need : outcome->parameter) {
    if (need.buffer) continue;
    cost.trained = cost.trained || !outcome->spec.frozen();
    if (need.home.dims() < 2) continue;
    cost.has_weights = true;
    cost.weight_cells += BoundedProduct(LargestPart(need.needed));
  }
  CountKernel(*outcome, x, input_grad, cost);
  CountInnerMovements(*outcome, any_grad, cost);
  const bool shares = !layer.weights_of().empty();
  if (!outcome->parameter.empty() && !shares) {
    cost.home.push_back(CountHome(*outcome, HOME_DEFAULT, shares));
    for (const Home home : {SHARDED, OWNER}) {
      if (!options_.all_homes) break;
      Layer spec = layer;
      spec.set_home(home);
      const absl::StatusOr<LayerOutcome> other = ask(spec);
      if (other.ok()) cost.home.push_back(CountHome(*other, home, shares));
    }
  }
  if (options_.keeps_parameters) cost.parameter = std::move(outcome->parameter);
  return cost;
}

CostModel::KernelSeconds LayerCosts::KernelOf(const LayerOutcome& outcome, const std::vector<Layout>& x,
                                              const LayerSizes& largest, bool input_gradient, bool trained) const {
  if (looked_.empty()) return options_.model.OfLayer(outcome.spec, largest, input_gradient, trained);
  CostModel::KernelSeconds most;
  bool any = false;
  for (const int rank : looked_) {
    if (!outcome.compute.mesh().Has(rank)) continue;
    any = true;
    const CostModel::KernelSeconds seconds =
        options_.model.OfLayer(outcome.spec, SizesOf(outcome, x, rank), input_gradient, trained);
    most.forward = std::max(most.forward, options_.slowness[rank] * seconds.forward);
    most.backward = std::max(most.backward, options_.slowness[rank] * seconds.backward);
  }
  if (any) return most;
  // None of those that are looked at computes here: the largest part, as if the slowest rank had it.
  most = options_.model.OfLayer(outcome.spec, largest, input_gradient, trained);
  const double slowest = SlowestOf(options_.slowness, outcome.compute.mesh().ranks());
  return {slowest * most.forward, slowest * most.backward};
}

void LayerCosts::CountKernel(const LayerOutcome& outcome, const std::vector<Layout>& x,
                             const std::vector<bool>& input_grad, LayerCost& cost) {
  const LayerSizes sizes = SizesOf(outcome, x);
  bool any_grad = false;
  for (const bool grad : input_grad) any_grad = any_grad || grad;
  const CostModel::KernelSeconds seconds =
      KernelOf(outcome, x, sizes, options_.training && any_grad, options_.training && cost.trained);
  cost.forward_seconds = seconds.forward;
  cost.backward_seconds = options_.training ? seconds.backward : 0;
  LayerPlan plan;
  *plan.mutable_spec() = outcome.spec;
  const LayerMemory memory = MemoryOf(plan, sizes);
  cost.keeps_input = memory.keeps_input;
  cost.keeps_input.resize(x.size(), false);
  cost.keeps_output = memory.keeps_output;
  cost.kept_bytes = memory.keeps;
  cost.work_bytes = std::max(memory.forward_work, memory.backward_work);
  for (size_t i = 0; i < x.size(); ++i) cost.input_bytes.push_back(BytesOf(sizes.input[i], x[i].dtype()));
  cost.output_bytes = BytesOf(LargestPart(outcome.output), outcome.output.dtype());
  if (outcome.output != outcome.compute) cost.work_bytes += BytesOf(sizes.output, sizes.type);
}

void LayerCosts::CountInnerMovements(const LayerOutcome& outcome, bool input_grad, LayerCost& cost) {
  const bool grad = options_.training && input_grad;
  const bool trained = options_.training && cost.trained;
  double forward = 0, backward = 0;
  for (const MovementNeed& need : outcome.movement) {
    if (need.backward && !grad && !trained) continue;
    const bool adjoint = (grad || (trained && need.of_parameters)) && !need.constant;
    const ReadNeed wanted{&need.to, &need.readings, nullptr, &need.source};
    (need.backward ? backward : forward) += OneWay(need.from, wanted, true, false);
    if (adjoint) backward += OneWay(need.from, wanted, false, true);
  }
  forward += OneWay(outcome.compute, {&outcome.output}, true, false);
  if (grad || trained) backward += OneWay(outcome.compute, {&outcome.output}, false, true);
  cost.movement_seconds = forward + backward;
  cost.again_seconds = cost.forward_seconds + forward;
}

HomeCost LayerCosts::CountHome(const LayerOutcome& outcome, Home home, bool shares) {
  HomeCost cost;
  cost.home = home;
  int64_t elements = 0, tensors = 0;
  DType type = options_.parameters;
  for (const ParameterNeed& need : outcome.parameter) {
    const bool trained = options_.training && !need.buffer && !outcome.spec.frozen();
    cost.movement_seconds += options_.passes * OneWay(need.home, {&need.needed}, true, trained);
    const std::vector<int64_t> part = LargestPart(need.home);
    const int64_t bytes = BytesOf(part, need.home.dtype());
    const int copies = trained ? 2 + StatesOf(options_.optimizer) : 1;
    cost.bytes += copies * bytes;
    if (!trained) continue;
    elements += BoundedProduct(part);
    ++tensors;
    type = need.home.dtype();
    const auto dual = need.home.Dual();
    if (dual.ok() && *dual != need.home) cost.movement_seconds += OneWay(*dual, {&need.home}, true, false);
  }
  cost.seconds = cost.movement_seconds;
  double slowest = 1;
  for (const ParameterNeed& need : outcome.parameter) {
    slowest = std::max(slowest, SlowestOf(options_.slowness, need.home.mesh().ranks()));
  }
  if (tensors > 0) cost.seconds += slowest * options_.model.OfUpdate(options_.optimizer, elements, tensors, type);
  return cost;
}

}  // namespace adjoin
