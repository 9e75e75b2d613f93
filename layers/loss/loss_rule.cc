#include "layers/loss/loss_rule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "layers/loss/loss_roles.h"
#include "layers/rules/counted_layout.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

// The dim of a prediction that holds classes or channels.
constexpr int kClassDim = 1;

enum class Target { kClasses, kNumbers, kEither };

struct LossKind {
  Target target;                     // kEither: numbers are one for each class
  std::set<std::string> options;     // fields of Loss that not every kind has
  std::set<std::string> reductions;  // beside "mean"
};

const std::map<std::string, LossKind>& Kinds() {
  static const auto* kinds = new std::map<std::string, LossKind>{
      {"cross_entropy", {Target::kEither, {"class_weight", "ignore_index", "label_smoothing"}, {"sum"}}},
      {"nll", {Target::kClasses, {"class_weight", "ignore_index"}, {"sum"}}},
      {"mse", {Target::kNumbers, {}, {"sum"}}},
      {"l1", {Target::kNumbers, {}, {"sum"}}},
      {"huber", {Target::kNumbers, {"delta"}, {"sum"}}},
      {"smooth_l1", {Target::kNumbers, {"delta"}, {"sum"}}},
      {"bce", {Target::kNumbers, {}, {"sum"}}},
      {"bce_with_logits", {Target::kNumbers, {"pos_weight"}, {"sum"}}},
      {"poisson_nll", {Target::kNumbers, {"log_input", "full", "eps"}, {"sum"}}},
      {"gaussian_nll", {Target::kNumbers, {"variance", "full", "eps"}, {"sum"}}},
      {"kl_div", {Target::kNumbers, {"log_target"}, {"sum", "batchmean"}}},
      {"cosine", {Target::kNumbers, {}, {"sum"}}},
      {"dice", {Target::kEither, {"smooth"}, {}}},
  };
  return *kinds;
}

