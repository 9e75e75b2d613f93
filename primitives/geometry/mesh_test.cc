#include "primitives/geometry/mesh.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(MeshTest, CoordinatesAreRowMajor) {
  const Mesh mesh = *Mesh::Create({2, 3}, {4, 5, 6, 7, 9, 8}, {"h", "w"});
  EXPECT_EQ(mesh.CoordsOf(9), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(mesh.RankAt({1, 1}), 9);
  EXPECT_EQ(mesh.IndexOf(8), 5);
  EXPECT_FALSE(mesh.CoordsOf(0).has_value());
  EXPECT_FALSE(mesh.Has(-1));
  EXPECT_EQ(mesh.Along(0, 9), (std::vector<int>{5, 9}));
  EXPECT_EQ(mesh.Along(1, 9), (std::vector<int>{7, 9, 8}));
  EXPECT_EQ(mesh.ToString(), "2x3 [4 5 6 7 9 8]");
  for (int rank : mesh.ranks()) EXPECT_EQ(mesh.RankAt(*mesh.CoordsOf(rank)), rank);
}

TEST(MeshTest, RanksFromZeroAndNoAxes) {
  EXPECT_EQ(Mesh::Create({2, 2})->ranks(), (std::vector<int>{0, 1, 2, 3}));
  const Mesh point = *Mesh::Create({}, {7});
  EXPECT_EQ(point.size(), 1);
  EXPECT_EQ(point.CoordsOf(7), std::vector<int64_t>{});
  EXPECT_EQ(point.RankAt({}), 7);
}

TEST(MeshTest, RefusesBadArguments) {
  const absl::StatusOr<Mesh> bad[] = {
      Mesh::Create({2, 2}, {0, 1, 2}),
      Mesh::Create({0}, {}),
      Mesh::Create({-2, -1}, {0, 1}),
      Mesh::Create({2}, {1, 1}),
      Mesh::Create({2}, {0, -1}),
      Mesh::Create({2}, {0, 1}, {"h", "w"}),
      Mesh::Create({int64_t{1} << 40, int64_t{1} << 40}),
  };
  for (const auto& mesh : bad) EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adjoin
