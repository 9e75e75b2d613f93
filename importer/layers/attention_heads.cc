#include "importer/layers/attention_heads.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

// [batch, length, heads * features] of [batch, heads ..., length, features].
absl::StatusOr<ValueView> HeadsLast(const ValueView& view) {
  const Extents shape = view.shape();
  Extents order = {0, static_cast<int64_t>(shape.size()) - 2};
  int64_t features = 1;
  for (size_t i = 1; i < shape.size(); ++i) {
    if (i + 2 == shape.size()) continue;
    order.push_back(static_cast<int64_t>(i));
    if (shape[i] < 1 || features > INT64_MAX / shape[i]) return Unsupported("its extents are not fixed");
    features *= shape[i];
  }
  return view.Permuted(order).Reshaped({shape[0], shape[shape.size() - 2], features});
}

// A bias of 0 where a query sees a key that is not behind it, and of minus infinity elsewhere.
bool IsCausal(const ConstantTensor& bias) {
  const int64_t keys = bias.shape.back(), queries = bias.shape[bias.shape.size() - 2];
  for (int64_t i = 0; i < bias.Elements(); ++i) {
    const int64_t key = i % keys, query = i / keys % queries;
    if (bias.At(i) != (key > query ? -INFINITY : 0.0)) return false;
  }
  return keys > 1;
}

bool IsZero(const ConstantTensor& bias) {
  for (int64_t i = 0; i < bias.Elements(); ++i) {
    if (bias.At(i) != 0) return false;
  }
  return true;
}

// A bias as [1, heads, queries, keys], with 1 for what it lacks.
absl::Status ToFourDims(const ValueView& scores_like, ConstantTensor& bias) {
  Extents& shape = bias.shape;
  if (shape.size() > scores_like.dims()) return Unsupported("its mask has more dims than its scores");
  while (shape.size() > 4 && shape[0] == 1) shape.erase(shape.begin());
  shape.insert(shape.begin(), shape.size() < 4 ? 4 - shape.size() : 0, 1);
  const bool of_heads = scores_like.dims() == 4 && scores_like.BatchDim() == 0 && scores_like.BatchIsAlone();
  if (shape.size() != 4 || shape[0] != 1 || (shape[1] != 1 && !of_heads)) {
    return Unsupported("its mask is not [queries, keys] or [1, heads, queries, keys]");
  }
  return absl::OkStatus();
}

}  // namespace

ConstantTensor BiasOf(ConstantTensor mask, bool true_is_kept) {
  ConstantTensor bias;
  bias.dtype = DType::kFloat64;
  bias.shape = mask.shape;
  for (int64_t i = 0; i < mask.Elements(); ++i) {
    const bool is_kept = (mask.At(i) != 0) == true_is_kept;
    bias.reals.push_back(mask.dtype != DType::kBool ? mask.At(i) : is_kept ? 0.0 : -INFINITY);
  }
  return bias;
}

