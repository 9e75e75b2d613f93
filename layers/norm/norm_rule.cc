// Normalisation over groups, instances (each channel of each sample), the last dims ("layer", "rms"), and of the kind
// "batch", which batch_norm_rule.h plans; all in any layout.
//
// Each rank adds up its own elements of each set that is normalised together. Where a cut goes through a set, one sum
// over the ranks gives the mean (kRoleMean) and one the squares of the deviations from it (kRoleDeviations), so that
// nothing is lost where the mean is large; "rms", whose deviations are from zero, needs the latter only. Elsewhere
// nothing moves. Weight and bias are cut as x's channels, or as its normalised dims.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/norm/batch_norm_rule.h"
#include "layers/norm/norm_roles.h"
#include "layers/norm/norm_sums.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

absl::Status CheckFields(const Norm& norm) {
  const std::string& kind = norm.kind();
  const bool last_dims = kind == "layer" || kind == "rms";
  if (!last_dims && !NormalisesGroups(norm) && kind != "batch") {
    return AtField("kind", InvalidSpec("norm.kind \"", kind,
                                       "\" is not known; write one of batch, group, instance, layer,"
                                       " rms"));
  }
  if (norm.groups() != 0 && kind != "group") {
    return AtField("groups", InvalidSpec("norm.groups is for kind \"group\"; leave it out"));
  }
  if (norm.dim_size() > 0 && !last_dims) {
    return AtField("dim[0]", InvalidSpec("norm.dim is for kinds \"layer\" and \"rms\"; leave it out"));
  }
  if (norm.has_eps() && !(std::isfinite(norm.eps()) && norm.eps() >= 0)) {
    return AtField("eps", InvalidSpec("norm.eps is ", norm.eps(), "; it must be a finite number, at least 0"));
  }
  if (norm.has_momentum() && kind != "batch") {
    return AtField("momentum",
                   InvalidSpec("norm.momentum is for the running statistics of kind \"batch\"; leave it out"));
  }
  if (norm.has_momentum() && !(norm.momentum() >= 0 && norm.momentum() <= 1)) {
    return AtField("momentum", InvalidSpec("norm.momentum is ", norm.momentum(), "; it must be from 0 to 1"));
  }
  return absl::OkStatus();
}

// The distance of 1 and the next number.
double Step(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16: return std::ldexp(1.0, -7);
    case DType::kFloat32: return std::numeric_limits<float>::epsilon();
    default: return std::numeric_limits<double>::epsilon();
  }
}

void FillDefaults(DType dtype, Norm& norm) {
  if (!norm.has_eps()) norm.set_eps(norm.kind() == "rms" ? Step(dtype) : 1e-5);
  if (!norm.has_affine()) norm.set_affine(norm.kind() != "instance");
}

absl::Status CheckChannels(const Norm& norm, const Layout& x) {
  const bool instance = norm.kind() == "instance";
  if (x.dims() < (instance ? 3 : 2)) {
    return AtField("input", InvalidSpec(norm.kind(), " normalisation reads [batch, channels, ",
                                        instance ? "one more dim or more]" : "any more dims]", "; its input is ",
                                        ShapeText(x.shape())));
  }
  const int64_t channels = x.shape()[kChannelDim];
  if (channels < 1) return AtField("input", InvalidSpec("its input has no channels"));
  if (norm.kind() == "group") {
    if (norm.groups() < 1) return AtField("norm.groups", InvalidSpec("norm.groups is missing; it must be at least 1"));
    if (channels % norm.groups() != 0) {
      return AtField("norm.groups", InvalidSpec("norm.groups is ", norm.groups(),
                                                ", which does not divide the input's ", channels, " channels"));
    }
  }
  std::vector<int64_t> rest = x.shape();
  rest[0] = rest[kChannelDim] = 1;
  ADJOIN_ASSIGN_OR_RETURN(const int64_t elements, CheckedVolume(rest));
  if (elements == 0 || (instance && elements == 1)) {
    return AtField("input",
                   InvalidSpec(norm.kind(), " normalisation needs ", instance ? "more than one element" : "elements",
                               " per channel of a sample; its input, ", ShapeText(x.shape()), ", has ", elements));
  }
  return absl::OkStatus();
}

