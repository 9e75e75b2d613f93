// Padding with elements from inside of a tensor: torch.nn.functional.pad with mode "circular", "reflect" or
// "replicate". Before a convolution it is that layer's window.boundary, as PyTorch's own modules with a padding_mode
// have it; elsewhere each padded dim is an index_select.
//
//   for (const PaddedConvolution& found : FindPaddedConvolutions(graph)) {
//     found.pad;            // leave this node out ...
//     found.convolution;    // ... and import this in place of graph.nodes[found.last]
//   }
#ifndef ADJOIN_IMPORTER_LAYERS_BOUNDARY_PADDING_H_
#define ADJOIN_IMPORTER_LAYERS_BOUNDARY_PADDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {

// The argument of a PaddedConvolution's node that names the boundary.
inline constexpr char kBoundaryArgument[] = "padding_mode";

struct BoundaryPadding {
  std::string mode;           // as WindowSpec.boundary
  std::vector<int64_t> pads;  // before and after, the last dim's first
};

// What an operator adds; none where it is no padding, or one with a number.
std::optional<BoundaryPadding> BoundaryPaddingOf(const OpNode& node);

// A convolution that pads its input itself: it has the padding's "self" as its input, "pad", and kBoundaryArgument.
struct PaddedConvolution {
  size_t pad = 0, last = 0;  // nodes, by their index
  OpNode convolution;
};

// Finds paddings of spatial dims that one convolution alone reads, which adds no elements of its own.
std::vector<PaddedConvolution> FindPaddedConvolutions(const OpGraph& graph);

// Errors: kInvalidArgument: the batch is padded; a dim takes more than PyTorch allows, or has no fixed extent.
absl::Status AddBoundaryPadding(const OpNode& node, const BoundaryPadding& padding, LayerBuilder& builder);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_BOUNDARY_PADDING_H_
