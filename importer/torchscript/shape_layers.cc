// The extents of what convolutions, pooling and products of matrices return.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "importer/layers/rule_arguments.h"
#include "importer/torchscript/shape_inference.h"

namespace adjoin {
namespace {

// One number per spatial dim, of a list that has one or as many. Errors: another number of them, or one out of range.
absl::StatusOr<Extents> PerDim(const ShapeCall& call, const std::string& name, int64_t otherwise, size_t dims) {
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  Extents numbers = call.node.Ints(name, {otherwise});
  if (numbers.size() == 1) numbers.resize(dims, numbers[0]);
  const bool fits = numbers.size() == dims && std::all_of(numbers.begin(), numbers.end(), [](int64_t number) {
                      return number >= 0 && number < kMaxExtent;
                    });
  if (!fits) return DoesNotFit("its ", name, " is ", ShownExtents(numbers), ", of ", dims, " spatial dims");
  return numbers;
}

// How many positions a window has; with `ceil` the last one may go beyond the end, and begin before it. Source:
// pooling_output_shape of ATen/native/Pool.h.
absl::StatusOr<int64_t> Windows(int64_t extent, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                                bool ceil) {
  if (stride < 1 || dilation < 1 || kernel < 1 || kernel > kMaxExtent / dilation) {
    return DoesNotFit("its window has the kernel ", kernel, ", stride ", stride, " and dilation ", dilation);
  }
  const int64_t rest = extent + 2 * padding - dilation * (kernel - 1) - 1;
  const int64_t room = rest + (ceil ? stride - 1 : 0);
  int64_t windows = room < 0 ? 0 : room / stride + 1;
  if (ceil && windows > 0 && (windows - 1) * stride >= extent + padding) --windows;
  if (windows == 0) return DoesNotFit("its input has ", extent, " cells where its window has ", kernel);
  return windows;
}

Results Convolution(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Tensor("input"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo weight, call.Tensor("weight"));
  const Extents& kernel = weight.shape;
  if (kernel.size() < 3 || info.shape.size() != kernel.size()) {
    return DoesNotFit("its input is ", ShownExtents(info.shape), " and its weight ", ShownExtents(kernel));
  }
  const bool transposed =
      call.node.Bool("transposed", false) || call.node.op.find("conv_transpose") != std::string::npos;
  const size_t dims = kernel.size() - 2;
  const int64_t groups = call.node.Int("groups", 1);
  const bool has_groups = groups >= 1 && groups <= kMaxExtent;
  if (!has_groups || (transposed ? kernel[0] : kernel[1] * groups) != info.shape[1]) {
    return DoesNotFit("its input is ", ShownExtents(info.shape), " and its weight ", ShownExtents(kernel));
  }
  info.shape[1] = transposed ? kernel[1] * groups : kernel[0];
  const std::string named = call.node.Text("padding", "");
  if (named == "same") return One(std::move(info));
  Extents padding(dims, 0);
  if (named.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(padding, PerDim(call, "padding", 0, dims));
  }
  ADJOIN_ASSIGN_OR_RETURN(const Extents stride, PerDim(call, "stride", 1, dims));
  ADJOIN_ASSIGN_OR_RETURN(const Extents dilation, PerDim(call, "dilation", 1, dims));
  ADJOIN_ASSIGN_OR_RETURN(const Extents output_padding, PerDim(call, "output_padding", 0, dims));
  for (size_t i = 0; i < dims; ++i) {
    int64_t& extent = info.shape[2 + i];
    if (!transposed) {
      ADJOIN_ASSIGN_OR_RETURN(extent, Windows(extent, kernel[2 + i], stride[i], padding[i], dilation[i], false));
    } else {
      const int64_t steps = (extent - 1) * stride[i], window = dilation[i] * (kernel[2 + i] - 1);
      if (steps > kMaxExtent || window > kMaxExtent) return DoesNotFit("its result is too large");
      extent = steps + window + 1 + output_padding[i] - 2 * padding[i];
    }
  }
  return One(std::move(info));
}

// Where the spatial dims begin; the dims before them stay.
absl::StatusOr<size_t> FirstSpatial(const ShapeCall& call, const TensorInfo& info) {
  const size_t dims = DimsOfName(call.node.op);
  if (dims > 0 && info.shape.size() > dims) return info.shape.size() - dims;
  return DoesNotFit("its input is ", ShownExtents(info.shape));
}

Results Pooling(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const size_t first, FirstSpatial(call, info));
  const size_t dims = info.shape.size() - first;
  ADJOIN_ASSIGN_OR_RETURN(const Extents kernel, PerDim(call, "kernel_size", 0, dims));
  Extents stride = kernel;
  if (!call.node.Ints("stride").empty()) {
    ADJOIN_ASSIGN_OR_RETURN(stride, PerDim(call, "stride", 1, dims));
  }
  ADJOIN_ASSIGN_OR_RETURN(const Extents padding, PerDim(call, "padding", 0, dims));
  ADJOIN_ASSIGN_OR_RETURN(const Extents dilation, PerDim(call, "dilation", 1, dims));
  for (size_t i = 0; i < dims; ++i) {
    ADJOIN_ASSIGN_OR_RETURN(info.shape[first + i], Windows(info.shape[first + i], kernel[i], stride[i], padding[i],
                                                           dilation[i], call.node.Bool("ceil_mode", false)));
  }
  if (call.node.op.find("with_indices") == std::string::npos) return One(std::move(info));
  return std::vector<TensorInfo>{info, {DType::kInt64, info.shape}};
}

Results AdaptivePooling(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const size_t first, FirstSpatial(call, info));
  ADJOIN_ASSIGN_OR_RETURN(const Extents size, PerDim(call, "output_size", 1, info.shape.size() - first));
  std::copy(size.begin(), size.end(), info.shape.begin() + static_cast<int64_t>(first));
  if (call.node.op.find("max") == std::string::npos) return One(std::move(info));
  return std::vector<TensorInfo>{info, {DType::kInt64, info.shape}};
}

