// Parts of a tensor, and tensors that are repeated.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

// Elements begin, begin + step, ... of one dim of a value: `count` of them.
struct Range {
  std::string input;
  std::vector<int64_t> shape;
  int64_t dim = 0, begin = 0, count = 0, step = 1;

  int64_t extent() const { return shape[static_cast<size_t>(dim)]; }
  bool whole() const { return begin == 0 && count == extent() && step == 1; }
};

// The input and the dim, of which everything is taken so far.
absl::StatusOr<Range> WholeOf(const OpNode& node, const LayerBuilder& builder) {
  Range range;
  range.input = node.Tensor("self");
  ADJOIN_ASSIGN_OR_RETURN(range.shape, builder.Shape(range.input));
  range.dim = DimFromFirst(node.Int("dim", node.op == "glu" ? -1 : 0), range.shape.size());
  if (range.dim < 0) return Unsupported("its dim is not one of its input");
  range.count = range.extent();
  return range;
}

absl::Status AddRange(const OpNode& node, const Range& range, LayerBuilder& builder, bool drops = false) {
  if (const ParameterView* parameter = builder.ParameterOf(range.input); parameter != nullptr) {
    if (range.begin != 0 || range.step != 1) {
      return Unsupported("it takes other elements of a parameter than the first ones");
    }
    const size_t dim = static_cast<size_t>(range.dim);
    ADJOIN_ASSIGN_OR_RETURN(ParameterView view, parameter->First(dim, range.count));
    if (!drops) return builder.SetParameterView(node, range.input, std::move(view));
    ADJOIN_ASSIGN_OR_RETURN(ParameterView rest, view.WithoutDim(dim));
    return builder.SetParameterView(node, range.input, std::move(rest));
  }
  if (range.whole() && !drops) {
    ADJOIN_RETURN_IF_ERROR(builder.Alias(node, range.input, LayerBuilder::Shares::kNever));
    builder.ShareElements(node, range.input);
    return absl::OkStatus();
  }
  return builder.AddRange(node, range.input,
                          {.dim = static_cast<size_t>(range.dim),
                           .begin = range.begin,
                           .count = range.count,
                           .step = range.step,
                           .drops = drops});
}

// x[:, :, indices], of which the program computes the indices of no input.
absl::Status Indexed(const OpNode& node, LayerBuilder& builder) {
  const auto found = node.arguments.find(node.op == "index" ? "indices" : "index");
  if (found == node.arguments.end()) return Unsupported("it has no indices");
  std::string indices;
  int64_t dim = node.Int("dim", 0);
  for (size_t i = 0; i < found->second.tensors.size(); ++i) {
    if (found->second.tensors[i].empty()) continue;
    if (!indices.empty()) return Unsupported("it has indices of several dims; right would be one");
    indices = found->second.tensors[i];
    if (node.op == "index") dim = static_cast<int64_t>(i);
  }
  if (indices.empty() || !builder.IsConstant(indices)) {
    return Unsupported("its indices are computed of the input; right would be such that are fixed");
  }
  ADJOIN_ASSIGN_OR_RETURN(const ConstantTensor constant, builder.ConstantOf(indices));
  if (constant.dtype != DType::kInt64 && constant.dtype != DType::kInt32) {
    // PyTorch takes uint8 for a mask, as bool.
    return Unsupported("its indices are of ", ToString(constant.dtype), "; right would be whole numbers, of int64");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor("self")));
  dim = DimFromFirst(dim, shape.size());
  if (dim < 0) return Unsupported("its dim is not one of its input");
  if (constant.Elements() > LayerBuilder::kMostIndices) {
    return Unsupported("it has more than ", LayerBuilder::kMostIndices, " indices");
  }
  std::vector<int64_t> places = constant.wholes;
  for (int64_t& place : places) place += place < 0 ? std::max<int64_t>(shape[static_cast<size_t>(dim)], 0) : 0;
  return builder.AddSelections(node, node.Tensor("self"), {{static_cast<size_t>(dim), std::move(places)}});
}

// The same operator with output `i` alone.
OpNode WithOutput(const OpNode& node, size_t i) {
  OpNode one = node;
  one.outputs = {node.outputs[i]};
  return one;
}

