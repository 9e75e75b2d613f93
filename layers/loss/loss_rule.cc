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
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

// The dim of a prediction that holds classes or channels.
constexpr int kClassDim = 1;

enum class Target { kClasses, kNumbers, kEither };

struct LossKind {
  Target target;
  std::set<std::string> options;     // fields of Loss that not every kind has
  std::set<std::string> reductions;  // beside "mean"
};

const std::map<std::string, LossKind>& Kinds() {
  static const auto* kinds = new std::map<std::string, LossKind>{
      {"cross_entropy", {Target::kClasses, {"class_weight", "ignore_index", "label_smoothing"}, {"sum"}}},
      {"nll", {Target::kClasses, {"class_weight", "ignore_index"}, {"sum"}}},
      {"mse", {Target::kNumbers, {}, {"sum"}}},
      {"l1", {Target::kNumbers, {}, {"sum"}}},
      {"huber", {Target::kNumbers, {"delta"}, {"sum"}}},
      {"smooth_l1", {Target::kNumbers, {"delta"}, {"sum"}}},
      {"bce", {Target::kNumbers, {}, {"sum"}}},
      {"bce_with_logits", {Target::kNumbers, {"pos_weight"}, {"sum"}}},
      {"poisson_nll", {Target::kNumbers, {"log_input", "full", "eps"}, {"sum"}}},
      {"kl_div", {Target::kNumbers, {"log_target"}, {"sum", "batchmean"}}},
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
  if (kind.options.count("eps") > 0 && spec.eps() == 0) spec.set_eps(1e-8);
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
  if (request.target_shape != right) {
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
  const bool by_class = Kinds().at(spec.kind()).target != Target::kNumbers || spec.pos_weight_size() > 1;
  if (!IsFloatingPoint(request.prediction.dtype())) {
    return InvalidSpec(spec.kind(), " needs a prediction of floating-point numbers; \"", spec.input(), "\" is of ",
                       ToString(request.prediction.dtype()));
  }
  if (by_class && (shape.size() < 2 || shape[kClassDim] == 0)) {
    return InvalidSpec(spec.kind(), " needs a prediction [batch, classes, ...]; \"", spec.input(), "\" is ",
                       ShapeText(shape));
  }
  if (!request.target_shape.empty() && !shape.empty() && shape[0] != request.target_shape[0]) {
    return InvalidSpec("the prediction has ", shape[0], " rows, but the batch ", request.target_shape[0],
                       " samples; dim 0 must stay the batch");
  }
  return absl::OkStatus();
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

// One number in place of the classes, on every rank that holds some of them.
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

// One number on every rank of `at`, in one placement along every axis.
absl::StatusOr<Layout> Number(const Layout& at, Placement placement) {
  return Layout::Create({1}, DType::kFloat64, at.mesh(), std::vector<Placement>(at.mesh().axes(), placement));
}

absl::StatusOr<std::vector<LossMovement>> MovementsOf(const Loss& spec, const Layout& at) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout partial, Number(at, Placement::Partial()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout same, Number(at, Placement::Broadcast()));
  std::vector<LossMovement> movements;
  if (spec.kind() != "dice") {
    const bool some = spec.class_weight_size() > 0 || spec.has_ignore_index();
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

bool IsClassification(const Loss& spec) {
  const auto kind = Kinds().find(spec.kind());
  return kind != Kinds().end() && kind->second.target == Target::kClasses;
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
  return CheckNumbers(spec);
}

absl::StatusOr<LossOutcome> ApplyLossRule(const LossRequest& request) {
  ADJOIN_RETURN_IF_ERROR(AtField("input", CheckPrediction(request)));
  const absl::StatusOr<bool> classes = CheckTarget(request);
  if (!classes.ok()) return AtField("target", classes.status());
  ADJOIN_RETURN_IF_ERROR(CheckLists(request.spec, request.prediction.shape()));
  Loss spec = WithDefaults(request.spec);
  ADJOIN_ASSIGN_OR_RETURN(Layout at, FirstCopy(request.prediction));
  if (IsClassification(spec)) {
    ADJOIN_ASSIGN_OR_RETURN(at, WholeDim(at, kClassDim));
  }
  Layout target = at.WithDType(request.target_dtype);
  if (*classes) {
    ADJOIN_ASSIGN_OR_RETURN(target, BesideClasses(at, request.target_dtype));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<LossMovement> movements, MovementsOf(spec, at));
  return LossOutcome{std::move(spec), std::move(at), std::move(target), std::move(movements)};
}

}  // namespace adjoin
