// Layouts of a tensor that is repeated to a larger shape, as PyTorch broadcasts: aligned at the last dim; dims of
// extent 1 and those that it does not have repeat what it holds.
//
//   // x: [4, 1, 6], cut in dims 0 and 1
//   ADJOIN_ASSIGN_OR_RETURN(Layout y, RepeatedTo(x, {4, 5, 6}));         // cut as x, dim 1 evenly
//   ADJOIN_ASSIGN_OR_RETURN(Layout read, ReadWhenRepeated(x, y));        // whole in dim 1 on every rank
//
// Where x is moved to `read` and repeated there, the adjoint of that movement sums the gradient over ranks.
#ifndef ADJOIN_LAYERS_RULES_BROADCAST_LAYOUT_H_
#define ADJOIN_LAYERS_RULES_BROADCAST_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// On the mesh of `x`: cut as it is, in dims that grow evenly. `shape` has as many dims or more; x's extents are 1 or
// the same. Errors: as Layout::Create.
absl::StatusOr<Layout> RepeatedTo(const Layout& x, const std::vector<int64_t>& shape);

// On the mesh of `y`, which x is repeated to: what the parts of y repeat of `x`. Errors: as Layout::Create.
absl::StatusOr<Layout> ReadWhenRepeated(const Layout& x, const Layout& y);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_BROADCAST_LAYOUT_H_
