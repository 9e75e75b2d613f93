// Convolution and transposed convolution over 1, 2 or 3 spatial dims: every dim may be cut, the channels too.
//
//   without w, channels whole   every rank of x uses the whole weight and bias; home REPLICATED by default; or what it
//                               needs for its part of y, along axes of one mesh that cut y's channels and nothing of x
//   without w, channels cut     no input moves, but for halos: where parts hold whole groups, each rank has the weight
//                               of its groups; else the products are partial sums, moved to y by summing them
//   with w                      a partition of the weight, [out, in] parts (transposed: [in, out]): x goes to where the
//                               blocks are that multiply it, the sums over `in` go to y
//
// conv_grid.h says how. Parts of the kernel's dims in w, and axes along which it is B, cut the spatial dims and the
// batch. With several groups, w is read as so many ranks: each gets whole groups or part of one, whichever fits.
// Large parts stay where they are, where each has as many inputs as its outputs take strides, and dims that are not cut
// are padded by the kernel: edge_halo.h.
// Home OWNER without an owner, of a weight in blocks: each on the first rank that uses it.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/conv/conv_grid.h"
#include "layers/conv/conv_layouts.h"
#include "layers/conv/edge_halo.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "layers/rules/windowed.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/reading.h"

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

// Fills in the defaults and works out the extents.
absl::StatusOr<WindowedDims> CheckedDims(const Layout& x, Conv& conv, ConvExtents& extents) {
  absl::StatusOr<WindowedDims> dims = absl::UnknownError("");
  if (conv.transposed()) {
    dims = TransposedWindowsOf(conv, x.shape());
    if (!dims.ok()) return dims;
  } else {
    dims = WindowsOf(conv.window(), x.shape(), /*pooling=*/false, /*ceil_mode=*/false);
    if (!dims.ok()) return AtField("window", dims.status());
    if (!conv.output_padding().empty()) {
      return AtField("output_padding[0]", InvalidSpec("conv.output_padding is for a transposed convolution; leave it"
                                                      " out, or write transposed: true"));
    }
  }
  extents.transposed = conv.transposed();
  extents.in = x.shape()[1];
  extents.out = conv.out_channels();
  extents.groups = conv.has_groups() ? conv.groups() : 1;
  ADJOIN_RETURN_IF_ERROR(CheckGroups(extents.in, extents.out, extents.groups));
  extents.weight = conv.transposed() ? std::vector<int64_t>{extents.in, extents.out / extents.groups}
                                     : std::vector<int64_t>{extents.out, extents.in / extents.groups};
  for (uint32_t kernel : dims->filled.kernel()) extents.weight.push_back(kernel);
  extents.output = {x.shape()[0], extents.out};
  extents.output.insert(extents.output.end(), dims->outputs.begin(), dims->outputs.end());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(extents.weight).status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(extents.output).status());
  conv.set_groups(static_cast<uint32_t>(extents.groups));
  conv.set_bias(conv.has_bias() ? conv.bias() : true);
  *conv.mutable_window() = dims->filled;
  return dims;
}

// Owners that are not named are the first rank of each block.
absl::StatusOr<Layout> HomeIn(const Layer& spec, const Layout& needed, const std::optional<Layout>& owners,
                              const std::vector<int>& ranks) {
  if (spec.home() == OWNER && spec.owner() == 0 && owners.has_value()) return *owners;
  return HomeOf(spec, needed, needed, ranks);
}

}  // namespace

absl::StatusOr<LayerOutcome> ConvRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  Layer spec = request.spec;
  ConvExtents extents;
  auto dims = CheckedDims(request.input[0], *spec.mutable_conv(), extents);
  if (!dims.ok()) return AtField("conv", dims.status());
  ADJOIN_ASSIGN_OR_RETURN(const ConvGrid grid, ConvGrid::Create(request, extents));
  ADJOIN_ASSIGN_OR_RETURN(ConvLayouts layouts, ConvLayoutsOf(request, extents, grid));

  // As torch.nn.init: the weight's dim 1 times the kernel, whatever that dim counts.
  const int64_t fan_in = VolumeOf(extents.weight) / extents.weight[0];
  const std::vector<int>& ranks = layouts.compute.mesh().ranks();
  ADJOIN_ASSIGN_OR_RETURN(Layout weight_home, HomeIn(spec, layouts.weight, layouts.weight_owners, ranks));
  std::vector<ParameterNeed> parameters;
  parameters.push_back(
      {.role = kRoleWeight, .home = std::move(weight_home), .needed = std::move(layouts.weight), .fan_in = fan_in});
  if (spec.conv().bias()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout bias_home, HomeIn(spec, layouts.bias, layouts.bias_owners, ranks));
    parameters.push_back(
        {.role = kRoleBias, .home = std::move(bias_home), .needed = std::move(layouts.bias), .fan_in = fan_in});
  }
  // Each element of the product's input, or of its output, meets a kernel of one group.
  const std::vector<int64_t>& each = extents.transposed ? request.input[0].shape() : extents.output;
  const double flops = 2.0 * static_cast<double>(VolumeOf(each)) * static_cast<double>(fan_in);
  const Layout& read = layouts.x.has_value() ? *layouts.x : request.input[0];
  const Layout& reader = layouts.reader.has_value() ? *layouts.reader : layouts.compute;
  std::vector<MovementNeed> edges;
  std::map<int, Reading> readings = std::move(dims->windows);
  if (!extents.transposed) {
    ADJOIN_ASSIGN_OR_RETURN(edges, EdgeMovements(read, readings, reader, kSmallestInterior));
    readings = WithoutPaddedDims(std::move(readings), read, reader);
  }
  InputNeed need{.layout = std::move(layouts.x)};
  if (edges.empty() && !readings.empty()) {
    need.readings = std::move(readings);
    need.reader = std::move(layouts.reader);
  }
  return LayerOutcome{.spec = std::move(spec),
                      .input = {std::move(need)},
                      .parameter = std::move(parameters),
                      .compute = std::move(layouts.compute),
                      .output = std::move(layouts.output),
                      .flops = flops,
                      .movement = std::move(edges)};
}

}  // namespace adjoin
