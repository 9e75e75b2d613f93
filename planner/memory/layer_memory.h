// What a layer's kernels hold on a rank beside the tensors that the plan names: what LibTorch's graph keeps for the
// backward pass, and what lives only while a kernel runs.
//
//   const LayerMemory memory = MemoryOf(layer, sizes);
//   memory.keeps_input[0];   // the backward pass reads it
//
// As layers/*/ compute them with LibTorch 1.13 on the CPU. Small tensors (a number for each channel or row) are left
// out.
#ifndef ADJOIN_PLANNER_MEMORY_LAYER_MEMORY_H_
#define ADJOIN_PLANNER_MEMORY_LAYER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/window_edges.h"
#include "proto/plan.pb.h"

namespace adjoin {

// A rank's local tensors of one layer, as its kernel sees them.
struct LayerSizes {
  using Shape = std::vector<int64_t>;
  std::vector<Shape> input;  // as read: halos included
  Shape output;              // LayerPlan.compute
  DType type = DType::kFloat32;
  // Weights and biases where the kernel reads them, in order of LayerPlan.parameter, buffers left out.
  std::vector<Shape> parameter;
  // By dim of a convolution whose halo moves as edges: what is read beside a part, and whether a neighbour has it.
  struct Edge {
    WindowEdges read;
    bool before = false;
    bool after = false;

    // What a second kernel reads; none where nothing comes from there.
    std::vector<WindowEdges::Side> FromNeighbours() const {
      std::vector<WindowEdges::Side> sides;
      if (before && read.before.cells > 0) sides.push_back(read.before);
      if (after && read.after.cells > 0) sides.push_back(read.after);
      return sides;
    }
  };
  std::vector<Edge> edge;
  // The elements of input 0 that are not the rank's own, where a convolution keeps its halo apart
  // (LayerPlan.keeps_halo_apart).
  std::optional<int64_t> halo_apart;
  bool shared = false;    // each rank pools its own part, or has a part of each row of a softmax
  int64_t key_parts = 1;  // of an attention, which travel around
  int64_t heads = 0;      // of an attention, which this rank has
};

enum class GradientOf {
  kOwn,   // a new tensor
  kView,  // shares the memory of the output's gradient
};

struct LayerMemory {
  bool view = false;  // the output shares the memory of input 0
  // The kernel works in float32 where tensors are bfloat16: it reads a copy of input 0, and its output is copied.
  bool in_sum_type = false;
  std::vector<bool> keeps_input;
  bool keeps_value = false;  // of input 0 not what is read, but the value that this is made of
  bool keeps_output = false;
  bool keeps_parameters = false;
  bool parameters_for_input = false;  // these are kept only where input 0 has a gradient, which alone needs them
  bool copies_gradient = false;       // the output's, where it is a part of a larger tensor
  int64_t keeps = 0;                  // bytes of further tensors that the graph keeps
  int64_t forward_work = 0;           // bytes, at most at one time, beside inputs, output and what is kept
  std::vector<GradientOf> gradient;
  int64_t backward_work = 0;  // likewise beside the output's gradient, those of inputs and parameters, and what is kept
};

// `layer`: of a plan. For a layer of one's own: keeps its inputs and its output.
LayerMemory MemoryOf(const LayerPlan& layer, const LayerSizes& sizes);

// Returns whether MemoryOf knows the kind (KindOf); it has to know all but layers of one's own.
bool KnowsMemoryOf(const std::string& kind);

// Returns whether LibTorch computes a convolution by a matrix of columns, a sample at a time, rather than with oneDNN.
bool IsConvByColumns(const Layer& layer, const LayerSizes& sizes);

// Likewise of a loss of this prediction; its output is one number.
LayerMemory MemoryOfLoss(const Loss& loss, const LayerSizes& sizes);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_LAYER_MEMORY_H_
