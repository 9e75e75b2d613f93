#include "examples/custom_layer/sharpen_rule.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

// One number per channel of `x`, on the ranks that hold the channel.
absl::StatusOr<Layout> PerChannel(const Layout& x, DType dtype) {
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement == Placement::Split(1)) {
      placement = Placement::Split(0);
      cuts[0] = PartSizes(x, 1);
    } else {
      placement = Placement::Broadcast();
    }
  }
  return Layout::Create({x.shape()[1]}, dtype, x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> SharpenRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  const Layout& x = request.input[0];
  if (x.dims() < 3) return InvalidSpec("sharpen reads [batch, channel, ...]; its input is ", ShapeText(x.shape()));
  if (!request.spec.w().empty()) return AtField("w", InvalidSpec("sharpen's weight lies as the channels do: leave w out"));
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
  // What each rank's outputs read; fetching it, and what lies beyond the border, is not this layer's business.
  Window::Options reads;
  reads.kernel = 2 * radius + 1;
  reads.pad_lo = reads.pad_hi = radius;
  reads.boundary = Boundary::kReplicate;
  ADJOIN_ASSIGN_OR_RETURN(Window window, Window::Create(reads));
  InputNeed need;
  need.readings.emplace(x.dims() - 1, std::move(window));

  ADJOIN_ASSIGN_OR_RETURN(const Layout channels, PerChannel(x, request.parameter_dtype));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(spec, channels, channels, x.mesh().ranks()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  const double flops = static_cast<double>(volume) * static_cast<double>(2 * radius + 4);
  return LayerOutcome{std::move(spec), {std::move(need)}, {{"amount", std::move(home), channels, 0, /*initial=*/0.5}},
                      /*compute=*/x,   std::move(output), flops};
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
