#include "layers/plan/conv_rule.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"
#include "layers/plan/windowed.h"

namespace adjoin {
namespace {

absl::Status CheckGroups(int64_t in_channels, int64_t out_channels, int64_t groups) {
  if (out_channels < 1)
    return AtField("out_channels", InvalidSpec("conv.out_channels is missing; it must be at least 1"));
  if (groups < 1) return AtField("groups", InvalidSpec("conv.groups is 0; it must be at least 1"));
  if (in_channels < 1) return InvalidSpec("its input has no channels");
  if (in_channels % groups != 0 || out_channels % groups != 0) {
    return AtField("groups", InvalidSpec("conv.groups ", groups, " must divide the input's channels, ", in_channels,
                                         ", and the output's, ", out_channels));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerOutcome> ConvRule::Apply(const LayerRequest& request) const {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  Layer spec = request.spec;
  Conv& conv = *spec.mutable_conv();
  if (conv.transposed()) {
    return AtField("conv.transposed", NotSupportedYet("a transposed convolution"));
  }
  if (!spec.w().empty()) {
    return AtField("w", NotSupportedYet("w of a convolution", "leave it out: every rank uses the whole weight"));
  }
  auto dims = WindowsOf(conv.window(), x.shape(), /*pooling=*/false, /*ceil_mode=*/false);
  if (!dims.ok()) return AtField("conv.window", dims.status());
  const int64_t in_channels = x.shape()[1], out_channels = conv.out_channels();
  const int64_t groups = conv.has_groups() ? conv.groups() : 1;
  ADJOIN_RETURN_IF_ERROR(AtField("conv", CheckGroups(in_channels, out_channels, groups)));
  conv.set_groups(static_cast<uint32_t>(groups));
  conv.set_bias(conv.has_bias() ? conv.bias() : true);
  *conv.mutable_window() = dims->filled;

  std::vector<int64_t> shape = {x.shape()[0], out_channels};
  shape.insert(shape.end(), dims->outputs.begin(), dims->outputs.end());
  std::vector<int64_t> weight = {out_channels, in_channels / groups};
  for (uint32_t kernel : dims->filled.kernel()) weight.push_back(kernel);
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  auto weight_volume = CheckedVolume(weight);
  if (!weight_volume.ok()) return AtField("conv", weight_volume.status());
  ADJOIN_ASSIGN_OR_RETURN(WindowedLayouts layouts, LayoutsOf(request, dims->windows, shape));

  const int64_t fan_in = *weight_volume / out_channels;
  std::vector<ParameterNeed> parameters;
  const auto add = [&](const std::string& role, std::vector<int64_t> of) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(Layout needed,
                            Layout::Replicated(std::move(of), request.parameter_dtype, x.mesh().ranks()));
    ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(spec, needed, needed, x.mesh().ranks()));
    parameters.push_back({role, std::move(home), std::move(needed), fan_in});
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(add("weight", weight));
  if (conv.bias()) ADJOIN_RETURN_IF_ERROR(add("bias", {out_channels}));
  const double flops = 2.0 * static_cast<double>(volume) * static_cast<double>(fan_in);
  return LayerOutcome{std::move(spec),           {InputNeed{std::nullopt, dims->windows, 0}},
                      std::move(parameters),     std::move(layouts.compute),
                      std::move(layouts.output), flops};
}

}  // namespace adjoin
