// Padded parts of random layouts: every cell of every rank against a walk from its index into the tensor, and which of
// them a refresh reads and writes.
#include "primitives/geometry/kept_halo.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/simulated_ranks.h"

namespace adjoin {
namespace {

constexpr int kCases = 2000;
constexpr int64_t kNobodys = -1;

// Where index `i` has its value; kNobodys on the zero boundary.
int64_t WalkInside(int64_t i, int64_t n, Boundary boundary) {
  while (i < 0 || i >= n) {
    switch (boundary) {
      case Boundary::kZeros: return kNobodys;
      case Boundary::kCircular: i += i < 0 ? n : -n; break;
      case Boundary::kReflect: i = i < 0 ? -i : 2 * (n - 1) - i; break;
      case Boundary::kReplicate: i += i < 0 ? 1 : -1; break;
    }
  }
  return i;
}

HaloWidth RandomWidth(Draw& draw, int64_t n) {
  HaloWidth width;
  width.boundary = static_cast<Boundary>(draw.Between(0, 3));
  const int64_t most = width.boundary == Boundary::kCircular  ? std::min<int64_t>(n, 4)
                       : width.boundary == Boundary::kReflect ? std::min<int64_t>(n - 1, 4)
                                                              : 4;
  width.lo = draw.Between(0, most);
  width.hi = draw.Between(0, most);
  return width;
}

// What a padded tensor holds, cell by cell: an index of the tensor in row-major order, or kNobodys; and whether the
// cell is of the rank's own part.
struct Expected {
  std::vector<int64_t> shape;
  std::vector<int64_t> index;
  std::vector<bool> own;
};

Expected WalkPadded(const Layout& x, const std::map<int, HaloWidth>& widths, int rank) {
  const Box part = x.BoxOf(rank);
  Expected expected;
  Region all;
  for (int d = 0; d < x.dims(); ++d) {
    const auto width = widths.find(d);
    const int64_t around = width == widths.end() || part[d].empty() ? 0 : width->second.lo + width->second.hi;
    expected.shape.push_back(part[d].size() + around);
  }
  all.at.assign(x.dims(), 0);
  all.size = expected.shape;
  ForEachCell(expected.shape, all, [&](int64_t, const std::vector<int64_t>& at) {
    int64_t index = 0;
    bool own = true;
    for (int d = 0; d < x.dims(); ++d) {
      const auto width = widths.find(d);
      const int64_t lo = width == widths.end() ? 0 : width->second.lo;
      const int64_t wanted = part[d].lo + at[d] - lo;
      own = own && part[d].Contains(wanted);
      const int64_t n = x.shape()[d];
      const int64_t inside = width == widths.end() ? wanted : WalkInside(wanted, n, width->second.boundary);
      index = index == kNobodys || inside == kNobodys ? kNobodys : index * n + inside;
    }
    expected.index.push_back(index);
    expected.own.push_back(own);
  });
  return expected;
}

// The index of each cell that the view's pieces cover, else kNobodys.
std::vector<int64_t> Painted(const LocalView& view, const std::vector<int64_t>& global) {
  std::vector<int64_t> cells(VolumeOf(view.shape), kNobodys);
  for (const Piece& piece : view.pieces) {
    const Region region{piece.at, piece.box.Shape()};
    ForEachCell(view.shape, region, [&](int64_t flat, std::vector<int64_t> at) {
      for (size_t d = 0; d < at.size(); ++d) at[d] += piece.box[static_cast<int>(d)].lo - piece.at[d];
      cells[flat] = RowMajorPlace(at, global);
    });
  }
  return cells;
}

TEST(KeptHaloTest, KnowsEveryCell) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < kCases; ++i) {
    const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 3), 1, 8);
    const Layout x = RandomLayout(draw, shape, RandomMesh(draw));
    std::map<int, HaloWidth> widths;
    for (int d = 0; d < x.dims(); ++d) {
      if (!draw.OneIn(4)) widths[d] = RandomWidth(draw, shape[d]);
    }
    const auto halo = KeptHalo::Create(x, widths);
    ASSERT_TRUE(halo.ok()) << halo.status() << x.ToString();
    for (const int rank : x.mesh().ranks()) {
      SCOPED_TRACE(x.ToString() + " rank " + std::to_string(rank));
      const Expected expected = WalkPadded(x, widths, rank);
      ASSERT_EQ(halo->PaddedShape(rank), expected.shape);
      const std::vector<int64_t> interior = Painted(halo->interior().View(rank), shape);
      const std::vector<int64_t> ring = Painted(halo->ring().View(rank), shape);
      ASSERT_EQ(Painted(halo->padded().View(rank), shape), expected.index);
      std::vector<bool> outside(expected.index.size()), own(expected.index.size());
      for (const Region& region : halo->OutsideOf(rank)) {
        ForEachCell(expected.shape, region, [&](int64_t flat, const std::vector<int64_t>&) {
          ASSERT_FALSE(outside[flat]) << "twice";
          outside[flat] = true;
        });
      }
      ForEachCell(expected.shape, halo->InteriorOf(rank),
                  [&](int64_t flat, const std::vector<int64_t>&) { own[flat] = true; });
      ASSERT_EQ(own, expected.own);
      for (size_t c = 0; c < expected.index.size(); ++c) {
        ASSERT_EQ(outside[c], expected.index[c] == kNobodys);
        ASSERT_EQ(interior[c], expected.own[c] ? expected.index[c] : kNobodys);
        ASSERT_EQ(ring[c], expected.own[c] ? kNobodys : expected.index[c]);
      }
    }
  }
}

