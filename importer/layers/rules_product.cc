// Products of matrices: matmul, bmm, einsum of two tensors, and those with a parameter, which are linear layers.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "importer/layers/attention_product.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

constexpr size_t kMostLetters = 32;  // of an einsum's tensor
constexpr char kOtherDims[] = "its result has other dims than follow from its tensors";

// x times all of a parameter [in, out], or of the transpose of one that is [out, in], as a linear layer's weight is.
bool IsWeight(const ParameterView& view) {
  return view.dims().size() == 2 && view.length() == view.own_shape() && view.own_shape().size() == 2 &&
         view.dims()[0].own >= 0 && view.dims()[0].own + view.dims()[1].own == 1;
}

// `weight`: IsWeight, of [in, out].
absl::Status AddLinear(const OpNode& node, LayerBuilder& builder, const std::string& x, const std::string& weight,
                       const std::string& bias) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string value, builder.WholeParameter(weight));
  const int64_t out = builder.ParameterOf(weight)->shape()[1];
  if (out < 1 || out > std::numeric_limits<int32_t>::max()) return Unsupported("its weight is no matrix");
  Layer layer;
  layer.mutable_linear()->set_out_features(static_cast<uint32_t>(out));
  if (builder.ParameterOf(weight)->dims()[0].own == 0) layer.mutable_linear()->set_transposed(true);
  if (bias.empty()) layer.mutable_linear()->set_bias(false);
  OpNode linear = node;
  linear.arguments["input"].kind = OpArgument::Kind::kTensors;
  linear.arguments["input"].tensors = {x};
  return AddOverLastDims(linear, std::move(layer), 1, builder, {{"weight", value}, {"bias", bias}});
}

// The last two dims.
ValueView Turned(const ValueView& view) {
  Extents order(view.dims());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return view.Permuted(order);
}

// The layer of a function of parameters comes second: it has one sample. `shape`: of the product.
absl::Status AddMatmul(const OpNode& node, LayerBuilder& builder, std::pair<std::string, ValueView> a,
                       std::pair<std::string, ValueView> b, Extents shape) {
  if (a.second.shape().back() != b.second.shape()[b.second.dims() - 2]) {
    return Unsupported("its matrices do not fit each other");
  }
  if (shape.size() != std::max(a.second.dims(), b.second.dims())) return Unsupported(kOtherDims);
  const bool turns = !a.second.HasBatch() && b.second.HasBatch();
  if (turns) {
    std::swap(a, b);
    a.second = Turned(a.second);
    b.second = Turned(b.second);
  }
  // [batch, 1, features] of [batch, features]: a layer reads three dims.
  const bool is_row = a.second.HasBatch() && a.second.dims() == 2;
  if (is_row && (turns || a.second.BatchDim() != 0 || b.second.HasBatch())) {
    return Unsupported("it multiplies samples of the batch with each other; right would be [batch, ..., m, k] and ",
                       "[batch, ..., k, n]");
  }
  if (is_row) a.second = a.second.WithDim(1);
  while (a.second.dims() < b.second.dims()) a.second = a.second.WithDim(0);
  while (b.second.dims() < a.second.dims()) b.second = b.second.WithDim(0);
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({a, b}));
  if (!aligned.of_parameters && aligned.batch_dim + 2 >= a.second.dims()) {
    return Unsupported("it multiplies samples of the batch with each other; right would be [batch, ..., m, k] and ",
                       "[batch, ..., k, n]");
  }
  Layer layer;
  layer.mutable_matmul();
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  if (is_row) shape.insert(shape.begin() + 1, 1);
  if (turns) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, aligned.ResultOf(shape, builder.Batch()));
  if (is_row) view = view.WithoutDim(1);
  return builder.SetResult(node, made, turns ? Turned(view) : view);
}

absl::Status CheckTypes(const OpNode& node, const LayerBuilder& builder, const std::string& a, const std::string& b) {
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  if (!builder.IsFloat(a) || !builder.SameType(a, b) || !builder.SameType(a, node.outputs[0])) {
    return Unsupported("its tensors are of different types, or of whole numbers");
  }
  return absl::OkStatus();
}

