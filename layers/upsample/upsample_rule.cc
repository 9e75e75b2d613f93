#include "layers/upsample/upsample_rule.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

struct NamedMode {
  const char* name;
  Interpolation::Mode mode;
  size_t spatial;  // 0: any
};
constexpr NamedMode kModes[] = {{"nearest", Interpolation::Mode::kNearest, 0},
                                {"linear", Interpolation::Mode::kLinear, 1},
                                {"bilinear", Interpolation::Mode::kLinear, 2},
                                {"trilinear", Interpolation::Mode::kLinear, 3},
                                {"bicubic", Interpolation::Mode::kCubic, 2}};

absl::StatusOr<Interpolation::Mode> ModeOf(const Upsample& spec, size_t spatial) {
  for (const NamedMode& known : kModes) {
    if (spec.mode() != known.name) continue;
    if (known.spatial != 0 && known.spatial != spatial) {
      return AtField(
          "mode", InvalidSpec("upsample.mode \"", spec.mode(), "\" is for ", known.spatial,
                              known.spatial == 1 ? " spatial dim" : " spatial dims", ", but its input has ", spatial));
    }
    if (known.mode == Interpolation::Mode::kNearest && spec.align_corners()) {
      return AtField("align_corners",
                     InvalidSpec("upsample.align_corners says nothing for mode \"nearest\"; leave it out"));
    }
    return known.mode;
  }
  return AtField("mode",
                 InvalidSpec(spec.mode().empty() ? "upsample.mode is missing"
                                                 : absl::StrCat("upsample.mode \"", spec.mode(), "\" is not known"),
                             "; write \"nearest\", \"linear\", \"bilinear\", \"trilinear\" or \"bicubic\""));
}

absl::Status CheckCount(const char* name, int count, size_t spatial) {
  if (count == 1 || count == static_cast<int>(spatial)) return absl::OkStatus();
  return AtField(name, InvalidSpec("upsample.", name, " has ", count, " values; write one, or one for each of the ",
                                   spatial, " spatial dims"));
}

// The value of spatial dim `i` in a list of one value, or one for each dim.
template <typename List>
auto ValueOf(const List& list, size_t i) {
  return list.Get(list.size() == 1 ? 0 : static_cast<int>(i));
}

absl::StatusOr<Interpolation> OneDim(const Upsample& spec, Interpolation::Options options, size_t i) {
  if (!spec.scale().empty()) {
    options.scale = ValueOf(spec.scale(), i);
    auto outputs = Interpolation::OutputSize(options.inputs, options.scale);
    if (!outputs.ok()) return AtField("scale", InvalidSpec("upsample.scale: ", outputs.status().message()));
    options.outputs = *outputs;
  } else {
    options.outputs = ValueOf(spec.size(), i);
    if (options.outputs < 1) {
      return AtField("size", InvalidSpec("upsample.size is ", options.outputs, "; it must be at least 1"));
    }
  }
  return Interpolation::Create(options);
}

}  // namespace

absl::StatusOr<std::map<int, Interpolation>> InterpolationsOf(const Upsample& spec, const std::vector<int64_t>& input,
                                                              DType dtype) {
  if (input.size() < 3 || input.size() > 5) {
    return InvalidSpec("it reads [batch, channel, 1 to 3 spatial dims]; its input, ", ShapeText(input), ", has ",
                       input.size(), " dims");
  }
  const size_t spatial = input.size() - 2;
  Interpolation::Options options;
  ADJOIN_ASSIGN_OR_RETURN(options.mode, ModeOf(spec, spatial));
  options.align_corners = spec.align_corners();
  options.dtype = dtype;
  options.channels_last = spatial > 1 && input[1] == 1;
  if (spec.size().empty() == spec.scale().empty()) {
    return InvalidSpec("upsample needs either size or scale", spec.size().empty() ? "" : ", not both",
                       "; write scale: 2, say");
  }
  ADJOIN_RETURN_IF_ERROR(spec.size().empty() ? CheckCount("scale", spec.scale_size(), spatial)
                                             : CheckCount("size", spec.size_size(), spatial));
  std::map<int, Interpolation> interpolations;
  for (size_t i = 0; i < spatial; ++i) {
    options.inputs = input[i + 2];
    if (options.inputs < 1) return InvalidSpec("its input, ", ShapeText(input), ", has no elements to interpolate");
    ADJOIN_ASSIGN_OR_RETURN(const Interpolation made, OneDim(spec, options, i));
    interpolations.emplace(static_cast<int>(i) + 2, made);
  }
  return interpolations;
}

absl::StatusOr<LayerOutcome> UpsampleRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  auto dims = InterpolationsOf(request.spec.upsample(), x.shape(), x.dtype());
  if (!dims.ok()) return AtField("upsample", dims.status());

  Layer spec = request.spec;
  Upsample& filled = *spec.mutable_upsample();
  const bool by_scale = !filled.scale().empty();
  filled.clear_size();
  filled.clear_scale();
  std::vector<int64_t> shape = {x.shape()[0], x.shape()[1]};
  for (const auto& [dim, interpolation] : *dims) {
    shape.push_back(interpolation.options().outputs);
    by_scale ? filled.add_scale(interpolation.options().scale) : filled.add_size(interpolation.options().outputs);
  }
  // Rows of the input become rows of the output one dim after the other; each needs a product and a sum for each tap.
  double flops = 0;
  std::vector<int64_t> between = x.shape();
  for (const auto& [dim, interpolation] : *dims) {
    between[dim] = shape[dim];
    auto volume = CheckedVolume(between);
    if (!volume.ok()) return AtField("upsample", volume.status());
    if (interpolation.taps() > 1) flops += 2.0 * interpolation.taps() * static_cast<double>(*volume);
  }
  InputNeed need;
  need.readings.insert(dims->begin(), dims->end());
  std::set<int> spatial;
  for (const auto& entry : *dims) spatial.insert(entry.first);
  ADJOIN_ASSIGN_OR_RETURN(Layout even, LayoutLike(x, shape, spatial));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, even));
  Layout compute = SameButFor(spatial, even, output) ? output : std::move(even);
  return LayerOutcome{.spec = std::move(spec),
                      .input = {std::move(need)},
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = flops};
}

}  // namespace adjoin