// The names of the kinds that `fits`.
template <typename Fits>
std::string KindNames(Fits fits) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : Kinds()) {
    if (fits(kind)) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

absl::Status CheckOptions(const Loss& spec, const LossKind& kind) {
  static const auto* common = new std::set<std::string>{"kind", "input", "target", "weight", "reduction"};
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  spec.GetReflection()->ListFields(spec, &fields);
  for (const auto* field : fields) {
    const std::string& name = field->name();
    if (common->count(name) > 0 || kind.options.count(name) > 0) continue;
    return AtField(
        absl::StrCat(name, field->is_repeated() ? "[0]" : ""),
        InvalidSpec(name, " is for ", KindNames([&](const LossKind& k) { return k.options.count(name) > 0; }),
                    "; a loss of kind \"", spec.kind(), "\" has none: leave it out"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(absl::string_view field, double value, bool in_range, absl::string_view range) {
  if (std::isfinite(value) && in_range) return absl::OkStatus();
  return AtField(field, InvalidSpec(field, " is ", value, "; it must be ", range));
}

absl::Status CheckNumbers(const Loss& spec) {
  ADJOIN_RETURN_IF_ERROR(CheckNumber("weight", spec.weight(), true, "a finite number"));
  for (int i = 0; i < spec.class_weight_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(CheckNumber(absl::StrCat("class_weight[", i, "]"), spec.class_weight(i),
                                       spec.class_weight(i) >= 0, "a finite number, at least 0"));
  }
  for (int i = 0; i < spec.pos_weight_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(CheckNumber(absl::StrCat("pos_weight[", i, "]"), spec.pos_weight(i), spec.pos_weight(i) >= 0,
                                       "a finite number, at least 0"));
  }
  const double smoothing = spec.label_smoothing();
  ADJOIN_RETURN_IF_ERROR(CheckNumber("label_smoothing", smoothing, smoothing >= 0 && smoothing < 1, "in [0, 1)"));
  ADJOIN_RETURN_IF_ERROR(CheckNumber("delta", spec.delta(), spec.delta() >= 0, "a finite number above 0"));
  ADJOIN_RETURN_IF_ERROR(CheckNumber("eps", spec.eps(), spec.eps() >= 0, "a finite number above 0"));
  return CheckNumber("smooth", spec.smooth(), spec.smooth() >= 0, "a finite number, at least 0");
}

Loss WithDefaults(Loss spec) {
  const LossKind& kind = Kinds().at(spec.kind());
  if (spec.reduction().empty()) spec.set_reduction("mean");
  if (!spec.has_weight()) spec.set_weight(1);
  if (kind.options.count("delta") > 0 && spec.delta() == 0) spec.set_delta(1);
  if (kind.options.count("eps") > 0 && spec.eps() == 0) spec.set_eps(spec.kind() == "gaussian_nll" ? 1e-6 : 1e-8);
  if (kind.options.count("log_input") > 0 && !spec.has_log_input()) spec.set_log_input(true);
  if (kind.options.count("smooth") > 0 && !spec.has_smooth()) spec.set_smooth(1);
  return spec;
}

std::vector<int64_t> WithoutClasses(const std::vector<int64_t>& shape) {
  std::vector<int64_t> rest = shape;
  rest.erase(rest.begin() + kClassDim);
  return rest;
}

std::string SampleText(const std::vector<int64_t>& shape) {
  if (shape.size() < 2) return "no shape";
  return absl::StrCat("shape: [", absl::StrJoin(shape.begin() + 1, shape.end(), ", "), "]");
}

// Whether the target has one number for each sample, [batch], of a prediction [batch, 1]. LibTorch would compare every
// sample with every other one's target.
bool HasOnePerSample(const LossRequest& request) {
  const std::vector<int64_t>& shape = request.prediction.shape();
  return IsFloatingPoint(request.target_dtype) && Kinds().at(request.spec.kind()).target == Target::kNumbers &&
         shape.size() == 2 && shape[1] == 1 && request.target_shape == WithoutClasses(shape);
}

// Whether the target holds the numbers of classes.
absl::StatusOr<bool> CheckTarget(const LossRequest& request) {
  const Loss& spec = request.spec;
  const std::vector<int64_t>& shape = request.prediction.shape();
  const Target expected = Kinds().at(spec.kind()).target;
  const bool classes = request.target_dtype == DType::kInt64 && expected != Target::kNumbers;
  if (!classes && expected == Target::kClasses) {
    return InvalidSpec("field \"", spec.target(), "\" holds ", ToString(request.target_dtype), ", but ", spec.kind(),
                       " needs the classes' numbers; write dtype: \"int64\" in the field");
  }
  if (!classes && request.target_dtype != LossType(request.prediction.dtype())) {
    return InvalidSpec("field \"", spec.target(), "\" holds ", ToString(request.target_dtype), ", but ", spec.kind(),
                       " compares it with a prediction of ", ToString(request.prediction.dtype()),
                       "; leave dtype out of the field");
  }
  const std::vector<int64_t> right = classes ? WithoutClasses(shape) : shape;
  if (!classes && expected == Target::kEither && request.target_shape != shape) {
    return InvalidSpec("a batch of field \"", spec.target(), "\" is ", ShapeText(request.target_shape), " ",
                       ToString(request.target_dtype), ", but ", spec.kind(), " of the prediction \"", spec.input(),
                       "\", ", ShapeText(shape), ", compares it with the numbers of classes; write dtype: \"int64\" in",
                       " the field. Or with a number for each class; then the field needs ", SampleText(shape));
  }
  if (request.target_shape != right && !HasOnePerSample(request)) {
    return InvalidSpec(
        "a batch of field \"", spec.target(), "\" is ", ShapeText(request.target_shape), ", but ", spec.kind(),
        " of the prediction \"", spec.input(), "\", ", ShapeText(shape), ", compares it with ", ShapeText(right),
        classes ? ", the number of a class in place of dim 1" : "", "; the field needs ", SampleText(right));
  }
  return classes;
}

absl::Status CheckPrediction(const LossRequest& request) {
  const Loss& spec = request.spec;
  const std::vector<int64_t>& shape = request.prediction.shape();
  const bool by_channel = spec.kind() == "cosine" || spec.pos_weight_size() > 1;
  const bool by_class = Kinds().at(spec.kind()).target != Target::kNumbers;
  if (!IsFloatingPoint(request.prediction.dtype())) {
    return InvalidSpec(spec.kind(), " needs a prediction of floating-point numbers; \"", spec.input(), "\" is of ",
                       ToString(request.prediction.dtype()));
  }
  if ((by_class || by_channel) && (shape.size() < 2 || shape[kClassDim] == 0)) {
    return InvalidSpec(spec.kind(), " needs a prediction [batch, ", by_class ? "classes" : "channels", ", ...]; \"",
                       spec.input(), "\" is ", ShapeText(shape));
  }
  if (!request.target_shape.empty() && !shape.empty() && shape[0] != request.target_shape[0]) {
    return InvalidSpec("the prediction has ", shape[0], " rows, but the batch ", request.target_shape[0],
                       " samples; dim 0 must stay the batch");
  }
  return absl::OkStatus();
}

absl::Status CheckVariance(const LossRequest& request) {
  if (request.variance == nullptr) return absl::OkStatus();
  const Layout& variance = *request.variance;
  const std::vector<int64_t>& shape = request.prediction.shape();
  if (variance.dtype() != request.prediction.dtype()) {
    return InvalidSpec("the variance \"", request.spec.variance(), "\" is of ", ToString(variance.dtype()),
                       ", the prediction \"", request.spec.input(), "\" of ", ToString(request.prediction.dtype()),
                       "; they must be of one type");
  }
  std::vector<int64_t> one_for_all = shape;
  if (!one_for_all.empty()) one_for_all.back() = 1;
  if (variance.shape() == shape || variance.shape() == one_for_all) return absl::OkStatus();
  return InvalidSpec("the variance \"", request.spec.variance(), "\" is ", ShapeText(variance.shape()),
                     ", the prediction \"", request.spec.input(), "\" ", ShapeText(shape),
                     "; the variance must have this shape, or ", ShapeText(one_for_all),
                     ", one number for all of the last dim");
}

absl::Status CheckLists(const Loss& spec, const std::vector<int64_t>& shape) {
  if (spec.class_weight_size() > 0 && spec.class_weight_size() != shape[kClassDim]) {
    return AtField("class_weight[0]",
                   InvalidSpec("class_weight has ", spec.class_weight_size(), " values, but \"", spec.input(),
                               "\" has ", shape[kClassDim], " classes (dim 1); write one for each"));
  }
  if (spec.pos_weight_size() > 1 && spec.pos_weight_size() != shape[kClassDim]) {
    return AtField("pos_weight[0]",
                   InvalidSpec("pos_weight has ", spec.pos_weight_size(), " values, but \"", spec.input(), "\" has ",
                               shape[kClassDim], " channels (dim 1); write one value, or one for each"));
  }
  return absl::OkStatus();
}

// At once, for each element.
bool ReadsAllClasses(const Loss& spec) { return spec.kind() == "cross_entropy" || spec.kind() == "nll"; }

// One number in place of dim 1, on every rank that holds some of it.
absl::StatusOr<Layout> BesideClasses(const Layout& layout, DType dtype) {
  std::vector<Placement> placements = layout.placements();
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    if (placement.dim == kClassDim) {
      placement = Placement::Broadcast();
    } else if (placement.dim > kClassDim) {
      --placement.dim;
    }
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (dim != kClassDim && !layout.AxesOf(dim).empty()) cuts[dim - (dim > kClassDim)] = PartSizes(layout, dim);
  }
  return Layout::Create(WithoutClasses(layout.shape()), dtype, layout.mesh(), std::move(placements), std::move(cuts));
}

// `layout` with another extent of `dim`, which becomes `along` on the axes that cut it.
absl::StatusOr<Layout> WithExtent(const Layout& layout, int dim, int64_t extent, Placement along) {
  std::vector<int64_t> shape = layout.shape();
  shape[dim] = extent;
  return LayoutLike(layout, std::move(shape), /*even=*/{}, /*whole=*/{dim}, along);
}

// Beside the prediction; where it has one number for the last dim, on every rank that holds some of that dim.
absl::StatusOr<Layout> VarianceLayout(const Layout& at, const std::vector<int64_t>& shape) {
  if (at.shape() == shape) return at;
  return WithExtent(at, at.dims() - 1, 1, Placement::Broadcast());
}

// Each rank takes a part of the positions that it shares with others.
absl::StatusOr<LossMovement> CosineSums(const Layout& at) {
  constexpr int64_t kSums = 3;
  ADJOIN_ASSIGN_OR_RETURN(const Layout own, WithExtent(at, kClassDim, kSums, Placement::Partial()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole, WholeDim(at, kClassDim));
  ADJOIN_ASSIGN_OR_RETURN(const Layout divided, WithExtent(whole, kClassDim, kSums, Placement::Broadcast()));
  return LossMovement{kRoleSums, own.WithDType(DType::kFloat64), divided.WithDType(DType::kFloat64), true};
}

// One number on every rank of `at`, in one placement along every axis.
absl::StatusOr<Layout> Number(const Layout& at, Placement placement) {
  return Layout::Create({1}, DType::kFloat64, at.mesh(), std::vector<Placement>(at.mesh().axes(), placement));
}

absl::StatusOr<std::vector<LossMovement>> MovementsOf(const Loss& spec, bool classes, const Layout& at) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout partial, Number(at, Placement::Partial()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout same, Number(at, Placement::Broadcast()));
  std::vector<LossMovement> movements;
  if (spec.kind() == "cosine") {
    ADJOIN_ASSIGN_OR_RETURN(LossMovement sums, CosineSums(at));
    return std::vector<LossMovement>{std::move(sums)};
  }
  if (spec.kind() != "dice") {
    const bool some = classes && (spec.class_weight_size() > 0 || spec.has_ignore_index());
    if (some && spec.reduction() == "mean") {
      movements.push_back({.role = kRoleCount, .from = partial, .to = same, .differentiable = false});
    }
    return movements;
  }
  std::vector<Placement> placements = at.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement == Placement::Split(kClassDim)) {
      cuts[1] = PartSizes(at, kClassDim);
    } else {
      placement = Placement::Partial();
    }
  }
  const std::vector<int64_t> shape = {3, at.shape()[kClassDim]};
  ADJOIN_ASSIGN_OR_RETURN(const Layout own, Layout::Create(shape, DType::kFloat64, at.mesh(), placements, cuts));
  ADJOIN_ASSIGN_OR_RETURN(const Layout all,
                          Layout::Create(shape, DType::kFloat64, at.mesh(),
                                         std::vector<Placement>(placements.size(), Placement::Broadcast())));
  return std::vector<LossMovement>{{.role = kRoleSums, .from = own, .to = all, .differentiable = true},
                                   {.role = kRoleShare, .from = same, .to = partial, .differentiable = true}};
}

}  // namespace

DType LossType(DType prediction) { return prediction == DType::kBFloat16 ? DType::kFloat32 : prediction; }

bool IsClassification(const Loss& spec, absl::string_view target_dtype) {
  return ReadsAllClasses(spec) && target_dtype == "int64";
}

absl::Status CheckLossFields(const Loss& spec) {
  if (spec.kind().empty()) return InvalidSpec("kind is missing; write kind: \"cross_entropy\"");
  const auto kind = Kinds().find(spec.kind());
  if (kind == Kinds().end()) {
    return AtField("kind", InvalidSpec("loss \"", spec.kind(), "\" is not known; these are: ",
                                       KindNames([](const LossKind&) { return true; })));
  }
  std::vector<std::string> reductions = {"\"mean\""};
  for (const std::string& other : kind->second.reductions) reductions.push_back(absl::StrCat("\"", other, "\""));
  if (!spec.reduction().empty() && spec.reduction() != "mean" && kind->second.reductions.count(spec.reduction()) == 0) {
    return AtField("reduction", InvalidSpec("reduction \"", spec.reduction(), "\" is not one of ", spec.kind(),
                                            "'s; write ", absl::StrJoin(reductions, " or ")));
  }
  ADJOIN_RETURN_IF_ERROR(CheckOptions(spec, kind->second));
  if (kind->second.options.count("variance") > 0 && spec.variance().empty()) {
    return InvalidSpec("variance is missing: the layer whose output is the variance of each element of the prediction");
  }
  return CheckNumbers(spec);
}

absl::StatusOr<LossOutcome> ApplyLossRule(const LossRequest& request) {
  ADJOIN_RETURN_IF_ERROR(AtField("input", CheckPrediction(request)));
  const absl::StatusOr<bool> classes = CheckTarget(request);
  if (!classes.ok()) return AtField("target", classes.status());
  if (!*classes && request.spec.has_ignore_index()) {
    return AtField("ignore_index", InvalidSpec("ignore_index is the number of a class, but field \"",
                                               request.spec.target(), "\" holds probabilities; leave it out"));
  }
  ADJOIN_RETURN_IF_ERROR(AtField("variance", CheckVariance(request)));
  ADJOIN_RETURN_IF_ERROR(CheckLists(request.spec, request.prediction.shape()));
  Loss spec = WithDefaults(request.spec);
  ADJOIN_ASSIGN_OR_RETURN(Layout at, FirstCopy(request.prediction));
  const bool one_per_sample = HasOnePerSample(request);
  if (ReadsAllClasses(spec) || one_per_sample) {
    ADJOIN_ASSIGN_OR_RETURN(at, WholeDim(at, kClassDim));
  }
  Layout target = at.WithDType(request.target_dtype);
  if (*classes || one_per_sample) {
    ADJOIN_ASSIGN_OR_RETURN(target, BesideClasses(at, request.target_dtype));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<LossMovement> movements, MovementsOf(spec, *classes, at));
  if (request.variance != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(Layout beside, VarianceLayout(at, request.variance->shape()));
    movements.insert(movements.begin(), {kRoleVariance, *request.variance, std::move(beside), true});
  }
  return LossOutcome{std::move(spec), std::move(at), std::move(target), std::move(movements)};
}

}  // namespace adjoin