Results Upsampling(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed("output_size"));
  ADJOIN_ASSIGN_OR_RETURN(const size_t first, FirstSpatial(call, info));
  const size_t dims = info.shape.size() - first;
  const Extents size = call.node.Ints("output_size");
  const std::vector<double> scales = call.node.Floats("scale_factors");
  for (size_t i = 0; i < dims; ++i) {
    int64_t& extent = info.shape[first + i];
    if (size.size() == dims) {
      extent = size[i];
    } else if (scales.size() == dims && scales[i] > 0 && scales[i] < 1e6) {
      extent = static_cast<int64_t>(std::floor(static_cast<double>(extent) * scales[i]));
    } else {
      return DoesNotFit("it has not one size or scale factor for each spatial dim");
    }
  }
  return One(std::move(info));
}

Results Embedding(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo weight, call.Tensor("weight"));
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Tensor("indices"));
  if (weight.shape.size() != 2) return DoesNotFit("its weight is ", ShownExtents(weight.shape));
  if (info.dtype != DType::kInt64 && info.dtype != DType::kInt32) {
    return DoesNotFit("its indices are of ", ToString(info.dtype), "; of an argument of whole numbers --example-shape ",
                      "says so, as in 2x16:int64");
  }
  info.dtype = weight.dtype;
  info.shape.push_back(weight.shape[1]);
  return One(std::move(info));
}

Results Glu(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", -1, info.shape.size()));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  info.shape[static_cast<size_t>(dim)] /= 2;
  return One(std::move(info));
}

// Rows and columns that shuffle into channels, or the other way.
Results PixelShuffle(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const bool up = call.node.op == "pixel_shuffle";
  const int64_t factor = call.node.Int(up ? "upscale_factor" : "downscale_factor", 1);
  if (info.shape.size() < 3 || factor < 1 || factor > 1000) return DoesNotFit("its factor is ", factor);
  int64_t* extents = &info.shape[info.shape.size() - 3];
  extents[0] = up ? extents[0] / (factor * factor) : extents[0] * factor * factor;
  for (int i : {1, 2}) extents[i] = up ? extents[i] * factor : extents[i] / factor;
  return One(std::move(info));
}

Results Pad(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed("pad"));
  const Extents pad = call.node.Ints("pad");
  if (pad.size() % 2 != 0 || pad.size() / 2 > info.shape.size()) return DoesNotFit("its pad is ", ShownExtents(pad));
  for (size_t i = 0; i < pad.size(); ++i) {
    if (pad[i] < -kMaxExtent || pad[i] > kMaxExtent) return DoesNotFit("its pad is ", ShownExtents(pad));
    info.shape[info.shape.size() - 1 - i / 2] += pad[i];
  }
  return One(std::move(info));
}

Results Linear(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Tensor("input"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo weight, call.Tensor("weight"));
  if (weight.shape.size() != 2 || info.shape.empty() || info.shape.back() != weight.shape[1]) {
    return DoesNotFit("its input is ", ShownExtents(info.shape), " and its weight ", ShownExtents(weight.shape));
  }
  info.shape.back() = weight.shape[0];
  return One(std::move(info));
}

