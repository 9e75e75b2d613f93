#include "primitives/geometry/rank_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;
using testing::HasSubstr;

std::shared_ptr<const RankWeights> Weights(const std::vector<double>& weights) {
  return std::make_shared<const RankWeights>(RankWeights::Create(weights).value());
}

TEST(RankWeightsTest, RefusesWhatIsNoWeight) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, nan, infinite, -infinite}) {
    const auto weights = RankWeights::Create({1, bad, 1});
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr("[1] is")) << bad;
  }
  EXPECT_THAT(std::string(RankWeights::Create({2, 1, 2001}).status().message()), HasSubstr("[2] is 2001"));
  EXPECT_FALSE(RankWeights::Create({std::numeric_limits<double>::denorm_min(), 1}).ok());
  EXPECT_TRUE(RankWeights::Create({1, 1000}).ok());
  EXPECT_TRUE(RankWeights::Create({1e308, 1e306}).ok());
  EXPECT_TRUE(RankWeights::Create({})->even());
  EXPECT_TRUE(RankWeights::Create({3, 3, 3})->even());
  EXPECT_FALSE(RankWeights::Create({3, 3, 4})->even());
}

TEST(RankWeightsTest, DividesInProportion) {
  const RankWeights weights = *RankWeights::Create({1, 2, 3, 1.5});
  const Numbers units = {weights.Of(0), weights.Of(1), weights.Of(2), weights.Of(3)};
  EXPECT_EQ(ProportionalSizes(15, units, 1), (Numbers{2, 4, 6, 3}));
  EXPECT_EQ(ProportionalSizes(0, units, 0), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(ProportionalSizes(2, units, 0), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(ProportionalSizes(10, {1, 1000}, 1), (Numbers{1, 9}));
  EXPECT_EQ(ProportionalSizes(6, {1, 1, 1000}, 2), (Numbers{2, 2, 2}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Numbers large = ProportionalSizes(most, {int64_t{1} << 44, 1}, 1);
  EXPECT_EQ(large[0] + large[1], most);
}

// The definition: what is not held at the least is within one of its share, and no exchange of a cell between two such
// parts brings both nearer.
TEST(RankWeightsTest, RemaindersAreTheLargest) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 3000; ++i) {
    const int64_t parts = draw.Between(1, 9), n = draw.Between(0, 200);
    const Numbers weights = draw.Integers(parts, 1, draw.OneIn(3) ? 3 : 1000);
    const int64_t least = draw.Between(0, std::min<int64_t>(3, n / parts));
    const Numbers sizes = ProportionalSizes(n, weights, least);
    ASSERT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), n);
    int64_t rest = n, total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      ASSERT_GE(sizes[part], least);
      if (sizes[part] > least)
        total += weights[part];
      else
        rest -= least;
    }
    for (int64_t a = 0; a < parts; ++a) {
      for (int64_t b = 0; b < parts; ++b) {
        if (weights[a] < weights[b]) {
          ASSERT_LE(sizes[a], sizes[b]) << "a heavier part has less";
        } else if (weights[a] == weights[b] && a < b) {
          ASSERT_GE(sizes[a], sizes[b]) << "earlier parts come first";
        }
      }
      if (sizes[a] > least) {
        const double share = static_cast<double>(rest) * static_cast<double>(weights[a]) / static_cast<double>(total);
        // Parts whose share is the least or little more may be among those that are not counted here.
        ASSERT_LT(std::abs(static_cast<double>(sizes[a]) - share), 1.0 + static_cast<double>(parts));
      }
    }
  }
}

TEST(RankWeightsTest, EqualWeightsCutEvenly) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 500; ++i) {
    const int64_t parts = draw.Between(1, 9), n = draw.Between(0, 100);
    EXPECT_EQ(ProportionalSizes(n, Numbers(parts, draw.Between(1, 1000)), n >= parts ? 1 : 0), BalancedSizes(n, parts));
  }
  const Mesh mesh = Mesh::Create({2, 2})->WithWeights(Weights({7, 7, 7, 7}));
  EXPECT_EQ(mesh.weights(), nullptr);
}

TEST(RankWeightsTest, ALayoutCutsByTheSumsOfItsRanks) {
  // Rows weigh 1 + 2 and 3 + 3, columns 1 + 3 and 2 + 3.
  const Mesh mesh = Mesh::Create({2, 2})->WithWeights(Weights({1, 2, 3, 3}));
  const Layout grid = *Layout::Create({9, 18}, DType::kFloat32, mesh, {Placement::Split(0), Placement::Split(1)});
  EXPECT_EQ(grid.Boundaries(0), (Numbers{0, 3, 9}));
  EXPECT_EQ(grid.Boundaries(1), (Numbers{0, 8, 18}));
  const Layout named =
      *Layout::Create({9, 18}, DType::kFloat32, mesh, {Placement::Split(0), Placement::Split(1)}, {{1, {9, 9}}});
  EXPECT_EQ(named.Boundaries(1), (Numbers{0, 9, 18})) << "sizes that are given stay";
  // Both axes cut one dim: over the outer axis first.
  const Layout both = *Layout::Create({18}, DType::kFloat32, mesh, {Placement::Split(0), Placement::Split(0)});
  EXPECT_EQ(both.Boundaries(0), (Numbers{0, 2, 6, 12, 18}));
  EXPECT_EQ(both.WithShape({9})->Boundaries(0), (Numbers{0, 1, 3, 6, 9}));
  // By the numbers of the ranks, wherever they stand.
  const Mesh turned = Mesh::Create({2}, {3, 0})->WithWeights(Weights({1, 2, 3, 3}));
  EXPECT_EQ(Layout::Create({8}, DType::kFloat32, turned, {Placement::Split(0)})->Boundaries(0), (Numbers{0, 6, 8}));
}

TEST(RankWeightsTest, NoPartIsEmptyWhereTheEvenCutHasNoEmptyOne) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 2000; ++i) {
    const Mesh even = RandomMesh(draw);
    std::vector<double> weights;
    for (int rank = 0; rank < 9; ++rank) weights.push_back(static_cast<double>(draw.Between(1, 1000)));
    const Mesh mesh = even.WithWeights(Weights(weights));
    const std::vector<Placement> placements(mesh.axes(), Placement::Split(0));
    const int64_t n = draw.Between(0, 40);
    const Layout a = *Layout::Create({n}, DType::kFloat32, even, placements);
    const Layout b = *Layout::Create({n}, DType::kFloat32, mesh, placements);
    ASSERT_EQ(a.Parts(0), b.Parts(0));
    if (n < a.Parts(0)) continue;
    for (int64_t part = 0; part < b.Parts(0); ++part) {
      ASSERT_LT(b.Boundaries(0)[part], b.Boundaries(0)[part + 1]) << b.ToString();
    }
  }
}

}  // namespace
}  // namespace adjoin
