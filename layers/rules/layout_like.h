// Layouts of a layer's result that follow its input's.
//
//   Layout natural = *LayoutLike(x, shape, /*even=*/{2, 3});               // cut as x, in dims 2 and 3 evenly
//   ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, natural));
//   Layout compute = SameButFor({2, 3}, natural, output) ? output : natural;   // one movement leads to such a y
#ifndef ADJOIN_LAYERS_RULES_LAYOUT_LIKE_H_
#define ADJOIN_LAYERS_RULES_LAYOUT_LIKE_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// On the mesh of `x`, which has as many dims as `shape`: cut in the same dims at the same places, in those of `even`
// evenly, or by the mesh's weights. The axes that cut a dim of `whole` have `instead`.
// Errors: kInvalidArgument (as Layout::Create; another extent of a dim that is cut as in x).
absl::StatusOr<Layout> LayoutLike(const Layout& x, std::vector<int64_t> shape, const std::set<int>& even,
                                  const std::set<int>& whole = {}, Placement instead = Placement::Broadcast());

// One number per channel (dim 1) of `x`, [channels] of `dtype`: cut as the channels are, the same wherever another dim
// is cut. Errors: as Layout::Create.
absl::StatusOr<Layout> PerChannel(const Layout& x, DType dtype);

// The dims of `x` from `first` on, of `dtype`: cut as they are, the same wherever another dim is cut.
// Errors: as Layout::Create.
absl::StatusOr<Layout> DimsFrom(int first, const Layout& x, DType dtype);

// Whether two layouts differ at most in where they cut these dims.
bool SameButFor(const std::set<int>& dims, const Layout& a, const Layout& b);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_LAYOUT_LIKE_H_
