// The layouts of a convolution's tensors on the mesh that computes it.
//
//   ADJOIN_ASSIGN_OR_RETURN(ConvGrid grid, ConvGrid::Create(request, extents));
//   ADJOIN_ASSIGN_OR_RETURN(ConvLayouts layouts, ConvLayoutsOf(request, extents, grid));
#ifndef ADJOIN_LAYERS_CONV_CONV_LAYOUTS_H_
#define ADJOIN_LAYERS_CONV_CONV_LAYOUTS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "layers/conv/conv_grid.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

struct ConvLayouts {
  std::optional<Layout> x;       // where the input is moved to; absent: as P_x has it
  std::optional<Layout> reader;  // the outputs' that read it; absent: `compute`
  Layout weight;                 // where the kernels read it
  Layout bias;
  Layout compute;
  Layout output;
  // The first rank that has each block of the weight and of the bias; absent where every rank has all of it.
  std::optional<Layout> weight_owners;
  std::optional<Layout> bias_owners;
};

// Errors: kInvalidArgument, at "y".
absl::StatusOr<ConvLayouts> ConvLayoutsOf(const LayerRequest& request, const ConvExtents& extents,
                                          const ConvGrid& grid);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_CONV_LAYOUTS_H_
