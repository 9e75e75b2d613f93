// Local response normalisation of [batch, channels, ...] may be cut in every dim. Each channel's output reads a window
// of channels, so a cut of the channels takes a halo over them; the other cuts move nothing.
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr int kNormalisedDim = 1;

absl::Status FillDefaults(LocalResponseNorm& norm) {
  if (norm.size() < 1)
    return AtField("size", InvalidSpec("local_response_norm.size is missing; it must be at least 1"));
  norm.set_alpha(norm.has_alpha() ? norm.alpha() : 1e-4);
  norm.set_beta(norm.has_beta() ? norm.beta() : 0.75);
  norm.set_k(norm.has_k() ? norm.k() : 1);
  if (std::isfinite(norm.alpha()) && std::isfinite(norm.beta()) && std::isfinite(norm.k())) return absl::OkStatus();
  return InvalidSpec("alpha, beta and k of local_response_norm must be finite, not ", norm.alpha(), ", ", norm.beta(),
                     " and ", norm.k());
}

}  // namespace

absl::StatusOr<LayerOutcome> LocalResponseNormRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 3) {
    return AtField("input", InvalidSpec("local response normalisation reads [batch, channels, ...], 3 dims or more; its"
                                        " input is ",
                                        ShapeText(x.shape())));
  }
  Layer spec = request.spec;
  ADJOIN_RETURN_IF_ERROR(AtField("local_response_norm", FillDefaults(*spec.mutable_local_response_norm())));
  const int64_t size = spec.local_response_norm().size();
  ADJOIN_ASSIGN_OR_RETURN(Window channels,
                          Window::Create({.kernel = size, .pad_lo = size / 2, .pad_hi = (size - 1) / 2}));
  InputNeed need;
  need.readings.emplace(kNormalisedDim, std::move(channels));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  // Square, add up a window; scale, add k, raise to a power, divide.
  const double flops = static_cast<double>(volume) * static_cast<double>(size + 5);
  return LayerOutcome{
      .spec = std::move(spec), .input = {std::move(need)}, .compute = x, .output = std::move(output), .flops = flops};
}

}  // namespace adjoin
