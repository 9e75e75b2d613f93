// Normalisations.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

constexpr double kEps = 1e-5, kMomentum = 0.1;  // PyTorch's defaults, and a job's

absl::Status AddNorm(const OpNode& node, LayerBuilder& builder, Layer layer, bool affine_by_default,
                     std::vector<LayerParameter> buffers = {}, size_t last_dims = 0) {
  const std::string weight = node.Tensor("weight"), bias = node.Tensor("bias");
  Norm* norm = layer.mutable_norm();
  if (weight.empty() != bias.empty() && norm->kind() != "rms") {
    return Unsupported("it has a weight without a bias, or a bias without a weight; right would be both or none");
  }
  const bool affine = !weight.empty();
  if (affine != affine_by_default) norm->set_affine(affine);
  std::vector<LayerParameter> parameters = {{"weight", weight}, {"bias", bias}};
  parameters.insert(parameters.end(), buffers.begin(), buffers.end());
  if (last_dims > 0) return AddOverLastDims(node, std::move(layer), last_dims, builder, parameters);
  return builder.Add(node, std::move(layer), {node.Tensor("input")}, parameters);
}

void SetEps(const OpNode& node, double otherwise, Norm* norm) {
  const double eps = node.Float("eps", otherwise);
  if (eps != kEps || norm->kind() == "rms") norm->set_eps(eps);
}

absl::Status Batch(const OpNode& node, LayerBuilder& builder) {
  const std::string mean = node.Tensor("running_mean"), var = node.Tensor("running_var");
  if (mean.empty() || var.empty()) {
    return Unsupported("it keeps no running statistics; right would be track_running_stats=True");
  }
  Layer layer;
  Norm* norm = layer.mutable_norm();
  norm->set_kind("batch");
  SetEps(node, kEps, norm);
  const double momentum = node.Float("momentum", kMomentum);
  if (momentum == 0) {
    return Unsupported(
        "its momentum is 0: of BatchNorm(momentum=None), an average over all batches, which jobs do not ",
        "have, or of statistics that stay");
  }
  if (node.Bool("training", false)) {
    return Unsupported("it uses the statistics of each batch always; right would be an export after model.eval()");
  }
  if (builder.Owned(mean) || builder.Owned(var)) {
    return Unsupported("it is called twice, or shares its running statistics; right would be a module for each use");
  }
  if (momentum != kMomentum) norm->set_momentum(momentum);
  ADJOIN_RETURN_IF_ERROR(AddNorm(node, builder, std::move(layer), /*affine_by_default=*/true,
                                 {{"running_mean", mean}, {"running_var", var}}));
  builder.AddUnreadBuffer("num_batches_tracked", mean);
  return absl::OkStatus();
}

absl::Status Group(const OpNode& node, LayerBuilder& builder) {
  const int64_t groups = node.Int("num_groups", 0);
  if (groups < 1 || groups > UINT32_MAX) return Unsupported("it has ", groups, " groups");
  Layer layer;
  layer.mutable_norm()->set_kind("group");
  layer.mutable_norm()->set_groups(static_cast<uint32_t>(groups));
  SetEps(node, kEps, layer.mutable_norm());
  return AddNorm(node, builder, std::move(layer), /*affine_by_default=*/true);
}

absl::Status Instance(const OpNode& node, LayerBuilder& builder) {
  if (!node.Tensor("running_mean").empty() || !node.Bool("use_input_stats", true)) {
    return Unsupported("it keeps running statistics; right would be track_running_stats=False");
  }
  Layer layer;
  layer.mutable_norm()->set_kind("instance");
  SetEps(node, kEps, layer.mutable_norm());
  return AddNorm(node, builder, std::move(layer), /*affine_by_default=*/false);
}

absl::Status OverLastDims(const OpNode& node, LayerBuilder& builder, const char* kind, double eps) {
  const int64_t dims = static_cast<int64_t>(node.Ints("normalized_shape").size());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> input, builder.Shape(node.Tensor("input")));
  if (dims < 1 || dims >= static_cast<int64_t>(input.size())) {
    return Unsupported("it normalises over ", dims, " of ", input.size(),
                       " dims; right would be all but the batch at most");
  }
  Layer layer;
  layer.mutable_norm()->set_kind(kind);
  for (int64_t dim = -dims; dims > 1 && dim < 0; ++dim) layer.mutable_norm()->add_dim(static_cast<int32_t>(dim));
  SetEps(node, eps, layer.mutable_norm());
  return AddNorm(node, builder, std::move(layer), /*affine_by_default=*/true, {}, static_cast<size_t>(dims));
}

absl::Status LayerNorm(const OpNode& node, LayerBuilder& builder) { return OverLastDims(node, builder, "layer", kEps); }

absl::Status RmsNorm(const OpNode& node, LayerBuilder& builder) {
  if (!node.Has("eps")) return Unsupported("it has no eps; right would be an explicit one");
  return OverLastDims(node, builder, "rms", kEps);
}

}  // namespace

const OpRules& NormRules() {
  static const auto* rules = new OpRules{
      {"_native_batch_norm_legit_no_training", Batch},
      {"batch_norm", Batch},
      {"group_norm", Group},
      {"instance_norm", Instance},
      {"layer_norm", LayerNorm},
      {"rms_norm", RmsNorm},
  };
  return *rules;
}

}  // namespace adjoin
