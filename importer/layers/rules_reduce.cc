// Sums, means, variances and extremes over dims.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

Layer PlainFunction(const std::string& fn) {
  Layer layer;
  layer.mutable_activation()->set_fn(fn);
  return layer;
}

struct Reduced {
  std::string kind;
  std::vector<Layer> before, after;  // functions
};

absl::Status CheckType(const OpNode& node, const LayerBuilder& builder, const std::string& input) {
  if (node.outputs.empty() || !builder.IsFloat(input) || !builder.SameType(input, node.outputs[0])) {
    return Unsupported("it changes the type of its tensor, or sums whole numbers");
  }
  return absl::OkStatus();
}

absl::Status AddReduced(const OpNode& node, LayerBuilder& builder, const Reduced& reduced) {
  const std::string input = node.Tensor(node.Has("self") ? "self" : "input");
  ADJOIN_RETURN_IF_ERROR(CheckType(node, builder, input));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(input));
  std::set<int64_t> dims;
  for (int64_t dim : node.Ints("dim")) dims.insert(DimFromFirst(dim, shape.size()));
  for (size_t i = 0; node.Ints("dim").empty() && builder.IsOfParameters(input) && i < shape.size(); ++i) {
    dims.insert(static_cast<int64_t>(i));
  }
  if (dims.empty() || *dims.begin() < 0) {
    return Unsupported(
        "it is over all dims, also the batch; right would be dims of its own, as a loss is for the batch");
  }
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({input}));
  Layer layer;
  layer.mutable_reduce()->set_kind(reduced.kind);
  for (int64_t dim : dims) {
    if (aligned.DimOf(dim) < 1) return Unsupported("it is over the batch; right would be other dims");
    layer.mutable_reduce()->add_dim(static_cast<int32_t>(aligned.DimOf(dim)));
  }
  // The batch stays where it was, which is dim 0 where dims go.
  const bool keeps = node.Bool("keepdim", false);
  if (aligned.moved && !keeps) {
    return Unsupported("its batch is not dim 0, and dims before it may go; right would be keepdim=True");
  }
  // One number a sample is [batch, 1] in a job.
  const bool to_numbers = !keeps && dims.size() + (aligned.of_parameters ? 0 : 1) == shape.size();
  layer.mutable_reduce()->set_keepdim(keeps || to_numbers);
  if (reduced.kind == "var") {
    const double correction = node.Has("correction")        ? node.Float("correction", 1)
                              : node.Bool("unbiased", true) ? 1
                                                            : 0;
    if (correction != 1) layer.mutable_reduce()->set_correction(correction);
  }
  std::string source = aligned.sources[0];
  for (const Layer& function : reduced.before) {
    ADJOIN_ASSIGN_OR_RETURN(source, builder.Append(node, function, {source}));
  }
  ADJOIN_ASSIGN_OR_RETURN(source, builder.Append(node, std::move(layer), {source}));
  for (const Layer& function : reduced.after) {
    ADJOIN_ASSIGN_OR_RETURN(source, builder.Append(node, function, {source}));
  }
  if (to_numbers) {
    std::vector<int64_t> ones(shape.size(), 1);
    if (aligned.of_parameters) {
      ADJOIN_ASSIGN_OR_RETURN(ValueView number, ValueView::OfParameters(ones).Reshaped({}));
      return builder.SetResult(node, source, std::move(number));
    }
    ones[0] = shape[0];
    ADJOIN_ASSIGN_OR_RETURN(ValueView view, ValueView::Of(std::move(ones)).Reshaped({shape[0]}));
    return builder.SetResult(node, source, std::move(view));
  }
  return builder.SetResult(node, source, aligned);
}

absl::Status Sum(const OpNode& node, LayerBuilder& builder) { return AddReduced(node, builder, {"sum", {}, {}}); }
absl::Status Variance(const OpNode& node, LayerBuilder& builder) { return AddReduced(node, builder, {"var", {}, {}}); }
absl::Status Deviation(const OpNode& node, LayerBuilder& builder) {
  return AddReduced(node, builder, {"var", {}, {PlainFunction("root")}});
}
absl::Status Extreme(const OpNode& node, LayerBuilder& builder) { return AddReduced(node, builder, {node.op, {}, {}}); }

// The root of the sum of squares, as in torch.nn.functional.normalize; the sum of what is without its sign. As in
// PyTorch the gradient of zeros is 0.
absl::Status VectorNorm(const OpNode& node, LayerBuilder& builder) {
  const double order = node.Float(node.Has("ord") ? "ord" : "p", 2);
  if (order == 2) return AddReduced(node, builder, {"sum", {PlainFunction("square")}, {PlainFunction("root")}});
  if (order == 1) return AddReduced(node, builder, {"sum", {PlainFunction("abs")}, {}});
  return Unsupported("its order is ", order, "; right would be 2 or 1");
}

// A mean over all spatial dims is average pooling to one element; without keepdim it is flattened.
absl::Status Mean(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_RETURN_IF_ERROR(CheckType(node, builder, node.Tensor("self")));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor("self")));
  std::set<int64_t> dims;
  for (int64_t dim : node.Ints("dim")) dims.insert(DimFromFirst(dim, shape.size()));
  const bool spatial = shape.size() >= 4 && shape.size() <= 5 && dims.size() + 2 == shape.size() &&
                       *dims.begin() == 2 && !builder.IsOfParameters(node.Tensor("self"));
  if (!spatial || !builder.Align({node.Tensor("self")}).ok() || builder.Align({node.Tensor("self")})->moved) {
    return AddReduced(node, builder, {"mean", {}, {}});
  }
  Layer layer;
  layer.mutable_pool()->set_mode("avg");
  layer.mutable_pool()->add_adaptive_size(1);
  if (node.Bool("keepdim", false)) return builder.Add(node, std::move(layer), {node.Tensor("self")});
  ADJOIN_ASSIGN_OR_RETURN(const std::string source, builder.SourceOf(node.Tensor("self")));
  ADJOIN_ASSIGN_OR_RETURN(const std::string pooled, builder.Append(node, std::move(layer), {source}));
  Layer flat;
  flat.mutable_flatten()->add_arg(1);
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(flat), {pooled}));
  return builder.SetResult(node, made, AlignedInputs());
}

}  // namespace

const OpRules& ReduceRules() {
  static const auto* rules = new OpRules{
      {"amax", Extreme}, {"amin", Extreme},    {"linalg_vector_norm", VectorNorm},
      {"mean", Mean},    {"norm", VectorNorm}, {"std", Deviation},
      {"sum", Sum},      {"var", Variance},
  };
  return *rules;
}

}  // namespace adjoin
