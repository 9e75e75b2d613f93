// What of a convolution's input need not be copied: its ranks keep their cells where they are and exchange only what
// lies at the edges, and the kernel itself adds the zeros around dims that are not cut. With a stride, the parts must
// be such that each kernel starts at its part's first output (primitives/geometry/window_edges.h).
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<MovementNeed> edges, EdgeMovements(x, windows, y, kSmallestInterior));
//   if (!edges.empty()) ...   // roles "edges2", "edges3": layers/conv/edge_convolution.h
//   else need.readings = WithoutPaddedDims(windows, x, y);
#ifndef ADJOIN_LAYERS_CONV_EDGE_HALO_H_
#define ADJOIN_LAYERS_CONV_EDGE_HALO_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"
#include "primitives/geometry/window_edges.h"
#include "proto/job.pb.h"

namespace adjoin {

// Elements of a sample. In smaller parts the kernels for the edges cost more than copying the part does. The batch does
// not count: a job takes the same way whatever its batch is, in its last one and in `adjoin verify`, too.
inline constexpr int64_t kSmallestInterior = int64_t{1} << 19;

// One per cut dim that is read beyond the own cells, ascending; none where it is not worth it or not possible:
// `windows` of a cut dim that have no edges (EdgesOf), or of another dim whose zeros the kernel cannot add; parts of
// `x` (as the kernel reads it) that are not a stride's inputs for each output of `y` (the outputs on its mesh); parts
// shorter than both edges, or of fewer than `smallest` elements of a sample on some rank.
absl::StatusOr<std::vector<MovementNeed>> EdgeMovements(const Layout& x, const std::map<int, Reading>& windows,
                                                        const Layout& y, int64_t smallest);

// Returns `windows` without the dims whose zeros the kernel adds: those that neither `x` nor `y` cuts, and whose
// windows return as many outputs as they read. Nothing moves where none is left, so the kernel reads the tensor that
// its maker keeps too.
std::map<int, Reading> WithoutPaddedDims(std::map<int, Reading> windows, const Layout& x, const Layout& y);

// The window of `conv`, as a plan has it, in tensor dim `dim`, from 2. Errors: kInvalidArgument, as Window::Create and
// ParseBoundary.
absl::StatusOr<Window> WindowOfConv(const Conv& conv, int dim);
// What it reads beside a part in a dim in which edges are exchanged. Errors: likewise, and where it has no edges.
absl::StatusOr<WindowEdges> EdgesOfConv(const Conv& conv, int dim);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_EDGE_HALO_H_
