// Convolutions, linear layers, embeddings.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/boundary_padding.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

constexpr int64_t kInt32 = std::numeric_limits<int32_t>::max();

absl::Status WriteWindow(const OpNode& node, const std::vector<int64_t>& kernel, WindowSpec* window) {
  // One number would stand for every dim as well.
  ADJOIN_RETURN_IF_ERROR(WritePerDim(kernel, /*absent=*/0, /*least=*/1, window->mutable_kernel()));
  ADJOIN_RETURN_IF_ERROR(WritePerDim(node.Ints("stride", {1}), 1, 1, window->mutable_stride()));
  ADJOIN_RETURN_IF_ERROR(WritePerDim(node.Ints("dilation", {1}), 1, 1, window->mutable_dilation()));
  const std::string named = node.Text("padding", "");
  if (named.empty()) return WritePerDim(node.Ints("padding", {0}), 0, 0, window->mutable_pad_lo());
  if (named != "same" && named != "valid") return Unsupported("its padding is neither numbers, same nor valid");
  if (named == "same") window->set_padding(named);
  return absl::OkStatus();
}

// What FindPaddedConvolutions has put into the convolution.
absl::Status WriteBoundary(const OpNode& node, WindowSpec* window) {
  const std::string mode = node.Text(kBoundaryArgument, "");
  if (mode.empty()) return absl::OkStatus();
  const std::vector<int64_t> pads = node.Ints("pad");
  std::vector<int64_t> lo, hi;
  for (size_t i = pads.size(); i >= 2; i -= 2) {  // the last dim is the first pair
    lo.push_back(pads[i - 2]);
    hi.push_back(pads[i - 1]);
  }
  window->set_boundary(mode);
  ADJOIN_RETURN_IF_ERROR(WritePerDim(lo, 0, 0, window->mutable_pad_lo()));
  if (hi == lo) return absl::OkStatus();
  return WritePerDim(hi, /*absent=*/-1, 0, window->mutable_pad_hi());
}

absl::Status AddConvolution(const OpNode& node, LayerBuilder& builder, bool transposed) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, builder.Shape(node.Tensor("weight")));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> input, builder.Shape(node.Tensor("input")));
  if (weight.size() < 3 || weight.size() > 5 || input.size() != weight.size() ||
      (DimsOfName(node.op) > 0 && DimsOfName(node.op) + 2 != input.size())) {
    return Unsupported("its input has ", input.size(), " dims; right would be [batch, channels, 1 to 3 spatial dims]");
  }
  const int64_t groups = node.Int("groups", 1);
  const int64_t channels = weight[transposed ? 1 : 0];
  if (groups < 1 || groups > kInt32 || channels < 1 || channels > kInt32 / groups) {
    return Unsupported("it has ", channels, " channels in ", groups, " groups");
  }
  Layer layer;
  Conv* conv = layer.mutable_conv();
  ADJOIN_RETURN_IF_ERROR(
      WriteWindow(node, std::vector<int64_t>(weight.begin() + 2, weight.end()), conv->mutable_window()));
  ADJOIN_RETURN_IF_ERROR(WriteBoundary(node, conv->mutable_window()));
  conv->set_out_channels(static_cast<uint32_t>(transposed ? channels * groups : channels));
  if (groups != 1) conv->set_groups(static_cast<uint32_t>(groups));
  if (node.Tensor("bias").empty()) conv->set_bias(false);
  if (transposed) {
    conv->set_transposed(true);
    ADJOIN_RETURN_IF_ERROR(WritePerDim(node.Ints("output_padding", {0}), 0, 0, conv->mutable_output_padding()));
  }
  return builder.Add(node, std::move(layer), {node.Tensor("input")},
                     {{"weight", node.Tensor("weight")}, {"bias", node.Tensor("bias")}});
}

absl::Status Convolution(const OpNode& node, LayerBuilder& builder) {
  return AddConvolution(node, builder, /*transposed=*/node.Bool("transposed", false));
}

absl::Status TransposedConvolution(const OpNode& node, LayerBuilder& builder) {
  return AddConvolution(node, builder, /*transposed=*/true);
}