absl::Status AddProduct(const OpNode& node, LayerBuilder& builder, const std::string& a, const std::string& b) {
  ADJOIN_RETURN_IF_ERROR(CheckTypes(node, builder, a, b));
  ADJOIN_ASSIGN_OR_RETURN(const Extents of_a, builder.Shape(a));
  ADJOIN_ASSIGN_OR_RETURN(const Extents of_b, builder.Shape(b));
  if (of_a.size() < 2 || of_b.size() < 2) return Unsupported("one of its tensors is a vector; right would be a matrix");
  const ParameterView* weight = builder.ParameterOf(b);
  if (weight != nullptr && builder.IsLayer(a)) {
    if (IsWeight(*weight)) return AddLinear(node, builder, a, b, "");
  }
  if (!builder.IsLayer(a) || !builder.IsLayer(b)) {
    return Unsupported("one of its tensors is a parameter or constant; right would be a torch.nn.Linear");
  }
  ADJOIN_ASSIGN_OR_RETURN(ValueView view_a, builder.ViewOf(a));
  ADJOIN_ASSIGN_OR_RETURN(ValueView view_b, builder.ViewOf(b));
  ADJOIN_ASSIGN_OR_RETURN(Extents shape, builder.Shape(node.outputs[0]));
  return AddMatmul(node, builder, {a, std::move(view_a)}, {b, std::move(view_b)}, std::move(shape));
}

absl::Status Matmul(const OpNode& node, LayerBuilder& builder) {
  return AddProduct(node, builder, node.Tensor("self"), node.Tensor(node.Has("mat2") ? "mat2" : "other"));
}

// self + mat1 @ mat2
absl::Status Addmm(const OpNode& node, LayerBuilder& builder) {
  if (node.Float("beta", 1) != 1 || node.Float("alpha", 1) != 1) return Unsupported("its beta and alpha must be 1");
  const std::string x = node.Tensor("mat1"), weight = node.Tensor("mat2"), bias = node.Tensor("self");
  const ParameterView *of_weight = builder.ParameterOf(weight), *of_bias = builder.ParameterOf(bias);
  if (of_weight == nullptr || of_bias == nullptr || !builder.IsLayer(x) || !IsWeight(*of_weight) ||
      !of_bias->IsWhole() || of_bias->dims().size() != 1) {
    return Unsupported("it is no linear layer, whose weight is [out, in] or [in, out] and whose bias is a vector");
  }
  ADJOIN_RETURN_IF_ERROR(CheckTypes(node, builder, x, weight));
  ADJOIN_ASSIGN_OR_RETURN(const std::string value, builder.WholeParameter(bias));
  return AddLinear(node, builder, x, weight, value);
}

