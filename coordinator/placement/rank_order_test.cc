#include "coordinator/placement/rank_order.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

// Returns the number of pairs of neighbours in the mesh that are on one node, where nodes take `slots` ranks each in
// this order.
int NeighboursTogether(const Mesh& mesh, const std::vector<int>& order, int slots) {
  std::map<int, int> node;
  for (size_t i = 0; i < order.size(); ++i) node[order[i]] = static_cast<int>(i) / slots;
  int together = 0;
  for (int rank : mesh.ranks()) {
    std::vector<int64_t> coords = *mesh.CoordsOf(rank);
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      if (coords[axis] + 1 == mesh.shape()[axis]) continue;
      ++coords[axis];
      together += node[rank] == node[mesh.RankAt(coords)] ? 1 : 0;
      --coords[axis];
    }
  }
  return together;
}

TEST(RankOrderTest, ASquareIsCutIntoTiles) {
  EXPECT_THAT(CompactOrder(*Mesh::Create({4, 4})), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  EXPECT_THAT(CompactOrder(*Mesh::Create({5})), ElementsAre(0, 1, 2, 3, 4));
}

TEST(RankOrderTest, KeepsAsManyNeighboursTogetherAsRowsDoOrMore) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{4, 4}, {8, 8}, {2, 2, 2}, {4, 4, 4}, {1, 1, 4, 2}, {16, 2}, {2, 16}}) {
    const Mesh mesh = *Mesh::Create(shape);
    const std::vector<int> order = CompactOrder(mesh);
    EXPECT_THAT(order, UnorderedElementsAreArray(mesh.ranks()));
    for (int slots : {2, 4, 8, 16}) {
      EXPECT_GE(NeighboursTogether(mesh, order, slots), NeighboursTogether(mesh, mesh.ranks(), slots))
          << mesh.ToString() << " " << slots;
    }
  }
  const Mesh square = *Mesh::Create({8, 8});
  EXPECT_EQ(NeighboursTogether(square, CompactOrder(square), 16), 4 * 24);
  EXPECT_EQ(NeighboursTogether(square, square.ranks(), 16), 4 * 22);
}

TEST(RankOrderTest, TakesTheFirstLayoutWithAllRanks) {
  auto order = [](const std::string& text) {
    JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
    return AssignmentOrder(spec);
  };
  EXPECT_THAT(order("ranks: 4"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(order("ranks: 4 layout { partition: [1, 2] } layout { partition: [2, 2] rank: [3, 1, 2, 0] }"),
              ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(order("ranks: 4 layout { partition: [2, 2] rank: [0, 1, 2, 9] }"), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace adjoin
