#include "layers/norm/batch_norm_rule.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/norm/norm_roles.h"
#include "layers/norm/norm_sums.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

absl::Status CheckInput(const LayerRequest& request, int64_t volume) {
  const Layout& x = request.input[0];
  if (x.dims() < 2 || x.dims() > 5) {
    return AtField("input", InvalidSpec("batch normalisation reads [batch, channels] and up to 3 more dims; its input"
                                        " is ",
                                        ShapeText(x.shape())));
  }
  const int64_t channels = x.shape()[kChannelDim];
  if (channels < 1) return AtField("input", InvalidSpec("its input has no channels"));
  if (request.training && volume / channels < 2) {
    return AtField("input", InvalidSpec("batch normalisation needs more than one value per channel to train on; its"
                                        " input, ",
                                        ShapeText(x.shape()), ", has ", volume / channels));
  }
  return absl::OkStatus();
}

// Count, mean and squared deviations of every part of the other dims, [parts, 3, channels]: each is with its part
// first, and then with all.
absl::StatusOr<MovementNeed> Gathered(const Layout& x) {
  std::vector<Placement> own = x.placements(), all = x.placements();
  std::vector<int64_t> shape = {1, 3, x.shape()[kChannelDim]};
  Layout::Cuts cuts;
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    if (own[axis] == Placement::Split(kChannelDim)) {
      own[axis] = all[axis] = Placement::Split(2);
      cuts[2] = PartSizes(x, kChannelDim);
    } else if (own[axis].kind == Placement::Kind::kSplit) {
      own[axis] = Placement::Split(0);
      all[axis] = Placement::Broadcast();
      shape[0] *= x.mesh().shape()[axis];
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout from, Layout::Create(shape, DType::kFloat64, x.mesh(), std::move(own), cuts));
  ADJOIN_ASSIGN_OR_RETURN(Layout to, Layout::Create(shape, DType::kFloat64, x.mesh(), std::move(all), cuts));
  return MovementNeed{.role = kRoleStatistics, .from = std::move(from), .to = std::move(to)};
}

// As in PyTorch's state_dict.
absl::StatusOr<std::vector<ParameterNeed>> BatchNormParameters(const LayerRequest& request, const Layer& spec) {
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const Layout channels, PerChannel(x, request.parameter_dtype));
  std::vector<ParameterNeed> parameters;
  if (spec.norm().affine()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, HomeOf(spec, channels, channels, x.mesh().ranks()));
    parameters.push_back({.role = kRoleWeight, .home = home, .needed = channels, .initial = 1.0});
    parameters.push_back({.role = kRoleBias, .home = home, .needed = channels, .initial = 0.0});
  }
  parameters.push_back(
      {.role = kRoleRunningMean, .home = channels, .needed = channels, .initial = 0.0, .buffer = true});
  parameters.push_back({.role = kRoleRunningVar, .home = channels, .needed = channels, .initial = 1.0, .buffer = true});
  ADJOIN_ASSIGN_OR_RETURN(const Layout count, Layout::Replicated({}, DType::kInt64, x.mesh().ranks()));
  parameters.push_back({.role = kRoleBatchesTracked, .home = count, .needed = count, .initial = 0.0, .buffer = true});
  return parameters;
}

}  // namespace

absl::StatusOr<LayerOutcome> BatchNormRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  Layer spec = request.spec;
  Norm& norm = *spec.mutable_norm();
  norm.set_eps(norm.has_eps() ? norm.eps() : 1e-5);
  norm.set_momentum(norm.has_momentum() ? norm.momentum() : 0.1);
  norm.set_affine(norm.has_affine() ? norm.affine() : true);
  if (!norm.affine()) ADJOIN_RETURN_IF_ERROR(CheckNoParameters(spec));
  if (!spec.w().empty()) {
    return AtField("w", InvalidSpec("w is for a weight that is cut otherwise than the input; batch normalisation's"
                                    " is cut as the channels are: leave it out"));
  }
  const Layout& x = request.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  ADJOIN_RETURN_IF_ERROR(CheckInput(request, volume));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ParameterNeed> parameters, BatchNormParameters(request, spec));
  std::vector<MovementNeed> movements;
  if (request.training) {
    ADJOIN_ASSIGN_OR_RETURN(MovementNeed gathered, Gathered(x));
    movements.push_back(std::move(gathered));
  }
  // Subtract, scale, shift; in training also add up, square and add up.
  const double flops = static_cast<double>(volume) * (request.training ? 6 : 3);
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{}},
                      .parameter = std::move(parameters),
                      .compute = x,
                      .output = std::move(output),
                      .flops = flops,
                      .movement = std::move(movements)};
}

}  // namespace adjoin
