#include "importer/torchscript/shape_inference.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "importer/archive/scalar_type.h"
#include "importer/graph/type_promotion.h"

namespace adjoin {
namespace {

constexpr size_t kMaxTensorDims = 16;

TypedOperand OperandOf(const TensorInfo& info) {
  return {info.dtype, info.shape.empty() ? TypedOperand::kTensorWithoutDims : TypedOperand::kTensor};
}

// Tensors and numbers of these names, together. `shape` is what they broadcast to.
absl::StatusOr<DType> Combined(const ShapeCall& call, const std::vector<std::string>& names, Extents& shape) {
  std::vector<TypedOperand> operands;
  for (const std::string& name : names) {
    if (call.IsTensor(name)) {
      ADJOIN_ASSIGN_OR_RETURN(const TensorInfo info, call.Tensor(name));
      ADJOIN_ASSIGN_OR_RETURN(shape, BroadcastOf(shape, info.shape));
      operands.push_back(OperandOf(info));
      continue;
    }
    const auto found = call.node.arguments.find(name);
    if (found == call.node.arguments.end()) continue;
    const OpArgument::Kind kind = found->second.kind;
    if (kind == OpArgument::Kind::kBool) operands.push_back({DType::kBool, TypedOperand::kNumber});
    if (kind == OpArgument::Kind::kInts) operands.push_back({DType::kInt64, TypedOperand::kNumber});
    if (kind == OpArgument::Kind::kFloats) operands.push_back({DType::kFloat32, TypedOperand::kNumber});
  }
  return PromotedType(operands);
}

Results Same(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  return One(std::move(info));
}

Results Typed(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, call.Type(info.dtype));
  return One(std::move(info));
}

// Bools and whole numbers are counted in int64.
Results Cumulated(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  if (!IsFloatingPoint(info.dtype)) info.dtype = DType::kInt64;
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, call.Type(info.dtype));
  return One(std::move(info));
}

// A power of a bool is a whole number.
Results Square(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  if (info.dtype == DType::kBool) info.dtype = DType::kInt64;
  return One(std::move(info));
}

// Whole numbers become floating point.
Results FloatFunction(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  if (!IsFloatingPoint(info.dtype)) info.dtype = DType::kFloat32;
  return One(std::move(info));
}

Results Test(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  info.dtype = DType::kBool;
  return One(std::move(info));
}

Results Binary(const ShapeCall& call) {
  TensorInfo info;
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, Combined(call, {"self", "other", "exponent"}, info.shape));
  return One(std::move(info));
}

Results Division(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos, Binary(call));
  const bool rounds = call.node.Has("rounding_mode");
  if (!rounds && !IsFloatingPoint(infos[0].dtype)) infos[0].dtype = DType::kFloat32;
  return infos;
}

Results Comparison(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos, Binary(call));
  infos[0].dtype = DType::kBool;
  return infos;
}

Results Where(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo condition, call.Tensor("condition"));
  TensorInfo info{DType::kFloat32, condition.shape};
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, Combined(call, {"self", "other"}, info.shape));
  return One(std::move(info));
}

Results MaskedFill(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo mask, call.Tensor("mask"));
  ADJOIN_ASSIGN_OR_RETURN(info.shape, BroadcastOf(info.shape, mask.shape));
  return One(std::move(info));
}

Results Clamp(const ShapeCall& call) {
  TensorInfo info;
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, Combined(call, {"self", "min", "max"}, info.shape));
  return One(std::move(info));
}

Results TypeAs(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo other, call.Tensor("other"));
  info.dtype = other.dtype;
  return One(std::move(info));
}

Results To(const ShapeCall& call) { return call.IsTensor("other") ? TypeAs(call) : Typed(call); }

