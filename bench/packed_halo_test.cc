#include "bench/packed_halo.h"

#include <map>
#include <utility>
#include <vector>

#include "bench/protocol.h"
#include "gtest/gtest.h"

namespace adjoin::bench {
namespace {

TEST(PackedHalo, MessagesMakeEveryPaddedPatchThatOfTheWholeImage) {
  for (const Grid grid : {Grid{1, 1}, Grid{2, 1}, Grid{2, 2}, Grid{3, 3}}) {
    for (const PackedHalo::Form form : {PackedHalo::kIntoPadded, PackedHalo::kInPlace}) {
      SCOPED_TRACE(testing::Message() << grid.rows << "x" << grid.columns << " form " << form);
      std::vector<PackedHalo> halos;
      std::map<std::pair<int, int>, std::vector<float>> messages;  // by receiver and tag
      for (int rank = 0; rank < grid.rows * grid.columns; ++rank) {
        PackedHalo& halo = halos.emplace_back(rank, grid, PackedHalo::Part{2, 3, 5}, form);
        for (PackedHalo::Edge& edge : halo.edges()) {
          halo.Pack(edge);
          EXPECT_TRUE(messages.emplace(std::pair(edge.peer, edge.tag_out), edge.out).second);
        }
        EXPECT_EQ(halo.Correct(), grid.rows == 1 && form == PackedHalo::kInPlace);
      }
      for (int rank = 0; rank < grid.rows * grid.columns; ++rank) {
        halos[rank].CopyInterior();
        for (PackedHalo::Edge& edge : halos[rank].edges()) {
          edge.in = messages.at({rank, edge.tag_in});
          halos[rank].Unpack(edge);
        }
        EXPECT_TRUE(halos[rank].Correct()) << "rank " << rank;
      }
    }
  }
}

TEST(Protocol, PatchesHaveTheirBytes) {
  for (const int64_t bytes : {1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20}) {
    const auto [channels, side] = PatchOf(bytes);
    EXPECT_EQ(4 * channels * side * side, bytes);
    EXPECT_GE(side, 8);
  }
  EXPECT_EQ(PatchOf(1000).channels, 0);
}

TEST(Protocol, ABatchIsNotLongerThanItsLimit) {
  int runs = 0;
  const std::vector<double> times = Measure(
      {100, 7}, [&](int64_t) { ++runs; }, [](double) { return kLongestBatch / 2; });
  EXPECT_EQ(times, std::vector<double>(7, kLongestBatch / 2));
  EXPECT_EQ(runs, 100 + 2 * 7);
}

}  // namespace
}  // namespace adjoin::bench
