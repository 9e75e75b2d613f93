#include "primitives/geometry/rotation.h"

#include <gtest/gtest.h>

#include <vector>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

// The rank with the same coordinates except in `dim`, where it has part `part`.
int RankWith(const Layout& layout, int rank, int dim, int64_t part) {
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int other : layout.mesh().ranks()) {
    const std::vector<int64_t> of_other = *layout.mesh().CoordsOf(other);
    bool same = layout.PartOf(dim, of_other) == part;
    for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
      same = same && (layout.placements()[axis] == Placement::Split(dim) || of_other[axis] == coords[axis]);
    }
    if (same) return other;
  }
  return -1;
}

TEST(RotationTest, GivesEachRankThePartOfALaterRank) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 2000; ++i) {
    const Layout layout = RandomLayout(draw, draw.Integers(3, 0, 6), RandomMesh(draw));
    const int dim = static_cast<int>(draw.Between(0, 2));
    const int64_t by = draw.Between(0, 9);
    const auto rotated = RotatedParts(layout, dim, by);
    ASSERT_TRUE(rotated.ok()) << rotated.status() << layout.ToString();
    for (int rank : layout.mesh().ranks()) {
      const int64_t part = layout.PartOf(dim, *layout.mesh().CoordsOf(rank));
      const int further = RankWith(layout, rank, dim, (part + by) % layout.Parts(dim));
      ASSERT_GE(further, 0);
      EXPECT_EQ(rotated->LocalShape(rank), layout.LocalShape(further)) << layout.ToString();
      for (int d = 0; d < 3; ++d) {
        EXPECT_EQ(rotated->BoxOf(rank)[d].lo, layout.BoxOf(further)[d].lo) << layout.ToString() << " by " << by;
      }
    }
    if (by == 0) {
      EXPECT_EQ(*rotated, layout);
    }
  }
}

}  // namespace
}  // namespace adjoin