const ShapeRule* FindShapeRule(const std::string& op) {
  for (const ShapeRuleTable* rules :
       {&PointwiseShapes(), &LayerShapes(), &ProductShapes(), &ViewShapes(), &CreatingShapes()}) {
    const auto found = rules->find(op);
    if (found != rules->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

const ShapeRuleTable& PointwiseShapes() {
  static const auto* rules = [] {
    auto* all = new ShapeRuleTable{
        {"_to_copy", Typed},   {"clamp", Clamp},   {"clamp_max", Clamp},        {"clamp_min", Clamp},
        {"cumsum", Cumulated}, {"square", Square}, {"masked_fill", MaskedFill}, {"to", To},
        {"type_as", TypeAs},   {"where", Where},
    };
    for (const char* op : {"abs",
                           "absolute",
                           "alias",
                           "alpha_dropout",
                           "batch_norm",
                           "bitwise_not",
                           "ceil",
                           "celu",
                           "clone",
                           "contiguous",
                           "copy",
                           "detach",
                           "dropout",
                           "elu",
                           "feature_dropout",
                           "fill",
                           "flip",
                           "floor",
                           "frac",
                           "gelu",
                           "group_norm",
                           "hardshrink",
                           "hardsigmoid",
                           "hardswish",
                           "hardtanh",
                           "instance_norm",
                           "layer_norm",
                           "leaky_relu",
                           "lift_fresh_copy",
                           "log_sigmoid",
                           "mish",
                           "neg",
                           "negative",
                           "prelu",
                           "relu",
                           "relu6",
                           "rms_norm",
                           "roll",
                           "round",
                           "selu",
                           "sign",
                           "silu",
                           "softplus",
                           "softshrink",
                           "threshold",
                           "tril",
                           "triu",
                           "trunc",
                           "zero"}) {
      (*all)[op] = Same;
    }
    for (const char* op : {"_log_softmax", "_softmax", "log_softmax", "softmax"}) (*all)[op] = Typed;
    for (const char* op : {"acos",
                           "acosh",
                           "arccos",
                           "arccosh",
                           "arcsin",
                           "arcsinh",
                           "arctan",
                           "arctanh",
                           "asin",
                           "asinh",
                           "atan",
                           "atanh",
                           "cos",
                           "cosh",
                           "digamma",
                           "erf",
                           "erfc",
                           "erfinv",
                           "exp",
                           "exp2",
                           "expm1",
                           "lgamma",
                           "log",
                           "log10",
                           "log1p",
                           "log2",
                           "logit",
                           "reciprocal",
                           "rsqrt",
                           "sigmoid",
                           "sin",
                           "sinc",
                           "sinh",
                           "special_digamma",
                           "special_erf",
                           "special_erfc",
                           "special_erfinv",
                           "special_exp2",
                           "special_expit",
                           "special_expm1",
                           "special_gammaln",
                           "special_log1p",
                           "special_logit",
                           "special_psi",
                           "special_sinc",
                           "sqrt",
                           "tan",
                           "tanh"}) {
      (*all)[op] = FloatFunction;
    }
    for (const char* op :
         {"__and__", "__or__", "__xor__", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "fmod",
          "maximum", "minimum", "mul", "multiply", "pow", "remainder", "rsub", "sub", "subtract"}) {
      (*all)[op] = Binary;
    }
    for (const char* op : {"div", "divide", "true_divide"}) (*all)[op] = Division;
    for (const char* op : {"eq", "ge", "gt", "le", "logical_and", "logical_or", "logical_xor", "lt", "ne"}) {
      (*all)[op] = Comparison;
    }
    for (const char* op : {"isinf", "isnan", "logical_not"}) (*all)[op] = Test;
    return all;
  }();
  return *rules;
}

absl::StatusOr<TensorInfo> ShapeCall::Tensor(const std::string& name) const {
  const std::string value = node.Tensor(name);
  if (value.empty()) return DoesNotFit("its argument ", name, " is no tensor");
  const auto found = tensors.find(value);
  if (found == tensors.end()) return absl::NotFoundError(absl::StrCat("nothing is known of its argument ", name));
  return found->second;
}

absl::StatusOr<TensorInfo> ShapeCall::Input() const { return Tensor(node.Has("self") ? "self" : "input"); }

absl::StatusOr<std::vector<TensorInfo>> ShapeCall::Tensors(const std::string& name) const {
  const auto argument = node.arguments.find(name);
  if (argument == node.arguments.end() || argument->second.tensors.empty()) {
    return DoesNotFit("its argument ", name, " has no tensors");
  }
  std::vector<TensorInfo> infos;
  for (const std::string& value : argument->second.tensors) {
    const auto found = tensors.find(value);
    if (found == tensors.end()) return absl::NotFoundError(absl::StrCat("nothing is known of its argument ", name));
    infos.push_back(found->second);
  }
  return infos;
}

absl::StatusOr<int64_t> ShapeCall::Dim(const std::string& name, int64_t otherwise, size_t dims) const {
  ADJOIN_RETURN_IF_ERROR(CheckFixed(name));
  const int64_t dim = node.Int(name, otherwise), most = std::max<int64_t>(static_cast<int64_t>(dims), 1);
  if (dim < -most || dim >= most) return DoesNotFit("its ", name, " is ", dim, ", of a tensor with ", dims, " dims");
  return dim < 0 ? dim + most : dim;
}

absl::StatusOr<DType> ShapeCall::Type(DType otherwise) const {
  ADJOIN_RETURN_IF_ERROR(CheckFixed("dtype"));
  const std::vector<int64_t> codes = node.Ints("dtype");
  if (codes.empty()) return otherwise;
  const std::optional<DType> dtype = DTypeOfScalarType(codes[0]);
  if (!dtype.has_value()) return absl::NotFoundError(absl::StrCat("the type ", codes[0], " is not supported"));
  return *dtype;
}

absl::Status ShapeCall::CheckFixed(const std::string& name) const {
  const auto found = node.arguments.find(name);
  if (found == node.arguments.end() || found->second.kind != OpArgument::Kind::kOther) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("its argument ", name, " is computed"));
}

Results One(TensorInfo info) { return std::vector<TensorInfo>{std::move(info)}; }

std::string ShownExtents(const Extents& extents) { return absl::StrCat("[", absl::StrJoin(extents, ", "), "]"); }

absl::StatusOr<Extents> BroadcastOf(const Extents& a, const Extents& b) {
  const Extents &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Extents result = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& extent = result[longer.size() - shorter.size() + i];
    if (extent == shorter[i] || shorter[i] == 1) continue;
    if (extent != 1) return DoesNotFit("its extents are ", ShownExtents(a), " and ", ShownExtents(b));
    extent = shorter[i];
  }
  return result;
}

int64_t ElementsOf(const Extents& extents) {
  int64_t elements = 1;
  for (const int64_t extent : extents) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return kMaxElements + 1;
  }
  return elements;
}