absl::Status AddHeads(const OpNode& node, LayerBuilder& builder, HeadsRequest request) {
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  const Extents of_query = request.query.second.shape(), of_key = request.key.second.shape(),
                of_value = request.value.second.shape();
  const size_t dims = of_query.size();
  if (dims < 3 || of_key.size() != dims || of_value.size() != dims) {
    return Unsupported("its queries, keys and values are not [batch, ..., length, features] alike");
  }
  for (size_t i = 0; i + 2 < dims; ++i) {
    if (of_query[i] != of_key[i] || of_query[i] != of_value[i]) {
      return Unsupported("its queries, keys and values have different extents before the last two dims");
    }
  }
  if (of_query[dims - 1] != of_key[dims - 1] || of_key[dims - 2] != of_value[dims - 2]) {
    return Unsupported("its queries, keys and values do not fit each other");
  }
  for (const auto* part : {&request.query, &request.key, &request.value}) {
    if (!part->second.HasBatch()) return Unsupported("its queries, keys or values are functions of parameters alone");
  }
  Layer layer;
  Attention& attention = *layer.mutable_attention();
  attention.set_projections(false);
  std::vector<std::pair<std::string, ValueView>> inputs = {request.query, request.key, request.value};
  AlignedInputs where;  // the batch is alike in all three
  for (auto& [name, view] : inputs) {
    const AlignedInputs own{.sources = {},
                            .moved = view.BatchDim() != 0 || !view.BatchIsAlone(),
                            .batch_dim = view.BatchDim(),
                            .beside = view.BesideBatch()};
    if (&name != &inputs[0].first &&
        (own.moved != where.moved || own.batch_dim != where.batch_dim || own.beside != where.beside)) {
      return Unsupported("its inputs have the batch in different places");
    }
    where = own;
  }
  if (where.batch_dim + 2 >= dims) return Unsupported("it attends to other samples of the batch");
  const Extents heads_of = where.moved ? request.query.second.BatchFirst().shape() : of_query;
  int64_t heads = 1;
  for (size_t i = 1; i + 2 < heads_of.size(); ++i) {
    if (heads_of[i] < 1 || heads > INT32_MAX / heads_of[i]) return Unsupported("its heads are not fixed, or too many");
    heads *= heads_of[i];
  }
  if (heads < 1 || heads > INT32_MAX) return Unsupported("it has ", heads, " heads");
  attention.set_heads(static_cast<uint32_t>(heads));
  for (auto& [name, view] : inputs) {
    ADJOIN_ASSIGN_OR_RETURN(view, HeadsLast(where.moved ? view.BatchFirst() : view));
  }
  const double usual = 1 / std::sqrt(static_cast<double>(of_query.back()));
  if (request.scale != 0 && std::abs(request.scale - usual) > 1e-15 * usual) attention.set_scale(request.scale);
  if (request.dropout != 0) attention.set_dropout(request.dropout);
  if (request.bias.has_value()) {
    ADJOIN_RETURN_IF_ERROR(ToFourDims(request.query.second, *request.bias));
    const Extents of_bias = request.bias->shape, scores = {heads, of_query[dims - 2], of_key[dims - 2]};
    for (size_t i = 0; i < 3; ++i) {
      if (of_bias[i + 1] != 1 && of_bias[i + 1] != scores[i]) return Unsupported("its mask does not fit its scores");
    }
    if (request.bias->Elements() == 0) return Unsupported("its mask has no elements");
    if (IsZero(*request.bias)) {
      request.bias.reset();
    } else if (IsCausal(*request.bias) && request.bias->shape[2] == of_query[dims - 2] &&
               request.bias->shape[3] == of_key[dims - 2]) {
      request.causal = true;
      request.bias.reset();
    }
  }
  if (request.causal) attention.set_causal(true);
  ADJOIN_ASSIGN_OR_RETURN(AlignedInputs aligned, builder.Align(inputs));
  if (request.bias.has_value()) {
    ADJOIN_ASSIGN_OR_RETURN(std::string bias,
                            builder.ConstantPerSample(node, *std::move(request.bias), aligned.sources[0]));
    aligned.sources.push_back(std::move(bias));
    attention.set_score_bias(true);
  } else if (!request.bias_value.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Extents shape, builder.Shape(request.bias_value));
    if (dims != 4 || where.moved || shape.size() != 4 || !builder.SameType(request.bias_value, request.query.first)) {
      return Unsupported("its mask is not [batch or 1, heads or 1, queries, keys] of the type of its queries");
    }
    const ParameterView* parameter = builder.ParameterOf(request.bias_value);
    if (parameter != nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(const ParameterView view,
                              parameter->Expanded({builder.Batch(), shape[1], shape[2], shape[3]}));
      ADJOIN_ASSIGN_OR_RETURN(std::string bias, builder.PerSample(request.bias_value, view, aligned.sources[0]));
      aligned.sources.push_back(std::move(bias));
    } else if (builder.IsOfParameters(request.bias_value)) {
      if (shape[0] != 1) return Unsupported("its mask is one for each sample, and follows of parameters");
      ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(request.bias_value));
      ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs own,
                              builder.Align({std::pair(request.bias_value, view.WithBatch(0))}));
      aligned.sources.push_back(own.sources[0]);
    } else {
      ADJOIN_ASSIGN_OR_RETURN(std::string bias, builder.SourceOf(request.bias_value));
      aligned.sources.push_back(std::move(bias));
    }
    attention.set_score_bias(true);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  // [batch, length, heads * features] back to where the dims were.
  Extents split = {builder.Batch(), of_query[dims - 2]}, order = {0};
  for (size_t i = 1; i + 2 < heads_of.size(); ++i) {
    split.push_back(heads_of[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  split.push_back(of_value.back());
  order.insert(order.end(), {1, static_cast<int64_t>(split.size()) - 1});
  ADJOIN_ASSIGN_OR_RETURN(
      const ValueView parts,
      ValueView::Of({builder.Batch(), of_query[dims - 2], heads * of_value.back()}).Reshaped(split));
  Extents result = of_query;
  result.back() = of_value.back();
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, where.Restored(parts.Permuted(order), result));
  if (!request.result_order.empty()) view = view.Permuted(request.result_order);
  return builder.SetResult(node, made, std::move(view));
}

}  // namespace adjoin
