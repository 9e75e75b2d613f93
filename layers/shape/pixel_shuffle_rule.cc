// torch.nn.PixelShuffle and PixelUnshuffle over 1, 2 or 3 spatial dims: groups of r^k channels become blocks of r x ...
// x r pixels, or the other way round.
//
// Nothing moves where the cuts of the channels (of the pixels, the other way round) are between such groups. Elsewhere
// the input is moved to the nearest cuts that do. The rule of the kinds "pixel_shuffle" and "pixel_unshuffle".
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr int64_t kMaxFactor = 1 << 15;

// Per dim: the extent is multiplied by `times` and divided by `into`, one of which is 1.
struct Scale {
  int64_t times = 1;
  int64_t into = 1;
};

Scale Inverse(Scale scale) { return {scale.into, scale.times}; }

absl::StatusOr<std::vector<Scale>> ScalesOf(const Shape& spec, bool shuffle, const std::vector<int64_t>& input) {
  if (spec.arg_size() != 1 || spec.arg(0) < 1 || spec.arg(0) > kMaxFactor) {
    return AtField("arg", InvalidSpec("it has one argument, the factor, from 1 to ", kMaxFactor, ", as in arg: 2"));
  }
  const int64_t factor = spec.arg(0);
  std::vector<Scale> scales(input.size());
  int64_t channels = 1;
  for (size_t dim = 2; dim < input.size(); ++dim) {
    channels *= factor;
    scales[dim] = shuffle ? Scale{factor, 1} : Scale{1, factor};
  }
  scales[1] = shuffle ? Scale{1, channels} : Scale{channels, 1};
  for (size_t dim = 1; dim < input.size(); ++dim) {
    if (input[dim] > kMaxElements / scales[dim].times) {
      return AtField("arg", InvalidSpec("dim ", dim, " of ", input[dim], " elements would have ", scales[dim].times,
                                        " times as many; at most 2^46 are possible"));
    }
    if (input[dim] % scales[dim].into == 0) continue;
    return AtField("arg", InvalidSpec("dim ", dim, " has ", input[dim], " elements, which is no multiple of ",
                                      scales[dim].into, "; the input's shape is ", ShapeText(input)));
  }
  return scales;
}

// The layout's cuts at multiples of `into`, each where it is or at the nearest one.
absl::StatusOr<Layout> Aligned(const Layout& layout, const std::vector<Scale>& scales) {
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (layout.AxesOf(dim).empty()) continue;
    const int64_t unit = scales[dim].into;
    int64_t before = 0;
    for (int64_t part = 1; part <= layout.Parts(dim); ++part) {
      const int64_t nearest = (layout.Boundaries(dim)[part] + unit / 2) / unit * unit;
      cuts[dim].push_back(nearest - before);
      before = nearest;
    }
  }
  return Layout::Create(layout.shape(), layout.dtype(), layout.mesh(), layout.placements(), std::move(cuts));
}

// What becomes of a layout whose cuts are at multiples of `into`.
absl::StatusOr<Layout> Scaled(const Layout& layout, const std::vector<Scale>& scales) {
  std::vector<int64_t> shape = layout.shape();
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    const Scale& scale = scales[dim];
    shape[dim] = shape[dim] / scale.into * scale.times;
    if (layout.AxesOf(dim).empty()) continue;
    cuts[dim] = PartSizes(layout, dim);
    for (int64_t& size : cuts[dim]) size = size / scale.into * scale.times;
  }
  return Layout::Create(std::move(shape), layout.dtype(), layout.mesh(), layout.placements(), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> PixelShuffleRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 3 || x.dims() > 5) {
    return AtField("input", InvalidSpec("its input has the shape ", ShapeText(x.shape()),
                                        "; it reads a batch, channels", " and 1, 2 or 3 spatial dims"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  const bool shuffle = request.spec.has_pixel_shuffle();
  auto scales = ScalesOf(shuffle ? request.spec.pixel_shuffle() : request.spec.pixel_unshuffle(), shuffle, x.shape());
  if (!scales.ok()) return AtField(KindOf(request.spec), scales.status());
  std::vector<Scale> back;
  for (const Scale& scale : *scales) back.push_back(Inverse(scale));

  ADJOIN_ASSIGN_OR_RETURN(Layout read, Aligned(x, *scales));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Scaled(read, *scales));
  ADJOIN_RETURN_IF_ERROR(AtField(KindOf(request.spec), CheckedVolume(compute.shape()).status()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), compute));
  ADJOIN_ASSIGN_OR_RETURN(const Layout aligned, Aligned(output, back));
  if (aligned == output) {
    // Then one movement, of the input, is enough.
    compute = output;
    ADJOIN_ASSIGN_OR_RETURN(read, Scaled(output, back));
  }
  return LayerOutcome{.spec = request.spec,
                      .input = {InputNeed{.layout = std::move(read)}},
                      .compute = std::move(compute),
                      .output = std::move(output)};
}

}  // namespace adjoin