DType PromotedTypeOf(const std::vector<TensorInfo>& tensors) {
  std::vector<TypedOperand> operands;
  for (const TensorInfo& info : tensors) operands.push_back(OperandOf(info));
  return PromotedType(operands);
}

Results InferResults(const OpNode& node, const std::map<std::string, TensorInfo>& tensors) {
  const ShapeRule* rule = FindShapeRule(node.op);
  if (rule == nullptr) return absl::NotFoundError("it is not known");
  const ShapeCall call{node, tensors};
  Results results = (*rule)(call);
  if (!results.ok()) return results;
  for (const TensorInfo& result : *results) {
    const bool fits = result.shape.size() <= kMaxTensorDims && ElementsOf(result.shape) <= kMaxElements &&
                      std::all_of(result.shape.begin(), result.shape.end(),
                                  [](int64_t extent) { return extent >= 0 && extent <= kMaxExtent; });
    if (!fits) return DoesNotFit("its result would have the extents ", ShownExtents(result.shape));
  }
  // What works in place keeps its tensor's type and extents.
  if (node.in_place && results->size() == 1) {
    ADJOIN_ASSIGN_OR_RETURN(const TensorInfo changed, call.Input());
    const bool keeps = (*results)[0].shape == changed.shape;
    if (keeps) (*results)[0].dtype = changed.dtype;
  }
  return results;
}

}  // namespace adjoin