int64_t Times(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return kComputedExtent;
  return b != 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

// The dims of two tensors by their letters: those of both and the result, of one, and those that are summed over.
struct Letters {
  std::string a, b, result;
  std::string batch, of_a, of_b, summed;
};

absl::StatusOr<Letters> LettersOf(const std::string& equation) {
  std::string text;
  for (char c : equation) {
    if (c != ' ') text.push_back(c);
  }
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  const std::vector<std::string> inputs = absl::StrSplit(sides[0], ',');
  if (sides.size() != 2 || inputs.size() != 2) return Unsupported("its equation is not of two tensors with a result");
  Letters letters;
  letters.a = inputs[0];
  letters.b = inputs[1];
  letters.result = sides[1];
  for (const std::string* term : {&letters.a, &letters.b, &letters.result}) {
    for (size_t i = 0; i < term->size(); ++i) {
      if (!absl::ascii_isalpha(static_cast<unsigned char>((*term)[i])) ||
          term->find((*term)[i], i + 1) != std::string::npos || term->size() > kMostLetters) {
        return Unsupported("its equation has other signs than letters, or one letter twice for one tensor");
      }
    }
  }
  const auto has = [](const std::string& term, char c) { return term.find(c) != std::string::npos; };
  for (char c : letters.a) {
    std::string& kind = !has(letters.b, c) ? letters.of_a : has(letters.result, c) ? letters.batch : letters.summed;
    if (!has(letters.b, c) && !has(letters.result, c)) return Unsupported("it sums over a dim of one tensor alone");
    kind.push_back(c);
  }
  for (char c : letters.b) {
    if (has(letters.a, c)) continue;
    if (!has(letters.result, c)) return Unsupported("it sums over a dim of one tensor alone");
    letters.of_b.push_back(c);
  }
  if (letters.result.size() != letters.batch.size() + letters.of_a.size() + letters.of_b.size()) {
    return Unsupported("its result has a letter that neither tensor has");
  }
  return letters;
}

// A tensor as [batch letters, the product of `rows`, the product of `columns`].
absl::StatusOr<ValueView> MatrixView(const ValueView& view, const std::string& term, const std::string& batch,
                                     const std::string& rows, const std::string& columns) {
  const Extents shape = view.shape();
  Extents order, to;
  const auto take = [&](const std::string& letters, bool joined) {
    int64_t product = 1;
    for (char c : letters) {
      const size_t dim = term.find(c);
      order.push_back(static_cast<int64_t>(dim));
      if (!joined) to.push_back(shape[dim]);
      product = Times(product, shape[dim]);
    }
    if (joined) to.push_back(product);
  };
  take(batch, false);
  take(rows, true);
  take(columns, true);
  return view.Permuted(order).Reshaped(to);
}

// "bli,io->blo": a linear layer over one dim, which comes last there.
absl::Status EinsumWithParameter(const OpNode& node, LayerBuilder& builder, const Letters& letters) {
  const std::string x = node.arguments.at("tensors").tensors[0], weight = node.arguments.at("tensors").tensors[1];
  const ParameterView& of_weight = *builder.ParameterOf(weight);
  if (letters.summed.size() != 1 || letters.of_b.size() != 1 || !letters.batch.empty() || !IsWeight(of_weight)) {
    return Unsupported("its parameter is no matrix of which one dim is summed over; right would be a torch.nn.Linear");
  }
  ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(x));
  if (view.dims() != letters.a.size()) return Unsupported("its equation has not a letter for each dim");
  ADJOIN_ASSIGN_OR_RETURN(const Extents shape, builder.Shape(node.outputs[0]));
  if (shape.size() != letters.result.size()) return Unsupported(kOtherDims);
  const std::string made = absl::StrCat(letters.of_a, letters.of_b);
  Extents order, made_shape(made.size());
  for (char c : absl::StrCat(letters.of_a, letters.summed)) order.push_back(static_cast<int64_t>(letters.a.find(c)));
  for (size_t i = 0; i < made.size(); ++i) made_shape[i] = shape[letters.result.find(made[i])];
  ADJOIN_ASSIGN_OR_RETURN(const std::string input, builder.Reordered(x, order));
  const Extents order_of_weight = letters.b[0] == letters.summed[0] ? Extents{0, 1} : Extents{1, 0};
  ADJOIN_ASSIGN_OR_RETURN(const std::string matrix, builder.Reordered(weight, order_of_weight));
  OpNode linear = node;
  linear.outputs = {absl::StrCat(node.outputs[0], " in order")};
  builder.Declare(linear.outputs[0], made_shape, x);
  ADJOIN_RETURN_IF_ERROR(AddLinear(linear, builder, input, matrix, ""));
  ADJOIN_ASSIGN_OR_RETURN(const ValueView product, builder.ViewOf(linear.outputs[0]));
  Extents back;
  for (char c : letters.result) back.push_back(static_cast<int64_t>(made.find(c)));
  return builder.SetView(node, linear.outputs[0], product.Permuted(back));
}

absl::Status Einsum(const OpNode& node, LayerBuilder& builder) {
  const auto found = node.arguments.find("tensors");
  if (found == node.arguments.end() || found->second.tensors.size() != 2) {
    return Unsupported("it is not of two tensors");
  }
  const std::string &a = found->second.tensors[0], &b = found->second.tensors[1];
  ADJOIN_RETURN_IF_ERROR(CheckTypes(node, builder, a, b));
  ADJOIN_ASSIGN_OR_RETURN(Letters letters, LettersOf(node.Text("equation", "")));
  if (builder.IsLayer(a) && builder.ParameterOf(b) != nullptr) return EinsumWithParameter(node, builder, letters);
  if (!builder.IsLayer(a) || !builder.IsLayer(b)) {
    return Unsupported("one of its tensors is a parameter or constant; right would be a torch.nn.Linear");
  }
  ADJOIN_ASSIGN_OR_RETURN(const ValueView of_a, builder.ViewOf(a));
  ADJOIN_ASSIGN_OR_RETURN(const ValueView of_b, builder.ViewOf(b));
  if (of_a.dims() != letters.a.size() || of_b.dims() != letters.b.size()) {
    return Unsupported("its equation has not a letter for each dim");
  }
  if (!of_a.HasBatch() || !of_b.HasBatch()) return Unsupported("one of its tensors is a function of parameters alone");
  const char sample = letters.a[of_a.BatchDim()];
  if (letters.b[of_b.BatchDim()] != sample || letters.batch.find(sample) == std::string::npos || !of_a.BatchIsAlone() ||
      !of_b.BatchIsAlone()) {
    return Unsupported("its batch is not a dim of both tensors and of the result");
  }
  std::swap(letters.batch[0], letters.batch[letters.batch.find(sample)]);
  ADJOIN_ASSIGN_OR_RETURN(ValueView rows, MatrixView(of_a, letters.a, letters.batch, letters.of_a, letters.summed));
  ADJOIN_ASSIGN_OR_RETURN(ValueView columns, MatrixView(of_b, letters.b, letters.batch, letters.summed, letters.of_b));
  Extents base = rows.shape(), whole(base.begin(), base.begin() + static_cast<ptrdiff_t>(letters.batch.size()));
  base.back() = columns.shape().back();
  for (char c : letters.of_a) whole.push_back(of_a.shape()[letters.a.find(c)]);
  for (char c : letters.of_b) whole.push_back(of_b.shape()[letters.b.find(c)]);
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned,
                          builder.Align({std::pair(a, std::move(rows)), std::pair(b, std::move(columns))}));
  Layer layer;
  layer.mutable_matmul();
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  ADJOIN_ASSIGN_OR_RETURN(const ValueView view, ValueView::Of(base).Reshaped(whole));
  const std::string order = absl::StrCat(letters.batch, letters.of_a, letters.of_b);
  Extents permutation;
  for (char c : letters.result) permutation.push_back(static_cast<int64_t>(order.find(c)));
  return builder.SetResult(node, made, view.Permuted(permutation));
}

