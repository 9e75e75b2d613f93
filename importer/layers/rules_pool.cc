// Pooling, and what changes spatial extents: upsampling, padding, pixel shuffle.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "importer/layers/boundary_padding.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

absl::StatusOr<size_t> SpatialDims(const OpNode& node, const LayerBuilder& builder, const char* input = "self") {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(input)));
  const size_t named = DimsOfName(node.op);
  if (named > 0 && shape.size() != named + 2) {
    return Unsupported("its input has ", shape.size(), " dims; right would be [batch, channels, ", named,
                       named == 1 ? " spatial dim]" : " spatial dims]");
  }
  if (shape.size() >= 3 && shape.size() <= 5) return shape.size() - 2;
  return Unsupported("its input has ", shape.size(), " dims; right would be [batch, channels, 1 to 3 spatial dims]");
}

absl::Status WindowPool(const OpNode& node, LayerBuilder& builder, const char* mode) {
  ADJOIN_RETURN_IF_ERROR(SpatialDims(node, builder).status());
  Layer layer;
  Pool* pool = layer.mutable_pool();
  WindowSpec* window = pool->mutable_window();
  pool->set_mode(mode);
  const std::vector<int64_t> kernel = node.Ints("kernel_size");
  if (kernel.empty()) return Unsupported("it has no kernel_size");
  ADJOIN_RETURN_IF_ERROR(WritePerDim(kernel, 0, 1, window->mutable_kernel()));
  const std::vector<int64_t> stride = node.Ints("stride");  // none: the kernel
  if (!stride.empty() && stride != kernel) {
    ADJOIN_RETURN_IF_ERROR(WritePerDim(stride, 0, 1, window->mutable_stride()));
  }
  ADJOIN_RETURN_IF_ERROR(WritePerDim(node.Ints("padding", {0}), 0, 0, window->mutable_pad_lo()));
  ADJOIN_RETURN_IF_ERROR(WritePerDim(node.Ints("dilation", {1}), 1, 1, window->mutable_dilation()));
  if (node.Bool("ceil_mode", false)) pool->set_ceil_mode(true);
  if (!node.Bool("count_include_pad", true)) pool->set_count_include_pad(false);
  if (node.Has("divisor_override")) pool->set_divisor_override(node.Int("divisor_override", 0));
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}
absl::Status MaxPool(const OpNode& node, LayerBuilder& builder) { return WindowPool(node, builder, "max"); }
absl::Status AvgPool(const OpNode& node, LayerBuilder& builder) { return WindowPool(node, builder, "avg"); }

absl::Status AdaptivePool(const OpNode& node, LayerBuilder& builder, const char* mode) {
  ADJOIN_RETURN_IF_ERROR(SpatialDims(node, builder).status());
  Layer layer;
  layer.mutable_pool()->set_mode(mode);
  const std::vector<int64_t> size = node.Ints("output_size");
  if (size.empty()) return Unsupported("it has no output_size");
  ADJOIN_RETURN_IF_ERROR(WritePerDim(size, 0, 1, layer.mutable_pool()->mutable_adaptive_size()));
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}
absl::Status AdaptiveMaxPool(const OpNode& node, LayerBuilder& builder) { return AdaptivePool(node, builder, "max"); }
absl::Status AdaptiveAvgPool(const OpNode& node, LayerBuilder& builder) { return AdaptivePool(node, builder, "avg"); }

// A size and scale factors, where PyTorch samples by the factors: they must be what the size makes of the input.
absl::Status CheckScales(const OpNode& node, const LayerBuilder& builder, const char* input) {
  const std::vector<int64_t> size = node.Ints("output_size");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor(input)));
  const size_t spatial = shape.size() - 2;
  std::vector<double> scales = node.Floats("scale_factors");
  const bool factors_alone = !scales.empty() && size.empty();
  if (scales.empty()) scales = std::vector<double>(spatial, 0);
  if (scales.size() != spatial || (!size.empty() && size.size() != spatial)) {
    return Unsupported("it has not one size and scale factor for each spatial dim");
  }
  if (factors_alone) return absl::OkStatus();
  constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t i = 0; i < spatial; ++i) {
    const double scale = node.Float(spatial == 1 ? "scales" : kNames[3 - spatial + i], scales[i]);
    if (scale == 0) continue;
    if (size.empty() || static_cast<double>(shape[2 + i]) * scale != static_cast<double>(size[i])) {
      return Unsupported("its scale factor ", scale, " is not what its size makes of the input; right would be ",
                         "recompute_scale_factor=True, or a size");
    }
  }
  return absl::OkStatus();
}