absl::Status Sliced(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(Range range, WholeOf(node, builder));
  range.step = node.Int("step", 1);
  if (range.step < 1) return Unsupported("its step must be 1 or more");
  const int64_t extent = range.extent();
  if (extent < 0) {
    // The whole batch, of which nothing more is known.
    if (node.Int("start", 0) == 0 && node.Int("end", INT64_MAX) == INT64_MAX && range.step == 1) {
      return AddRange(node, range, builder);
    }
    return Unsupported("its dim has an extent that is not fixed");
  }
  const auto position = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent); };
  range.begin = position(node.Int("start", 0));
  const int64_t elements = position(node.Int("end", INT64_MAX)) - range.begin;
  range.count = elements <= 0 ? 0 : (elements - 1) / range.step + 1;
  return AddRange(node, range, builder);
}

// The first half of a dim, multiplied with the sigmoid of the second one.
absl::Status Gated(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const Range whole, WholeOf(node, builder));
  if (node.outputs.empty() || whole.extent() < 2 || whole.extent() % 2 != 0) {
    return Unsupported("its dim has no two halves");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.outputs[0]));
  std::vector<std::string> halves;
  for (int64_t i : {0, 1}) {
    Range half = whole;
    half.count = whole.extent() / 2;
    half.begin = i * half.count;
    OpNode part = node;
    part.outputs = {absl::StrCat(node.outputs[0], " half ", i)};
    builder.Declare(part.outputs[0], shape, whole.input);
    ADJOIN_RETURN_IF_ERROR(AddRange(part, half, builder));
    halves.push_back(part.outputs[0]);
  }
  Layer sigmoid, product;
  sigmoid.mutable_activation()->set_fn("sigmoid");
  product.mutable_multiply();
  ADJOIN_ASSIGN_OR_RETURN(AlignedInputs aligned, builder.Align(halves));
  ADJOIN_ASSIGN_OR_RETURN(aligned.sources[1], builder.Append(node, std::move(sigmoid), {aligned.sources[1]}));
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(product), aligned.sources));
  return builder.SetResult(node, made, aligned);
}

absl::Status Narrowed(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(Range range, WholeOf(node, builder));
  if (!node.Tensor("start").empty()) return Unsupported("its start is computed");
  range.begin = node.Int("start", 0);
  if (range.begin < 0) range.begin += std::max<int64_t>(range.extent(), 0);
  range.count = node.Int("length", 0);
  if (range.begin < 0 || range.begin > range.extent() || range.count > range.extent() - range.begin) {
    return Unsupported("it takes what its input does not have");
  }
  return AddRange(node, range, builder);
}

// One element of a dim, which the result lacks.
absl::Status AddElement(const OpNode& node, Range range, int64_t index, LayerBuilder& builder) {
  range.begin = index;
  range.count = 1;
  return AddRange(node, range, builder, /*drops=*/true);
}

absl::Status Selected(const OpNode& node, LayerBuilder& builder) {
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const Range range, WholeOf(node, builder));
  const int64_t index = node.Int("index", 0);
  return AddElement(node, range, index < 0 ? index + std::max<int64_t>(range.extent(), 0) : index, builder);
}

absl::Status Unbound(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const Range range, WholeOf(node, builder));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    ADJOIN_RETURN_IF_ERROR(AddElement(WithOutput(node, i), range, static_cast<int64_t>(i), builder));
  }
  return absl::OkStatus();
}

// split, chunk: ranges behind each other, each as long as its result.
absl::Status Split(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const Range whole, WholeOf(node, builder));
  if (whole.extent() < 0) return Unsupported("its dim has an extent that is not fixed");
  std::vector<int64_t> lengths = node.Ints("split_sizes", node.Ints("split_size"));
  if (node.Has("chunks")) {
    const int64_t chunks = node.Int("chunks", 1);
    if (chunks < 1) return Unsupported("it has ", chunks, " parts");
    lengths = {whole.extent() / chunks + (whole.extent() % chunks != 0 ? 1 : 0)};
  }
  int64_t begin = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Range range = whole;
    range.begin = begin;
    const int64_t left = whole.extent() - begin;
    if (lengths.empty() || (lengths.size() > 1 && i >= lengths.size())) return Unsupported("it has too few lengths");
    const int64_t length = lengths.size() == 1 ? lengths[0] : lengths[i];
    if (length < 1 || left < 1) return Unsupported("a part of it is empty");
    range.count = std::min(length, left);
    begin += range.count;
    if (node.outputs[i].empty()) continue;
    ADJOIN_RETURN_IF_ERROR(AddRange(WithOutput(node, i), range, builder));
  }
  return absl::OkStatus();
}

