// Shapes, the order of dims, and what computes nothing.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

const char* InputOf(const OpNode& node) { return node.Has("self") ? "self" : "input"; }

// What becomes of a layer's output, or of a parameter.
absl::Status SetReshaped(const OpNode& node, LayerBuilder& builder, const std::vector<int64_t>& to) {
  const std::string input = node.Tensor(InputOf(node));
  if (const ParameterView* parameter = builder.ParameterOf(input); parameter != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterView view, parameter->Reshaped(to));
    return builder.SetParameterView(node, input, std::move(view));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ValueView from, builder.ViewOf(input));
  absl::StatusOr<ValueView> view = from.Reshaped(to);
  if (!view.ok() && from.dims() > 1 && from.HasBatch() && from.BatchDim() == 0 && from.BatchIsAlone()) {
    // Reshapes before it divided the dims in other ways: of a layer that returns them whole.
    ADJOIN_ASSIGN_OR_RETURN(ValueView of_whole, ValueView::Of(from.shape()).Reshaped(to));
    ADJOIN_ASSIGN_OR_RETURN(const std::string whole, builder.SourceOf(input));
    ADJOIN_RETURN_IF_ERROR(builder.SetResult(node, whole, std::move(of_whole)));
    builder.ShareElements(node, input);
    return absl::OkStatus();
  }
  ADJOIN_RETURN_IF_ERROR(view.status());
  return builder.SetView(node, input, *std::move(view));
}

// view, flatten, ...: the elements in their row-major order, so the result's shape tells all.
absl::Status Reshaped(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor(InputOf(node));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> from, builder.Shape(input));
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> to, builder.Shape(node.outputs[0]));
  if (!builder.SameType(input, node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  if (from == to && std::count(to.begin(), to.end(), kComputedExtent) == 0) return builder.Alias(node, input);
  return SetReshaped(node, builder, to);
}

// A new dim of extent 1, where `dim` says.
absl::Status Unsqueezed(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor(InputOf(node));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(input));
  const int64_t dim = DimFromFirst(node.Int("dim", 0), shape.size() + 1);
  if (dim < 0) return Unsupported("its dim is not one of its result");
  if (const ParameterView* parameter = builder.ParameterOf(input); parameter != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterView longer, parameter->WithDim(static_cast<size_t>(dim)));
    return builder.SetParameterView(node, input, std::move(longer));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(input));
  if (static_cast<size_t>(dim) > view.dims()) return Unsupported("its dim is not one of its result");
  return builder.SetView(node, input, view.WithDim(static_cast<size_t>(dim)));
}

// Dims of extent 1 go: all of them, or those that are named.
absl::Status Squeezed(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor(InputOf(node));
  if (!builder.IsLayer(input) || !node.Has("dim")) return Reshaped(node, builder);
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, builder.ViewOf(input));
  const std::vector<int64_t> shape = view.shape();
  std::set<int64_t, std::greater<int64_t>> dims;
  for (int64_t dim : node.Ints("dim")) dims.insert(DimFromFirst(dim, shape.size()));
  for (int64_t dim : dims) {
    if (dim < 0) return Unsupported("its dim is not one of its input");
    if (shape[static_cast<size_t>(dim)] != 1) continue;
    if (static_cast<size_t>(dim) == view.BatchDim()) {
      return Unsupported("it leaves out the batch, of one sample; right would be an export of two or more");
    }
    view = view.WithoutDim(static_cast<size_t>(dim));
  }
  return builder.SetView(node, input, std::move(view));
}

absl::Status SetPermuted(const OpNode& node, LayerBuilder& builder, const std::vector<int64_t>& order) {
  const std::string input = node.Tensor(InputOf(node));
  if (std::is_sorted(order.begin(), order.end())) return builder.Alias(node, input);
  if (const ParameterView* parameter = builder.ParameterOf(input); parameter != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterView turned, parameter->Permuted(order));
    return builder.SetParameterView(node, input, std::move(turned));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(input));
  if (view.dims() != order.size()) return Unsupported("its dims are not those of its input");
  return builder.SetView(node, input, view.Permuted(order));
}

absl::Status Permuted(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(InputOf(node))));
  std::vector<int64_t> order;
  for (int64_t dim : node.Ints("dims")) order.push_back(DimFromFirst(dim, shape.size()));
  const std::set<int64_t> dims(order.begin(), order.end());
  if (order.size() != shape.size() || dims.size() != order.size() || dims.count(-1) > 0) {
    return Unsupported("its dims are not those of its input");
  }
  return SetPermuted(node, builder, order);
}

absl::Status SwapDims(const OpNode& node, LayerBuilder& builder, int64_t a, int64_t b) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(InputOf(node))));
  const int64_t first = DimFromFirst(a, shape.size()), second = DimFromFirst(b, shape.size());
  if (first < 0 || second < 0) return Unsupported("its dims are not those of its input");
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(first)], order[static_cast<size_t>(second)]);
  return SetPermuted(node, builder, order);
}