// Makes norm.dim the normalised dims, counted from 0, ascending.
absl::Status FillDims(const Layout& x, Norm& norm) {
  const int dims = x.dims();
  if (dims < 2) {
    return AtField("input",
                   InvalidSpec(norm.kind(), " normalisation reads [batch, one more dim or more]; its input is ",
                               ShapeText(x.shape())));
  }
  std::set<int> normalised;
  for (int i = 0; i < norm.dim_size(); ++i) {
    const std::string field = absl::StrCat("norm.dim[", i, "]");
    ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(field, norm.dim(i), dims));
    if (dim == 0) return AtField(field, InvalidSpec("dim 0 is the batch: samples are not normalised together"));
    if (!normalised.insert(dim).second) return AtField(field, InvalidSpec("dim ", norm.dim(i), " is named twice"));
  }
  if (normalised.empty()) normalised.insert(dims - 1);
  if (dims - *normalised.begin() != static_cast<int>(normalised.size())) {
    return AtField("norm.dim[0]",
                   InvalidSpec(norm.kind(), " normalisation is over the last dims: norm.dim must name all ",
                               "from dim ", *normalised.begin(), " to ", dims - 1));
  }
  for (int dim : normalised) {
    if (x.shape()[dim] == 0)
      return AtField("input", InvalidSpec("its input, ", ShapeText(x.shape()), ", has no elements"));
  }
  norm.clear_dim();
  for (int dim : normalised) norm.add_dim(dim);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ParameterNeed>> ParametersOf(const LayerRequest& request, const Layer& spec) {
  std::vector<ParameterNeed> parameters;
  const Norm& norm = spec.norm();
  if (!norm.affine()) return parameters;
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const Layout needed, NormalisesGroups(norm)
                                                   ? PerChannel(x, request.parameter_dtype)
                                                   : DimsFrom(norm.dim(0), x, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(const Layout home, HomeOf(spec, needed, needed, x.mesh().ranks()));
  parameters.push_back({.role = kRoleWeight, .home = home, .needed = needed, .initial = 1.0});
  if (norm.kind() != "rms") parameters.push_back({.role = kRoleBias, .home = home, .needed = needed, .initial = 0.0});
  return parameters;
}

absl::StatusOr<std::vector<MovementNeed>> MovementsOf(const Layout& x, const Norm& norm) {
  std::vector<MovementNeed> movements;
  ADJOIN_ASSIGN_OR_RETURN(const Layout own, NormSums(x, norm, Placement::Partial()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole, NormSums(x, norm, Placement::Broadcast()));
  if (norm.kind() != "rms") movements.push_back({.role = kRoleMean, .from = own, .to = whole});
  movements.push_back({.role = kRoleDeviations, .from = own, .to = whole});
  return movements;
}

// Per element: add up, subtract, square, add up; subtract, scale; groups' shift comes with the scale. "rms": square,
// add up, scale.
double FlopsPerElement(const Norm& norm) {
  if (norm.kind() == "rms") return norm.affine() ? 4 : 3;
  return norm.kind() == "layer" && norm.affine() ? 8 : 6;
}

}  // namespace

absl::StatusOr<LayerOutcome> NormRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(AtField("norm", CheckFields(request.spec.norm())));
  if (request.spec.norm().kind() == "batch") return BatchNormRule(request);
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  Layer spec = request.spec;
  Norm& norm = *spec.mutable_norm();
  FillDefaults(x.dtype(), norm);
  if (!norm.affine()) ADJOIN_RETURN_IF_ERROR(CheckNoParameters(spec));
  if (!spec.w().empty()) {
    return AtField("w", InvalidSpec("w is for a weight that is cut otherwise than the input; a normalisation's is cut"
                                    " as the dims that it belongs to: leave it out"));
  }
  ADJOIN_RETURN_IF_ERROR(NormalisesGroups(norm) ? CheckChannels(norm, x) : FillDims(x, norm));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ParameterNeed> parameters, ParametersOf(request, spec));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<MovementNeed> movements, MovementsOf(x, norm));
  const double flops = static_cast<double>(volume) * FlopsPerElement(norm);
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{}},
                      .parameter = std::move(parameters),
                      .compute = x,
                      .output = std::move(output),
                      .flops = flops,
                      .movement = std::move(movements)};
}

}  // namespace adjoin