absl::Status LinearLayer(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, builder.Shape(node.Tensor("weight")));
  if (weight.size() != 2 || weight[0] < 1 || weight[0] > kInt32) return Unsupported("its weight is no matrix");
  if (!builder.IsFloat(node.Tensor("input"))) return Unsupported("its input is not of a floating-point type");
  for (const char* computed : {"weight", "bias"}) {
    if (builder.IsOfParameters(node.Tensor(computed))) return LinearOfComputed(node, builder);
  }
  Layer layer;
  layer.mutable_linear()->set_out_features(static_cast<uint32_t>(weight[0]));
  if (node.Tensor("bias").empty()) layer.mutable_linear()->set_bias(false);
  return AddOverLastDims(node, std::move(layer), 1, builder,
                         {{"weight", node.Tensor("weight")}, {"bias", node.Tensor("bias")}});
}

// Rows 0, 1, ... of a table, as positions are looked up: a part of the parameter.
absl::Status SetFirstRows(const OpNode& node, LayerBuilder& builder) {
  const std::string table = node.Tensor("weight");
  const ParameterView* parameter = builder.ParameterOf(table);
  if (node.outputs.empty() || parameter == nullptr || parameter->dims().size() != 2) {
    return Unsupported("its weight is no table of vectors");
  }
  ADJOIN_ASSIGN_OR_RETURN(const ConstantTensor indices, builder.ConstantOf(node.Tensor("indices")));
  const int64_t rows = indices.shape.empty() ? 0 : indices.shape.back();
  for (int64_t i = 0; i < indices.Elements(); ++i) {
    if (rows < 1 || indices.At(i) != static_cast<double>(i % rows)) {
      return Unsupported("its indices are fixed and not 0, 1, 2 and so on; right would be a parameter that is added");
    }
  }
  const int64_t padding = node.Int("padding_idx", -1);
  if (padding >= 0 && padding < rows) {
    return Unsupported("its padding_idx is a row that it reads, which then has no gradient; right would be no ",
                       "padding_idx");
  }
  ADJOIN_ASSIGN_OR_RETURN(const ParameterView first, parameter->First(0, rows));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.outputs[0]));
  ADJOIN_ASSIGN_OR_RETURN(ParameterView view, first.Expanded(shape));
  return builder.SetParameterView(node, table, std::move(view));
}

absl::Status EmbeddingLayer(const OpNode& node, LayerBuilder& builder) {
  if (builder.IsConstant(node.Tensor("indices"))) return SetFirstRows(node, builder);
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, builder.Shape(node.Tensor("weight")));
  if (weight.size() != 2) return Unsupported("its weight is no table of vectors");
  if (node.Bool("scale_grad_by_freq", false) || node.Bool("sparse", false)) {
    return Unsupported("scale_grad_by_freq and sparse are not supported");
  }
  Layer layer;
  layer.mutable_embedding()->set_num_embeddings(weight[0]);
  layer.mutable_embedding()->set_dim(weight[1]);
  const int64_t padding = node.Int("padding_idx", -1);  // -1: none
  if (padding >= 0) layer.mutable_embedding()->set_padding_index(padding);
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, builder.Shape(node.Tensor("indices")));
  if (indices.size() == 1) {
    // One number a sample, which is [batch, 1] in a job.
    ADJOIN_ASSIGN_OR_RETURN(const std::string source, builder.SourceOf(node.Tensor("indices")));
    ADJOIN_ASSIGN_OR_RETURN(const std::string made,
                            builder.Append(node, std::move(layer), {source}, {{"weight", node.Tensor("weight")}}));
    return builder.SetResult(node, made, ValueView::Of({indices[0], 1, weight[1]}).WithoutDim(1));
  }
  return builder.Add(node, std::move(layer), {node.Tensor("indices")}, {{"weight", node.Tensor("weight")}});
}

}  // namespace

const OpRules& ConvolutionRules() {
  static const auto* rules = new OpRules{
      {"_convolution", Convolution},
      {"conv1d", Convolution},
      {"conv2d", Convolution},
      {"conv3d", Convolution},
      {"conv_transpose1d", TransposedConvolution},
      {"conv_transpose2d", TransposedConvolution},
      {"conv_transpose3d", TransposedConvolution},
      {"convolution", Convolution},
      {"embedding", EmbeddingLayer},
      {"linear", LinearLayer},
  };
  return *rules;
}

}  // namespace adjoin