// x W^T. Each row is multiplied for itself, so the batch may be any dim of `x` but the last: it is dim 0 for the
// product.
absl::Status AddRowsTimesWeight(const OpNode& node, LayerBuilder& builder, const std::string& x,
                                const std::string& weight, const Extents& shape) {
  ADJOIN_ASSIGN_OR_RETURN(ValueView of_x, builder.ViewOf(x));
  ADJOIN_ASSIGN_OR_RETURN(const ValueView of_weight, builder.ViewOf(weight));
  if (of_weight.dims() != 2 || of_x.dims() < 2) return Unsupported("its weight is no matrix");
  if (shape.size() != of_x.dims()) return Unsupported(kOtherDims);
  const size_t batch = of_x.HasBatch() && of_x.BatchIsAlone() ? of_x.BatchDim() : 0;
  if (batch == 0 || batch + 1 == of_x.dims()) {
    return AddMatmul(node, builder, {x, std::move(of_x)}, {weight, Turned(of_weight)}, shape);
  }
  Extents order(of_x.dims()), back(of_x.dims()), batch_first;
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(batch),
              order.begin() + static_cast<ptrdiff_t>(batch) + 1);
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    batch_first.push_back(shape[static_cast<size_t>(order[i])]);
  }
  OpNode product = node;
  product.outputs = {absl::StrCat(node.outputs[0], " with its batch first")};
  builder.Declare(product.outputs[0], batch_first, x);
  ADJOIN_RETURN_IF_ERROR(
      AddMatmul(product, builder, {x, of_x.Permuted(order)}, {weight, Turned(of_weight)}, batch_first));
  ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(product.outputs[0]));
  return builder.SetView(node, product.outputs[0], view.Permuted(back));
}

}  // namespace

// x W^T + b, of which the weight or the bias is computed.
absl::Status LinearOfComputed(const OpNode& node, LayerBuilder& builder) {
  const std::string x = node.Tensor("input"), weight = node.Tensor("weight"), bias = node.Tensor("bias");
  ADJOIN_RETURN_IF_ERROR(CheckTypes(node, builder, x, weight));
  if (!bias.empty() && !builder.IsOfParameters(bias)) return Unsupported("its bias is computed of the input");
  OpNode product = node;
  ADJOIN_ASSIGN_OR_RETURN(const Extents shape, builder.Shape(node.outputs[0]));
  if (!bias.empty()) {
    product.outputs = {absl::StrCat(node.outputs[0], " before its bias")};
    builder.Declare(product.outputs[0], shape, x);
  }
  if (builder.IsParameter(weight)) {
    product.arguments["bias"] = OpArgument();
    ADJOIN_RETURN_IF_ERROR((*FindOpRule("linear"))(product, builder));
  } else {
    if (!builder.IsOfParameters(weight))
      return Unsupported("its weight is computed of the input; right would be a matmul");
    ADJOIN_RETURN_IF_ERROR(AddRowsTimesWeight(product, builder, x, weight, shape));
  }
  if (bias.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({product.outputs[0], bias}));
  Layer layer;
  layer.mutable_add();
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  return builder.SetResult(node, made, aligned);
}

const OpRules& ProductRules() {
  static const auto* rules = new OpRules{
      {"__matmul__", Matmul},
      {"addmm", Addmm},
      {"bmm", Matmul},
      {"einsum", Einsum},
      {"matmul", Matmul},
      {"mm", Matmul},
      {"scaled_dot_product_attention", ScaledDotProductAttention},
  };
  return *rules;
}

}  // namespace adjoin