absl::StatusOr<TensorInfo> Product(const TensorInfo& a, const TensorInfo& b) {
  const auto wrong = [&] {
    return DoesNotFit("its matrices are ", ShownExtents(a.shape), " and ", ShownExtents(b.shape));
  };
  if (a.shape.empty() || b.shape.empty()) return wrong();
  Extents left = a.shape, right = b.shape;
  if (a.shape.size() == 1) left.insert(left.begin(), 1);
  if (b.shape.size() == 1) right.push_back(1);
  if (left.back() != right[right.size() - 2]) return wrong();
  TensorInfo info{a.dtype, {}};
  ADJOIN_ASSIGN_OR_RETURN(info.shape,
                          BroadcastOf(Extents(left.begin(), left.end() - 2), Extents(right.begin(), right.end() - 2)));
  if (a.shape.size() > 1) info.shape.push_back(left[left.size() - 2]);
  if (b.shape.size() > 1) info.shape.push_back(right.back());
  return info;
}

Results MatrixProduct(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo a, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo b, call.Tensor(call.node.Has("mat2") ? "mat2" : "other"));
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, Product(a, b));
  return One(std::move(info));
}

Results AddedProduct(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo a, call.Tensor("mat1"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo b, call.Tensor("mat2"));
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, Product(a, b));
  return One(std::move(info));
}

Results Outer(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo a, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo b, call.Tensor("vec2"));
  if (a.shape.size() != 1 || b.shape.size() != 1) return DoesNotFit("its arguments are no vectors");
  return One({a.dtype, {a.shape[0], b.shape[0]}});
}

Results Einsum(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, call.Tensors("tensors"));
  std::string equation = call.node.Text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) {
    return absl::NotFoundError("its equation has no result, or an ellipsis");
  }
  std::map<char, int64_t> extents;
  size_t operand = 0, dim = 0;
  for (size_t i = 0; i <= arrow; ++i) {
    if (i == arrow || equation[i] == ',') {
      if (operand >= tensors.size() || dim != tensors[operand].shape.size()) {
        return DoesNotFit("its equation is of other tensors");
      }
      ++operand, dim = 0;
      continue;
    }
    if (operand >= tensors.size() || dim >= tensors[operand].shape.size()) {
      return DoesNotFit("its equation is of other tensors");
    }
    int64_t& extent = extents.emplace(equation[i], 1).first->second;
    extent = std::max(extent, tensors[operand].shape[dim++]);
  }
  TensorInfo info{tensors[0].dtype, {}};
  for (const char c : equation.substr(arrow + 2)) {
    if (extents.count(c) == 0) return DoesNotFit("its equation has a result of other dims");
    info.shape.push_back(extents[c]);
  }
  return One(std::move(info));
}

Results Attention(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Tensor("query"));
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo value, call.Tensor("value"));
  if (info.shape.empty() || value.shape.empty()) return DoesNotFit("its query or value has no dims");
  info.shape.back() = value.shape.back();
  return One(std::move(info));
}

}  // namespace

const ShapeRuleTable& LayerShapes() {
  static const auto* rules = [] {
    auto* all = new ShapeRuleTable{
        {"constant_pad_nd", Pad},        {"embedding", Embedding},         {"glu", Glu}, {"pad", Pad},
        {"pixel_shuffle", PixelShuffle}, {"pixel_unshuffle", PixelShuffle}};
    for (const char* op : {"_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                           "conv_transpose3d", "convolution"}) {
      (*all)[op] = Convolution;
    }
    for (const char* op : {"avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d",
                           "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices"}) {
      (*all)[op] = Pooling;
    }
    for (const char* op :
         {"_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
          "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"}) {
      (*all)[op] = AdaptivePooling;
    }
    for (const char* op : {"_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
                           "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d",
                           "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d"}) {
      (*all)[op] = Upsampling;
    }
    return all;
  }();
  return *rules;
}

const ShapeRuleTable& ProductShapes() {
  static const auto* rules = new ShapeRuleTable{
      {"addmm", AddedProduct},   {"bmm", MatrixProduct},
      {"einsum", Einsum},        {"linear", Linear},
      {"matmul", MatrixProduct}, {"mm", MatrixProduct},
      {"outer", Outer},          {"scaled_dot_product_attention", Attention},
  };
  return *rules;
}

}  // namespace adjoin
