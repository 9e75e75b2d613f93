// Layouts in which every element is on one rank, to count it or to write it once.
//
//   ADJOIN_ASSIGN_OR_RETURN(Layout once, FirstCopy(x));
//   ADJOIN_ASSIGN_OR_RETURN(Layout pixels, WholeDim(once, 1));   // a rank has all the channels of what it has
#ifndef ADJOIN_LAYERS_RULES_COUNTED_LAYOUT_H_
#define ADJOIN_LAYERS_RULES_COUNTED_LAYOUT_H_

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// The same cut on the ranks that hold the first copy. Errors: as Layout::Create.
absl::StatusOr<Layout> FirstCopy(const Layout& layout);

// Where dim `whole` is not cut. The ranks that share it divide their part of another dim instead, the one that is
// longest on a rank: each sends only to these others, and has as much as before. `layout` has another dim. Errors: as
// Layout::Create.
absl::StatusOr<Layout> WholeDim(const Layout& layout, int whole);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_COUNTED_LAYOUT_H_