absl::Status Transposed(const OpNode& node, LayerBuilder& builder) {
  return SwapDims(node, builder, node.Int(node.Has("axis0") ? "axis0" : "dim0", 0),
                  node.Int(node.Has("axis1") ? "axis1" : "dim1", 1));
}

// x.t(), x.mT
absl::Status MatrixTransposed(const OpNode& node, LayerBuilder& builder) { return SwapDims(node, builder, -2, -1); }

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
  const std::vector<std::string>& tensors = found->second.tensors;
  if (tensors.size() == 1) return builder.Alias(node, tensors[0], Shares::kNever);
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(tensors[0]));
  const int64_t dim = DimFromFirst(node.Int("dim", 0), shape.size());
  if (dim < 0) return Unsupported("its dim is not one of its input");
  std::vector<std::string> of_layers;
  for (const std::string& tensor : tensors) {
    if (builder.IsLayer(tensor)) of_layers.push_back(tensor);
    if (!builder.SameType(tensor, tensors[0])) return Unsupported("its tensors are of different types");
  }
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align(of_layers));
  for (const std::string& tensor : of_layers) {
    if (builder.IsOfParameters(tensor) == aligned.of_parameters) continue;
    return Unsupported("it has a function of parameters beside layers' outputs");
  }
  if (of_layers.size() < tensors.size() && aligned.of_parameters) {
    return Unsupported("it has parameters beside functions of such");
  }
  if (of_layers.size() < tensors.size() && aligned.moved) {
    return Unsupported("it has a parameter beside values whose batch is not dim 0");
  }
  if (aligned.DimOf(dim) < 1) return Unsupported("it joins samples of the batch; right would be another dim");
  Layer layer;
  layer.mutable_concat()->add_arg(aligned.DimOf(dim));
  std::vector<std::string> sources;
  size_t next = 0;
  for (const std::string& tensor : tensors) {
    if (builder.IsLayer(tensor)) {
      sources.push_back(aligned.sources[next++]);
      continue;
    }
    // A class token, for each sample of what it stands before.
    ADJOIN_ASSIGN_OR_RETURN(std::string source,
                            builder.SourceOf(tensor, aligned.sources.empty() ? "" : aligned.sources[0]));
    sources.push_back(std::move(source));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), sources));
  return builder.SetResult(node, made, aligned);
}

// stack: the tensors with a new dim, along which they are joined.
absl::Status Stacked(const OpNode& node, LayerBuilder& builder) {
  const auto found = node.arguments.find("tensors");
  if (found == node.arguments.end() || found->second.tensors.empty() || node.outputs.empty()) {
    return Unsupported("it has no tensors");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.outputs[0]));
  const int64_t dim = DimFromFirst(node.Int("dim", 0), shape.size());
  if (dim < 0) return Unsupported("its dim is not one of its result");
  OpNode join = node;
  std::vector<std::string>& tensors = join.arguments["tensors"].tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    OpNode unsqueeze = node;
    unsqueeze.arguments.erase("tensors");
    unsqueeze.arguments["self"] = found->second;
    unsqueeze.arguments["self"].tensors = {tensors[i]};
    unsqueeze.arguments["dim"].kind = OpArgument::Kind::kInts;
    unsqueeze.arguments["dim"].ints = {dim};
    tensors[i] = absl::StrCat(tensors[i], " with dim ", dim, " of ", node.outputs[0]);
    unsqueeze.outputs = {tensors[i]};
    std::vector<int64_t> one = shape;
    one[static_cast<size_t>(dim)] = 1;
    builder.Declare(tensors[i], std::move(one), unsqueeze.Tensor("self"));
    ADJOIN_RETURN_IF_ERROR(Unsqueezed(unsqueeze, builder));
  }
  join.arguments["dim"].kind = OpArgument::Kind::kInts;
  join.arguments["dim"].ints = {dim};
  return Concatenated(join, builder);
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
      {"_to_copy", Converted},
      {"_unsafe_view", Reshaped},
      {"alias", Same},
      {"cat", Concatenated},
      {"clone", Copied},
      {"concat", Concatenated},
      {"concatenate", Concatenated},
      {"contiguous", Contiguous},
      {"detach", Detached},
      {"flatten", Reshaped},
      {"flip", Flipped},
      {"mT", MatrixTransposed},
      {"permute", Permuted},
      {"reshape", Reshaped},
      {"roll", Rolled},
      {"squeeze", Squeezed},
      {"stack", Stacked},
      {"swapaxes", Transposed},
      {"swapdims", Transposed},
      {"t", MatrixTransposed},
      {"to", Converted},
      {"transpose", Transposed},
      {"unflatten", Reshaped},
      {"unsqueeze", Unsqueezed},
      {"view", Reshaped},
      {"view_as", Reshaped},
      {"reshape_as", Reshaped},
  };
  return *rules;
}

}  // namespace adjoin
