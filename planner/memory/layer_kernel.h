// What the rules of layer_memory.h are written with, and those that have a file of their own.
#ifndef ADJOIN_PLANNER_MEMORY_LAYER_KERNEL_H_
#define ADJOIN_PLANNER_MEMORY_LAYER_KERNEL_H_

#include <algorithm>
#include <cstdint>

#include "planner/memory/layer_memory.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/dtype.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Bytes of tensors of one layer, in the type in which its kernel computes.
class LayerKernel {
 public:
  LayerKernel(const LayerPlan& layer, const LayerSizes& sizes, bool in_sum_type = false)
      : spec(layer.spec()),
        sizes(sizes),
        element(in_sum_type ? std::max<int64_t>(4, SizeOf(sizes.type)) : SizeOf(sizes.type)) {
    if (!sizes.input.empty()) in = BoundedProduct(sizes.input[0]) * element;
    out = BoundedProduct(sizes.output) * element;
    memory.keeps_input.assign(sizes.input.size(), false);
    memory.gradient.assign(sizes.input.size(), GradientOf::kOwn);
    memory.in_sum_type = in_sum_type && sizes.type == DType::kBFloat16;
  }

  const Layer& spec;
  const LayerSizes& sizes;
  const int64_t element;
  int64_t in = 0, out = 0;
  LayerMemory memory;
};

LayerMemory MemoryOfConv(const LayerPlan& layer, const LayerSizes& sizes);
LayerMemory MemoryOfAttention(const LayerPlan& layer, const LayerSizes& sizes);
LayerMemory MemoryOfWindowAttention(const LayerPlan& layer, const LayerSizes& sizes);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_LAYER_KERNEL_H_