// upsample_bilinear2d, _upsample_nearest_exact2d, ...
absl::Status UpsampleLayer(const OpNode& node, LayerBuilder& builder) {
  const char* input = node.Has("input") ? "input" : "self";
  ADJOIN_RETURN_IF_ERROR(SpatialDims(node, builder, input).status());
  Layer layer;
  Upsample* upsample = layer.mutable_upsample();
  for (const char* mode : {"nearest_exact", "nearest", "trilinear", "bilinear", "linear", "bicubic"}) {
    if (!absl::StrContains(node.op, mode)) continue;
    upsample->set_mode(mode == std::string("nearest_exact") ? "nearest-exact" : mode);
    break;
  }
  if (node.Bool("align_corners", false)) upsample->set_align_corners(true);
  ADJOIN_RETURN_IF_ERROR(CheckScales(node, builder, input));
  const std::vector<double> scale = node.Floats("scale_factors");
  if (!scale.empty()) {
    for (double factor : scale) {
      if (!(factor > 0 && factor < 1e6)) return Unsupported("its scale factor is ", factor);
    }
    const bool equal = std::all_of(scale.begin(), scale.end(), [&](double factor) { return factor == scale[0]; });
    for (size_t i = 0; i < (equal ? 1 : scale.size()); ++i) upsample->add_scale(scale[i]);
  } else {
    const std::vector<int64_t> size = node.Ints("output_size");
    if (size.empty()) return Unsupported("it has neither a size nor a scale factor");
    for (int64_t extent : size) {
      if (extent < 1)
        return Unsupported("its size is not fixed; right would be a scale factor, or an export of a fixed size");
      upsample->add_size(extent);
    }
  }
  return builder.Add(node, std::move(layer), {node.Tensor(input)});
}

absl::Status PadLayer(const OpNode& node, LayerBuilder& builder) {
  if (const auto padding = BoundaryPaddingOf(node)) return AddBoundaryPadding(node, *padding, builder);
  if (node.Text("mode", "constant") != "constant") {
    return Unsupported("its mode is none of \"constant\", \"circular\", \"reflect\" and \"replicate\"");
  }
  if (node.Float("value", 0) != 0) return Unsupported("its value is not 0");
  Layer layer;
  for (int64_t count : node.Ints("pad")) layer.mutable_pad()->add_arg(count);
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}

absl::Status Shuffle(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> input, builder.Shape(node.Tensor("self")));
  if (input.size() != 4) return Unsupported("its input has ", input.size(), " dims; right would be 4");
  Layer layer;
  const bool up = node.op == "pixel_shuffle";
  Shape* shape = up ? layer.mutable_pixel_shuffle() : layer.mutable_pixel_unshuffle();
  shape->add_arg(node.Int(up ? "upscale_factor" : "downscale_factor", 1));
  return builder.Add(node, std::move(layer), {node.Tensor("self")});
}

}  // namespace

const OpRules& PoolRules() {
  static const auto* rules = new OpRules{
      {"_adaptive_avg_pool2d", AdaptiveAvgPool},
      {"_adaptive_avg_pool3d", AdaptiveAvgPool},
      {"_upsample_nearest_exact1d", UpsampleLayer},
      {"_upsample_nearest_exact2d", UpsampleLayer},
      {"_upsample_nearest_exact3d", UpsampleLayer},
      {"adaptive_avg_pool1d", AdaptiveAvgPool},
      {"adaptive_avg_pool2d", AdaptiveAvgPool},
      {"adaptive_avg_pool3d", AdaptiveAvgPool},
      {"adaptive_max_pool1d", AdaptiveMaxPool},
      {"adaptive_max_pool2d", AdaptiveMaxPool},
      {"adaptive_max_pool3d", AdaptiveMaxPool},
      {"avg_pool1d", AvgPool},
      {"avg_pool2d", AvgPool},
      {"avg_pool3d", AvgPool},
      {"constant_pad_nd", PadLayer},
      {"max_pool1d", MaxPool},
      {"max_pool2d", MaxPool},
      {"max_pool2d_with_indices", MaxPool},
      {"max_pool3d", MaxPool},
      {"max_pool3d_with_indices", MaxPool},
      {"pad", PadLayer},
      {"pixel_shuffle", Shuffle},
      {"pixel_unshuffle", Shuffle},
      {"reflection_pad1d", PadLayer},
      {"reflection_pad2d", PadLayer},
      {"reflection_pad3d", PadLayer},
      {"replication_pad1d", PadLayer},
      {"replication_pad2d", PadLayer},
      {"replication_pad3d", PadLayer},
      {"upsample_bicubic2d", UpsampleLayer},
      {"upsample_bilinear2d", UpsampleLayer},
      {"upsample_linear1d", UpsampleLayer},
      {"upsample_nearest1d", UpsampleLayer},
      {"upsample_nearest2d", UpsampleLayer},
      {"upsample_nearest3d", UpsampleLayer},
      {"upsample_trilinear3d", UpsampleLayer},
  };
  return *rules;
}

}  // namespace adjoin
