#include "layers/pool/pool_dims.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/adaptive_window.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

PoolDim ReadDim(int index, const LocalReads& reads) {
  PoolDim dim;
  dim.dim = index;
  dim.inputs = reads.inputs;
  dim.box = reads.reading.Reads(reads.outputs, reads.inputs);
  for (int64_t output = reads.outputs.lo; output < reads.outputs.hi; ++output) {
    dim.windows.push_back(reads.reading.Reads({output, output + 1}, reads.inputs));
  }
  if (const Window* window = reads.reading.As<Window>()) {
    const Window::Options& options = window->options();
    dim.kernel = options.kernel;
    dim.stride = options.stride;
    dim.dilation = options.dilation;
    dim.pad_hi = options.pad_hi;
  } else if (const AdaptiveWindow* adaptive = reads.reading.As<AdaptiveWindow>()) {
    if (reads.inputs % adaptive->outputs() == 0) dim.kernel = dim.stride = reads.inputs / adaptive->outputs();
  }
  return dim;
}

PoolDim OwnPart(int index, int64_t inputs, Interval part) {
  PoolDim dim;
  dim.dim = index;
  dim.inputs = inputs;
  dim.box = part;
  if (!part.empty()) dim.windows.push_back(part);
  dim.kernel = dim.stride = std::max<int64_t>(1, part.size());
  dim.own_part = true;
  return dim;
}

}  // namespace

absl::StatusOr<std::vector<PoolDim>> PoolDimsOf(const LayerContext& context) {
  if (context.input_shapes.size() != 1 || context.reads.size() != 1) {
    return absl::InvalidArgumentError("pooling reads one input, and the plan tells what of it");
  }
  const std::vector<int64_t>& inputs = context.input_shapes[0];
  std::vector<PoolDim> dims;
  for (int index = 2; index < static_cast<int>(inputs.size()); ++index) {
    const auto reads = context.reads[0].find(index);
    if (reads != context.reads[0].end()) {
      dims.push_back(ReadDim(index, reads->second));
      continue;
    }
    if (context.plan.reading_size() != 1) {
      return absl::InvalidArgumentError("the plan does not say which part of the input a rank pools");
    }
    ADJOIN_ASSIGN_OR_RETURN(const Layout reader, LayoutFromProto(context.plan.reading(0).reader()));
    dims.push_back(OwnPart(index, inputs[index], reader.BoxOf(context.rank)[index]));
  }
  return dims;
}

bool HaveKernels(const std::vector<PoolDim>& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const PoolDim& dim) { return dim.kernel > 0; });
}

}  // namespace adjoin
