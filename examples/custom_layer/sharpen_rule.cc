#include "examples/custom_layer/sharpen_rule.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "examples/custom_layer/sharpen_roles.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> SharpenRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  if (x.dims() < 3) return InvalidSpec("sharpen reads [batch, channel, ...]; its input is ", ShapeText(x.shape()));
  if (!request.spec.w().empty())
    return AtField("w", InvalidSpec("sharpen's weight is cut as the channels are: leave w out"));
  for (const auto& entry : request.spec.custom().arg()) {
    if (entry.first == "radius") continue;
    return AtField("custom", InvalidSpec("sharpen has no argument \"", entry.first, "\"; it has radius"));
  }
  Layer spec = request.spec;
  std::string& text = (*spec.mutable_custom()->mutable_arg())["radius"];
  if (text.empty()) text = "1";
  int64_t radius = 0;
  if (!absl::SimpleAtoi(text, &radius) || radius < 1 || radius > 1000) {
    return AtField("custom", InvalidSpec("radius of sharpen is \"", text, "\"; it must be from 1 to 1000"));
  }
  // What each output reads. The planner finds which ranks hold it, and repeats the pixels at the border.
  ADJOIN_ASSIGN_OR_RETURN(
      Window window,
      Window::Create({.kernel = 2 * radius + 1, .pad_lo = radius, .pad_hi = radius, .boundary = Boundary::kReplicate}));
  InputNeed need;
  need.readings.emplace(x.dims() - 1, std::move(window));

  ADJOIN_ASSIGN_OR_RETURN(const Layout channels, PerChannel(x, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(spec, channels, channels, x.mesh().ranks()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  const double flops = static_cast<double>(volume) * static_cast<double>(2 * radius + 4);
  return LayerOutcome{.spec = std::move(spec),
                      .input = {std::move(need)},
                      .parameter = {{.role = kRoleAmount, .home = std::move(home), .needed = channels, .initial = 0.5}},
                      .compute = x,
                      .output = std::move(output),
                      .flops = flops};
}

const LayerRules& RulesWithSharpen() {
  static const LayerRules* rules = [] {
    auto* made = new LayerRules;
    // They fail for a kind that is registered twice only.
    AddBuiltinLayerRules(*made).IgnoreError();
    made->Register("sharpen", SharpenRule).IgnoreError();
    return made;
  }();
  return *rules;
}

}  // namespace adjoin