// Dims of extent 1 become longer; the batch stays.
absl::Status Expanded(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor("self");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> from, builder.Shape(input));
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> to, builder.Shape(node.outputs[0]));
  if (const ParameterView* parameter = builder.ParameterOf(input); parameter != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterView view, parameter->Expanded(to));
    return builder.SetParameterView(node, input, std::move(view));
  }
  if (from == to) return builder.Alias(node, input, LayerBuilder::Shares::kAlways);
  if (from.size() != to.size()) {
    return Unsupported("it adds dims; right would be a result with the dims of its input");
  }
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({input}));
  // What the layer reads has one more dim for the batch of a function of parameters, or for what is beside the batch.
  const size_t more = aligned.of_parameters ? 1
                      : aligned.moved       ? (aligned.beside.first != 1) + (aligned.beside.second != 1)
                                            : 0;
  std::vector<int64_t> extents(from.size() + more, -1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i] == to[i]) continue;
    const int64_t dim = aligned.DimOf(static_cast<int64_t>(i));
    if (dim < 1) return Unsupported("it repeats samples of the batch; right would be another dim");
    if (to[i] < 0) return Unsupported("its result has an extent that is not fixed");
    extents[static_cast<size_t>(dim)] = to[i];
  }
  Layer layer;
  for (int64_t extent : extents) layer.mutable_expand()->add_arg(extent);
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  ADJOIN_RETURN_IF_ERROR(builder.SetResult(node, made, aligned));
  builder.ShareElements(node, input);
  return absl::OkStatus();
}

// A parameter that is repeated for each sample is what it is expanded to.
absl::StatusOr<bool> RepeatParameter(const OpNode& node, LayerBuilder& builder, const std::vector<int64_t>& repeats) {
  const std::string input = node.Tensor("self");
  const ParameterView* parameter = builder.ParameterOf(input);
  if (parameter == nullptr) return false;
  std::vector<int64_t> to = parameter->shape();
  if (repeats.size() < to.size()) return Unsupported("it has fewer numbers than its input dims");
  to.insert(to.begin(), repeats.size() - to.size(), 1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (repeats[i] == 1) continue;
    if (to[i] != 1) return Unsupported("it repeats a dim of a parameter that has more than one element");
    to[i] = repeats[i];
  }
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.outputs[0]));
  if (shape != to && shape.size() == to.size() && !to.empty()) to[0] = shape[0];  // a batch that is not fixed
  ADJOIN_ASSIGN_OR_RETURN(ParameterView view, parameter->Expanded(to));
  ADJOIN_RETURN_IF_ERROR(builder.SetParameterView(node, input, std::move(view)));
  return true;
}

absl::Status Repeated(const OpNode& node, LayerBuilder& builder) {
  const std::string input = node.Tensor("self");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(input));
  const std::vector<int64_t> repeats = node.Ints("repeats", node.Ints("dims"));  // of tile
  ADJOIN_ASSIGN_OR_RETURN(const bool is_parameter, RepeatParameter(node, builder, repeats));
  if (is_parameter) return absl::OkStatus();
  if (repeats.size() != shape.size() || repeats.empty() || repeats[0] != 1) {
    return Unsupported("it repeats the batch or adds dims; right would be 1 for dim 0, and a number for each other");
  }
  Layer layer;
  for (int64_t times : repeats) {
    if (times < 1) return Unsupported("it repeats a dim ", times, " times");
    layer.mutable_repeat()->add_arg(times);
  }
  return builder.Add(node, std::move(layer), {input});
}

}  // namespace

const OpRules& SliceRules() {
  static const auto* rules = new OpRules{
      {"chunk", Split},     {"expand", Expanded},      {"expand_as", Expanded}, {"glu", Gated},
      {"index", Indexed},   {"index_select", Indexed}, {"narrow", Narrowed},    {"repeat", Repeated},
      {"select", Selected}, {"slice", Sliced},         {"split", Split},        {"split_with_sizes", Split},
      {"tile", Repeated},   {"unbind", Unbound},
  };
  return *rules;
}

}  // namespace adjoin
