#include "planner/plan/layout_text.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_ranges.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

std::string LayoutText(const LayoutPlan& layout) {
  bool partition = layout.mesh_size() == layout.shape_size();
  for (int i = 0; i < layout.placement_size(); ++i) {
    partition = partition && layout.placement(i) == absl::StrCat("S(", i, ")");
  }
  std::string text;
  const absl::StatusOr<Layout> made = LayoutFromProto(layout);
  const std::vector<int> ranks = made.ok() ? made->mesh().ranks() : std::vector<int>();
  if (ranks.size() == 1) {
    text = absl::StrCat("rank ", ranks[0]);
  } else {
    const std::string placements = partition ? "" : absl::StrCat(" ", absl::StrJoin(layout.placement(), " "));
    text = absl::StrCat(absl::StrJoin(layout.mesh(), "x"), placements, " on ranks ", NumberRanges(ranks));
  }
  for (const Cut& cut : layout.cut()) absl::StrAppend(&text, ", dim ", cut.dim(), " ", absl::StrJoin(cut.size(), "+"));
  return text;
}

}  // namespace adjoin
