#include "layers/upsample/upsample_rule.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/pool/pool_rule.h"
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
constexpr NamedMode kModes[] = {
    {"nearest", Interpolation::Mode::kNearest, 0},  {"nearest-exact", Interpolation::Mode::kNearestExact, 0},
    {"linear", Interpolation::Mode::kLinear, 1},    {"bilinear", Interpolation::Mode::kLinear, 2},
    {"trilinear", Interpolation::Mode::kLinear, 3}, {"bicubic", Interpolation::Mode::kCubic, 2}};

absl::Status CheckCorners(const Upsample& spec) {
  if (!spec.align_corners()) return absl::OkStatus();
  return AtField("align_corners",
                 InvalidSpec("upsample.align_corners says nothing for mode \"", spec.mode(), "\"; leave it out"));
}

absl::StatusOr<Interpolation::Mode> ModeOf(const Upsample& spec, size_t spatial) {
  for (const NamedMode& known : kModes) {
    if (spec.mode() != known.name) continue;
    if (known.spatial != 0 && known.spatial != spatial) {
      return AtField(
          "mode", InvalidSpec("upsample.mode \"", spec.mode(), "\" is for ", known.spatial,
                              known.spatial == 1 ? " spatial dim" : " spatial dims", ", but its input has ", spatial));
    }
    if (known.spatial == 0) ADJOIN_RETURN_IF_ERROR(CheckCorners(spec));
    return known.mode;
  }
  return AtField(
      "mode", InvalidSpec(spec.mode().empty() ? "upsample.mode is missing"
                                              : absl::StrCat("upsample.mode \"", spec.mode(), "\" is not known"),
                          "; write \"nearest\", \"nearest-exact\", \"area\", \"linear\", \"bilinear\", \"trilinear\" or"
                          " \"bicubic\""));
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

// The spatial extents, which are not empty.
absl::StatusOr<std::vector<int64_t>> SpatialOf(const std::vector<int64_t>& input) {
  if (input.size() < 3 || input.size() > 5) {
    return InvalidSpec("it reads [batch, channel, 1 to 3 spatial dims]; its input, ", ShapeText(input), ", has ",
                       input.size(), " dims");
  }
  std::vector<int64_t> extents(input.begin() + 2, input.end());
  for (int64_t extent : extents) {
    if (extent < 1) return InvalidSpec("its input, ", ShapeText(input), ", has no elements to interpolate");
  }
  return extents;
}

// The output's extent in each spatial dim.
absl::StatusOr<std::vector<int64_t>> OutputsOf(const Upsample& spec, const std::vector<int64_t>& extents) {
  if (spec.size().empty() == spec.scale().empty()) {
    return InvalidSpec("upsample needs either size or scale", spec.size().empty() ? "" : ", not both",
                       "; write scale: 2, say");
  }
  ADJOIN_RETURN_IF_ERROR(spec.size().empty() ? CheckCount("scale", spec.scale_size(), extents.size())
                                             : CheckCount("size", spec.size_size(), extents.size()));
  std::vector<int64_t> outputs;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (!spec.scale().empty()) {
      auto scaled = Interpolation::OutputSize(extents[i], ValueOf(spec.scale(), i));
      if (!scaled.ok()) return AtField("scale", InvalidSpec("upsample.scale: ", scaled.status().message()));
      outputs.push_back(*scaled);
      continue;
    }
    outputs.push_back(ValueOf(spec.size(), i));
    if (outputs.back() < 1) {
      return AtField("size", InvalidSpec("upsample.size is ", outputs.back(), "; it must be at least 1"));
    }
  }
  return outputs;
}

// As written, with a value for each dim.
void FillIn(const std::vector<int64_t>& outputs, Upsample& spec) {
  const Upsample written = spec;
  spec.clear_size();
  spec.clear_scale();
  for (size_t i = 0; i < outputs.size(); ++i) {
    written.scale().empty() ? spec.add_size(outputs[i]) : spec.add_scale(ValueOf(written.scale(), i));
  }
}

// The mode "area" is adaptive average pooling, whatever the factor.
absl::StatusOr<LayerOutcome> AreaRule(const LayerRequest& request) {
  const Upsample& written = request.spec.upsample();
  ADJOIN_RETURN_IF_ERROR(AtField("upsample", CheckCorners(written)));
  const auto outputs = [&]() -> absl::StatusOr<std::vector<int64_t>> {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, SpatialOf(request.input[0].shape()));
    return OutputsOf(written, extents);
  }();
  if (!outputs.ok()) return AtField("upsample", outputs.status());
  std::vector<int64_t> shape(request.input[0].shape().begin(), request.input[0].shape().begin() + 2);
  shape.insert(shape.end(), outputs->begin(), outputs->end());
  ADJOIN_RETURN_IF_ERROR(AtField("upsample", CheckedVolume(shape).status()));
  Layer as_pool = request.spec;
  *as_pool.mutable_pool() = AreaAsPool(*outputs);
  ADJOIN_ASSIGN_OR_RETURN(LayerOutcome outcome, PoolRule({.spec = as_pool,
                                                          .input = request.input,
                                                          .layouts = request.layouts,
                                                          .parameter_dtype = request.parameter_dtype,
                                                          .training = request.training,
                                                          .compute_dtype = request.compute_dtype}));
  outcome.spec = request.spec;
  FillIn(*outputs, *outcome.spec.mutable_upsample());
  return outcome;
}

}  // namespace

Pool AreaAsPool(const std::vector<int64_t>& outputs) {
  Pool pool;
  pool.set_mode("avg");
  pool.mutable_adaptive_size()->Add(outputs.begin(), outputs.end());
  return pool;
}

absl::StatusOr<std::map<int, Interpolation>> InterpolationsOf(const Upsample& spec, const std::vector<int64_t>& input,
                                                              DType dtype) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, SpatialOf(input));
  Interpolation::Options options;
  ADJOIN_ASSIGN_OR_RETURN(options.mode, ModeOf(spec, extents.size()));
  options.align_corners = spec.align_corners();
  options.dtype = dtype;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> outputs, OutputsOf(spec, extents));
  std::map<int, Interpolation> interpolations;
  for (size_t i = 0; i < extents.size(); ++i) {
    options.inputs = extents[i];
    options.outputs = outputs[i];
    options.scale = spec.scale().empty() ? 0 : ValueOf(spec.scale(), i);
    ADJOIN_ASSIGN_OR_RETURN(const Interpolation made, Interpolation::Create(options));
    interpolations.emplace(static_cast<int>(i) + 2, made);
  }
  return interpolations;
}

absl::StatusOr<LayerOutcome> UpsampleRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  if (request.spec.upsample().mode() == kAreaMode) return AreaRule(request);
  const Layout& x = request.input[0];
  auto dims = InterpolationsOf(request.spec.upsample(), x.shape(), x.dtype());
  if (!dims.ok()) return AtField("upsample", dims.status());

  std::vector<int64_t> outputs;
  for (const auto& entry : *dims) outputs.push_back(entry.second.options().outputs);
  Layer spec = request.spec;
  FillIn(outputs, *spec.mutable_upsample());
  std::vector<int64_t> shape = {x.shape()[0], x.shape()[1]};
  shape.insert(shape.end(), outputs.begin(), outputs.end());
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
