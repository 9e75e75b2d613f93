// What convolutions hold on a rank.
#include <algorithm>
#include <cstdint>

#include "planner/memory/layer_kernel.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/window_edges.h"

namespace adjoin {
namespace {

using Shape = LayerSizes::Shape;

// LibTorch 1.13 computes float32 with oneDNN, but these small ones, other types and transposed ones by matrices of
// columns (ConvParams::use_mkldnn, aten/src/ATen/native/Convolution.cpp).
bool ByColumns(const LayerSizes& sizes, const Conv& conv) {
  if (sizes.type == DType::kFloat64 || conv.transposed()) return true;
  if (sizes.type != DType::kFloat32) return false;
  const Shape& x = sizes.input[0];
  const auto is = [](const auto& list, uint32_t value) {
    return std::all_of(list.begin(), list.end(), [value](uint32_t each) { return each == value; });
  };
  const auto& kernel = conv.window().kernel();
  const bool groups = conv.groups() > 1;
  const bool large_kernel = kernel.size() > 1 && kernel[kernel.size() - 1] > 3 && kernel[kernel.size() - 2] > 3;
  int64_t first = BoundedProduct(Shape(x.begin(), x.begin() + std::min<int64_t>(4, static_cast<int64_t>(x.size()))));
  if (x.size() == 3) first = BoundedProduct(x);  // one dim is computed as two
  const bool large = groups || large_kernel || x[0] > 1 || first > 20480;
  const bool point = is(kernel, 1);
  const bool plain = is(conv.window().stride(), 1) && is(conv.window().dilation(), 1);
  return !large || (point && plain && x[0] < 16);
}

int64_t KernelVolume(const Conv& conv) {
  return BoundedProduct({conv.window().kernel().begin(), conv.window().kernel().end()});
}

// oneDNN computes with copies in which channels come in blocks of 16 (with AVX-512); up to 3 of the input stay as they
// are.
void AddBlockedCopies(LayerKernel& k) {
  const auto blocked = [](int64_t bytes, int64_t channels) {
    constexpr int64_t kBlock = 16;
    return BoundedProduct({bytes / std::max<int64_t>(1, channels), (channels + kBlock - 1) / kBlock, kBlock});
  };
  const int64_t channels = k.sizes.input[0][1];
  const int64_t in = channels <= 3 ? 0 : blocked(k.in, channels), out = blocked(k.out, k.sizes.output[1]);
  // The plain output is made when the input's copy is gone, the input's gradient before that of the weight.
  k.memory.forward_work = std::max(in + out - k.out, out);
  constexpr int64_t kPlain = 16;  // channels of an input below which the weight's gradient needs no copy of it
  k.memory.backward_work = std::max(in + out - k.in, out + (channels < kPlain ? 0 : in));
}

LayerMemory OfTransposedConv(LayerKernel& k) {
  const Conv& conv = k.spec.conv();
  k.memory.in_sum_type = k.sizes.type == DType::kBFloat16;
  const int64_t channels = k.sizes.output.size() > 1 ? k.sizes.output[1] : 0;
  // A sample at a time.
  const int64_t positions = BoundedProduct(k.sizes.input[0]) /
                            std::max<int64_t>(1, BoundedProduct({k.sizes.input[0][0], k.sizes.input[0][1]}));
  const int64_t columns = BoundedProduct({channels, KernelVolume(conv), positions, k.element});
  // What the kernel returns is cut to the outputs, and the bias added.
  k.memory.forward_work = std::max(columns, k.out);
  k.memory.backward_work = k.out + columns;
  return k.memory;
}

}  // namespace

LayerMemory MemoryOfConv(const LayerPlan& layer, const LayerSizes& sizes) {
  const Conv& conv = layer.spec().conv();
  LayerKernel k(layer, sizes, conv.transposed());
  k.memory.keeps_input[0] = k.memory.keeps_parameters = k.memory.copies_gradient = true;
  if (BoundedProduct(sizes.input[0]) == 0 || BoundedProduct(sizes.output) == 0) return k.memory;
  if (conv.transposed()) return OfTransposedConv(k);
  if (ByColumns(k.sizes, conv) && KernelVolume(conv) > 1) {
    const int64_t channels = sizes.input[0][1];
    const int64_t columns =
        BoundedProduct({channels, KernelVolume(conv), k.out / std::max<int64_t>(1, sizes.output[1])});
    k.memory.forward_work = k.memory.backward_work = columns;
  }
  if (!ByColumns(k.sizes, conv)) AddBlockedCopies(k);
  int64_t zeros = 0;  // neighbours' cells, with zeros in the place of own ones: gone before the own cells' gradient
  for (size_t dim = 2; dim < sizes.edge.size(); ++dim) {
    const LayerSizes::Edge& edge = sizes.edge[dim];
    const auto slab = [&](int64_t cells) {
      return BoundedProduct({k.in / std::max<int64_t>(1, sizes.input[0][dim]), cells});
    };
    // What both sides send and get.
    const int64_t moved = 2 * slab(edge.read.before.cells + edge.read.after.cells);
    k.memory.forward_work += moved;
    k.memory.backward_work += moved;
    for (const WindowEdges::Side& side : edge.FromNeighbours()) zeros += slab(side.reads);
  }
  k.memory.keeps = zeros;
  k.memory.backward_work = std::max<int64_t>(0, k.memory.backward_work - zeros);
  if (sizes.halo_apart.has_value()) {
    k.memory.keeps_value = true;
    k.memory.keeps = BoundedProduct({*sizes.halo_apart, k.element});
  }
  return k.memory;
}

bool IsConvByColumns(const Layer& layer, const LayerSizes& sizes) {
  return !sizes.input.empty() && !sizes.input[0].empty() && ByColumns(sizes, layer.conv());
}

}  // namespace adjoin
