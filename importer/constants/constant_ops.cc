#include "importer/constants/constant_ops.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/graph/type_promotion.h"

namespace adjoin {
namespace {

constexpr int64_t kMaxDims = 16;

}  // namespace

absl::StatusOr<ConstantView> ConstantCall::Tensor(const std::string& name) const {
  const std::string value = node.Tensor(name);
  if (value.empty()) return NotComputed("its argument ", name, " is no tensor");
  const ConstantView* view = workspace.Find(value);
  if (view == nullptr) return NotComputed("its argument ", PrintableText(value), " is not known");
  return *view;
}

absl::StatusOr<std::vector<ConstantView>> ConstantCall::Tensors(const std::string& name) const {
  const auto found = node.arguments.find(name);
  if (found == node.arguments.end() || found->second.tensors.empty()) {
    return NotComputed("its argument ", name, " has no tensors");
  }
  std::vector<ConstantView> views;
  for (const std::string& value : found->second.tensors) {
    const ConstantView* view = workspace.Find(value);
    if (view == nullptr) return NotComputed("its argument ", PrintableText(value), " is not known");
    views.push_back(*view);
  }
  return views;
}

bool ConstantCall::IsNumber(const std::string& name) const {
  const auto found = node.arguments.find(name);
  return found != node.arguments.end() && found->second.ints.size() + found->second.floats.size() == 1;
}

absl::StatusOr<ConstantOperand> ConstantCall::Operand(const std::string& name) const {
  if (!node.Tensor(name).empty()) {
    ADJOIN_ASSIGN_OR_RETURN(ConstantView view, Tensor(name));
    return ConstantOperand{std::move(view), false};
  }
  if (!IsNumber(name)) return NotComputed("its argument ", name, " is neither a tensor nor a number");
  const OpArgument& argument = node.arguments.at(name);
  absl::StatusOr<ConstantView> view =
      argument.floats.empty()
          ? workspace.OfWholes(argument.kind == OpArgument::Kind::kBool ? DType::kBool : DType::kInt64, {},
                               argument.ints)
          : workspace.OfReals(DType::kFloat64, {}, argument.floats);
  ADJOIN_RETURN_IF_ERROR(view.status());
  return ConstantOperand{*std::move(view), true};
}

absl::StatusOr<DType> ConstantCall::Type(size_t output) const {
  const auto found = output < node.outputs.size() ? graph.tensors.find(node.outputs[output]) : graph.tensors.end();
  if (found == graph.tensors.end()) return NotComputed("the type of its result is not supported");
  return found->second.dtype;
}

absl::StatusOr<std::vector<int64_t>> ConstantCall::Shape(size_t output) const {
  const auto found = output < node.outputs.size() ? graph.tensors.find(node.outputs[output]) : graph.tensors.end();
  if (found == graph.tensors.end()) return NotComputed("the type of its result is not supported");
  const std::vector<int64_t>& shape = found->second.shape;
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    return NotComputed("its result has an extent that is not fixed; right would be an export in which no extent is");
  }
  return shape;
}

absl::StatusOr<int64_t> ConstantCall::Dim(const std::string& name, int64_t otherwise, int64_t dims) const {
  const int64_t dim = node.Int(name, otherwise), most = std::max<int64_t>(dims, 1);
  if (dims > kMaxDims || dim < -most || dim >= most) return NotComputed("its ", name, " is not one of its input");
  return dim < 0 ? dim + most : dim;
}

ConstantResults OneResult(absl::StatusOr<ConstantView> view) {
  ADJOIN_RETURN_IF_ERROR(view.status());
  return std::vector<ConstantView>{*std::move(view)};
}

const ConstantOp* FindConstantOp(const std::string& op) {
  for (const ConstantOps* ops : {&CreatingConstantOps(), &PointwiseConstantOps(), &ShapeConstantOps(),
                                 &IndexConstantOps(), &ReducingConstantOps()}) {
    const auto found = ops->find(op);
    if (found != ops->end()) return &found->second;
  }
  return nullptr;
}

bool IsRandomOp(const std::string& op) {
  static const auto* random = new std::set<std::string>{
      "bernoulli",     "cauchy",   "exponential", "geometric", "log_normal",   "multinomial",   "normal",
      "poisson",       "rand",     "rand_like",   "randint",   "randint_like", "randn",         "randn_like",
      "random",        "randperm", "uniform",     "rrelu",     "dropout",      "alpha_dropout", "feature_dropout",
      "native_dropout"};
  return random->count(op) > 0;
}

DType PromotedType(const std::vector<ConstantOperand>& operands) {
  std::vector<TypedOperand> typed;
  for (const ConstantOperand& operand : operands) {
    // A number without a type of its own is of PyTorch's default one.
    const DType own = operand.number && operand.view.real() ? DType::kFloat32 : operand.view.dtype;
    typed.push_back({own, operand.number               ? TypedOperand::kNumber
                          : operand.view.shape.empty() ? TypedOperand::kTensorWithoutDims
                                                       : TypedOperand::kTensor});
  }
  return PromotedType(typed);
}

}  // namespace adjoin
