#include "primitives/geometry/transfer_segments.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/simulated_ranks.h"

namespace adjoin {
namespace {

TEST(TransferSegmentsTest, CoverTheTransferInOrderAndAreSmall) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 3000; ++i) {
    const std::vector<int64_t> shape = draw.Integers(draw.Between(0, 5), 1, 7);
    Transfer transfer{3, {}, 0};
    for (int64_t r = draw.Between(1, 4); r > 0; --r) {
      Region region;
      for (int64_t extent : shape) {
        region.size.push_back(draw.Between(1, extent));
        region.at.push_back(draw.Between(0, extent - region.size.back()));
      }
      transfer.elements += region.Volume();
      transfer.regions.push_back(region);
    }
    const int64_t most = draw.Between(1, transfer.elements + 1);
    std::vector<int64_t> cells;
    const std::vector<Transfer> segments = SegmentsOf(transfer, most);
    for (const Transfer& segment : segments) {
      EXPECT_EQ(segment.peer, 3);
      EXPECT_LE(segment.elements, most);
      const std::vector<int64_t> part = CellsOf(shape, segment);
      ASSERT_EQ(static_cast<int64_t>(part.size()), segment.elements);
      ASSERT_GT(segment.elements, 0);
      cells.insert(cells.end(), part.begin(), part.end());
    }
    ASSERT_EQ(cells, CellsOf(shape, transfer));
  }
}

// A contiguous tensor is cut into nearly full segments.
TEST(TransferSegmentsTest, AreNoMoreThanNeeded) {
  const Transfer transfer{0, {{{0, 0}, {4096, 4096}}}, 4096 * 4096};
  EXPECT_EQ(SegmentsOf(transfer, 131072).size(), 128u);
  const Transfer row{0, {{{0, 0}, {1, 1000001}}}, 1000001};
  EXPECT_EQ(SegmentsOf(row, 500000).size(), 3u);
}

TEST(TransferSegmentsTest, HandlesOffsetsBeyondTwoToThe32) {
  const int64_t rows = int64_t{3} << 30;
  const std::vector<Transfer> segments = SegmentsOf({0, {{{rows, 5}, {rows, 2}}}, 2 * rows}, int64_t{1} << 30);
  ASSERT_EQ(segments.size(), 6u);
  EXPECT_EQ(segments[5].regions[0], (Region{{2 * rows - (int64_t{1} << 29), 5}, {int64_t{1} << 29, 2}}));
}

}  // namespace
}  // namespace adjoin