// On a row of three ranks, 4, 1 and 3 cells: the middle's ring of 2 comes from one rank on each side, and the first
// rank's from both others.
TEST(KeptHaloTest, ReachesOverSmallParts) {
  const Layout x = *Layout::Partition({8}, DType::kFloat32, {3}, {0, 1, 2}, {{0, {4, 1, 3}}});
  const KeptHalo halo = *KeptHalo::Create(x, {{0, {.lo = 2, .hi = 2}}});
  EXPECT_EQ(halo.PaddedShape(0), std::vector<int64_t>{8});
  EXPECT_EQ(halo.PaddedShape(3), std::vector<int64_t>{0});
  const ExchangeSchedule first = *ExchangeSchedule::Build(halo.interior(), halo.ring(), 0);
  ASSERT_EQ(first.recvs().size(), 2);
  EXPECT_EQ(first.recvs()[0], (Transfer{1, {{{6}, {1}}}, 1}));
  EXPECT_EQ(first.recvs()[1], (Transfer{2, {{{7}, {1}}}, 1}));
  ASSERT_EQ(first.sends().size(), 2);
  EXPECT_EQ(first.sends()[0], (Transfer{1, {{{4}, {2}}}, 2}));
  EXPECT_EQ(first.sends()[1], (Transfer{2, {{{5}, {1}}}, 1}));
  EXPECT_EQ(halo.OutsideOf(0), (std::vector<Region>{{{0}, {2}}}));
  EXPECT_EQ(halo.OutsideOf(1), std::vector<Region>{});
  EXPECT_EQ(halo.OutsideOf(2), (std::vector<Region>{{{5}, {2}}}));
}

TEST(KeptHaloTest, RefusesWhatIsNoHalo) {
  const Layout x = *Layout::Partition({8, 3}, DType::kFloat32, {2, 1}, {0, 1});
  const auto refused = [&](const std::map<int, HaloWidth>& widths, const std::string& why) {
    const absl::Status status = KeptHalo::Create(x, widths).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
  };
  refused({{2, {}}}, "a halo in dim 2 of a tensor of 2 dims");
  refused({{-1, {}}}, "a halo in dim -1 of a tensor of 2 dims");
  refused({{0, {.lo = -1}}}, "a halo of -1 and 0 cells in dim 0; each is from 0 to 1073741824");
  refused({{0, {.hi = INT64_MAX}}}, "; each is from 0 to 1073741824");
  refused({{1, {.lo = 4, .boundary = Boundary::kCircular}}}, "a halo of 4 and 0 cells in dim 1 with extent 3: ");
  refused({{1, {.lo = 3, .boundary = Boundary::kReflect}}}, "a halo of 3 and 0 cells in dim 1 with extent 3: ");
}

}  // namespace
}  // namespace adjoin
