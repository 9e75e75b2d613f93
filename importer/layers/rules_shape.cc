// Shapes, the order of dims, and what computes nothing.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

const char* InputOf(const OpNode& node) { return node.Has("self") ? "self" : "input"; }

// Elements of a sample. Exact up to 2^53; larger ones that differ and round alike fail when they are planned.
double PerSample(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), 1.0,
                         [](double product, int64_t extent) { return product * static_cast<double>(extent); });
}

// view, flatten, squeeze, ...: the elements in their row-major order, so the result's shape tells all. The batch stays.
absl::Status Reshaped(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor(InputOf(node));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> from, builder.Shape(input));
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> to, builder.Shape(node.outputs[0]));
  if (!builder.SameType(input, node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  for (const std::vector<int64_t>* shape : {&from, &to}) {
    if (std::count(shape->begin(), shape->end(), kComputedExtent) > 0) {
      return Unsupported("an extent is computed from the batch; right would be a batch that stays dim 0");
    }
  }
  if (from == to) return builder.Alias(node, input);
  if (from.empty() || to.empty() || from[0] != to[0]) {
    return Unsupported("it changes dim 0, the batch; right would be a result that keeps it as its first dim");
  }
  if (std::count(to.begin() + 1, to.end(), kAnyExtent) > 0) {
    return Unsupported(
        "its result has an extent that is not fixed; right would be an export in which only the batch is not");
  }
  if (PerSample(from) != PerSample(to)) return Unsupported("it moves elements from one sample to another");
  Layer layer;
  if (to.size() == 2 && from.size() > 2) {
    layer.mutable_flatten()->add_arg(1);
  } else {
    for (size_t i = 1; i < to.size(); ++i) layer.mutable_reshape()->add_arg(to[i]);
    if (to.size() == 1) return Unsupported("its result has no dim but the batch");
  }
  ADJOIN_RETURN_IF_ERROR(builder.Add(node, std::move(layer), {input}));
  builder.ShareElements(node, input);
  return absl::OkStatus();
}

absl::Status AddPermute(const OpNode& node, LayerBuilder& builder, const std::vector<int64_t>& order) {
  const std::string input = node.Tensor(InputOf(node));
  if (std::is_sorted(order.begin(), order.end())) return builder.Alias(node, input);
  Layer layer;
  for (int64_t dim : order) layer.mutable_permute()->add_arg(dim);
  ADJOIN_RETURN_IF_ERROR(builder.Add(node, std::move(layer), {input}));
  builder.ShareElements(node, input);
  return absl::OkStatus();
}

absl::Status Permuted(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(InputOf(node))));
  std::vector<int64_t> order;
  for (int64_t dim : node.Ints("dims")) order.push_back(DimFromFirst(dim, shape.size()));
  if (order.size() != shape.size()) return Unsupported("its dims are not those of its input");
  return AddPermute(node, builder, order);
}

absl::Status Transposed(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(InputOf(node))));
  const int64_t first = DimFromFirst(node.Int("dim0", 0), shape.size());
  const int64_t second = DimFromFirst(node.Int("dim1", 1), shape.size());
  if (first < 0 || second < 0) return Unsupported("its dims are not those of its input");
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[first], order[second]);
  return AddPermute(node, builder, order);
}

using Shares = LayerBuilder::Shares;

absl::Status Same(const OpNode& node, LayerBuilder& builder) { return builder.Alias(node, node.Tensor(InputOf(node))); }
// A copy where the elements do not lie in their order.
absl::Status Contiguous(const OpNode& node, LayerBuilder& builder) {
  return builder.Alias(node, node.Tensor(InputOf(node)), Shares::kPerhaps);
}
// No gradient flows back, which only matters where parameters are before it.
absl::Status Detached(const OpNode& node, LayerBuilder& builder) {
  if (builder.Trained(node.Tensor(InputOf(node)))) {
    return Unsupported("it keeps gradients from the parameters before it, which no layer does");
  }
  return Same(node, builder);
}
absl::Status Copied(const OpNode& node, LayerBuilder& builder) {
  return builder.Alias(node, node.Tensor(InputOf(node)), Shares::kNever);
}

// A conversion to the type that it has already.
absl::Status Converted(const OpNode& node, LayerBuilder& builder) {
  if (node.outputs.empty() || !builder.SameType(node.Tensor(InputOf(node)), node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  const bool copies = node.op == "_to_copy" || node.Bool("copy", false);
  return builder.Alias(node, node.Tensor(InputOf(node)), copies ? Shares::kNever : Shares::kPerhaps);
}

absl::Status Concatenated(const OpNode& node, LayerBuilder& builder) {
  const auto found = node.arguments.find("tensors");
  if (found == node.arguments.end() || found->second.tensors.empty()) return Unsupported("it has no tensors");
  if (found->second.tensors.size() == 1) return builder.Alias(node, found->second.tensors[0], Shares::kNever);
  Layer layer;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(found->second.tensors[0]));
  const int64_t dim = DimFromFirst(node.Int("dim", 0), shape.size());
  if (dim < 0) return Unsupported("its dim is not one of its input");
  layer.mutable_concat()->add_arg(dim);
  return builder.Add(node, std::move(layer), found->second.tensors);
}

absl::Status Rolled(const OpNode& node, LayerBuilder& builder) {
  const std::vector<int64_t> shifts = node.Ints("shifts"), dims = node.Ints("dims");
  if (shifts.size() != dims.size() || dims.empty())
    return Unsupported("it has no dims; right would be one for each shift");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor("self")));
  Layer layer;
  for (size_t i = 0; i < dims.size(); ++i) {
    layer.mutable_roll()->add_arg(DimFromFirst(dims[i], shape.size()));
    layer.mutable_roll()->add_arg(shifts[i]);
  }
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}

absl::Status Flipped(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor("self")));
  Layer layer;
  for (int64_t dim : node.Ints("dims")) layer.mutable_flip()->add_arg(DimFromFirst(dim, shape.size()));
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}

}  // namespace

const OpRules& ShapeRules() {
  static const auto* rules = new OpRules{
      {"_to_copy", Converted},    {"_unsafe_view", Reshaped}, {"alias", Same},
      {"cat", Concatenated},      {"clone", Copied},          {"concat", Concatenated},
      {"contiguous", Contiguous}, {"detach", Detached},       {"flatten", Reshaped},
      {"flip", Flipped},          {"permute", Permuted},      {"reshape", Reshaped},
      {"roll", Rolled},           {"squeeze", Reshaped},      {"to", Converted},
      {"transpose", Transposed},  {"unflatten", Reshaped},    {"unsqueeze", Reshaped},
      {"view", Reshaped},
  };
  return *rules;
}

}  // namespace adjoin
