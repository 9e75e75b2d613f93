#include "primitives/geometry/distribution.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;

Window WindowOf(int64_t kernel, int64_t pad, Boundary boundary) {
  Window::Options options;
  options.kernel = kernel;
  options.pad_lo = options.pad_hi = pad;
  options.boundary = boundary;
  return *Window::Create(options);
}

TEST(DistributionTest, HoldsThePartsOfALayout) {
  const Layout x = *Layout::Partition({4, 6}, DType::kFloat32, {1, 4}, {0, 1, 2, 3}, {{1, {3, 0, 1, 2}}});
  const Distribution d = Distribution::Of(x);
  EXPECT_EQ(d.View(0), (LocalView{{4, 3}, {{Box({{0, 4}, {0, 3}}), {0, 0}}}}));
  EXPECT_EQ(d.View(1), (LocalView{{4, 0}, {}}));
  EXPECT_EQ(d.View(3), (LocalView{{4, 2}, {{Box({{0, 4}, {4, 6}}), {0, 0}}}}));
  EXPECT_EQ(d.View(9), (LocalView{{0, 0}, {}}));
  EXPECT_EQ(d.global_shape(), (Numbers{4, 6}));
}

TEST(DistributionTest, GivesAScalarAPieceInsideTheMeshOnly) {
  const Distribution d = Distribution::Of(Layout::Owner({}, DType::kFloat32, 1));
  EXPECT_EQ(d.View(1).pieces.size(), 1u);
  EXPECT_TRUE(d.View(0).pieces.empty());
}

TEST(DistributionTest, CircularWindowsHaveSeveralPieces) {
  const Layout x = *Layout::Partition({2, 6}, DType::kFloat32, {1, 2}, {0, 1});
  const Distribution d = *Distribution::Reads(x, {{1, WindowOf(3, 1, Boundary::kCircular)}}, x);
  EXPECT_EQ(d.View(0), (LocalView{{2, 5}, {{Box({{0, 2}, {5, 6}}), {0, 0}}, {Box({{0, 2}, {0, 4}}), {0, 1}}}}));
  EXPECT_EQ(d.View(1), (LocalView{{2, 5}, {{Box({{0, 2}, {2, 6}}), {0, 0}}, {Box({{0, 2}, {0, 1}}), {0, 4}}}}));
  const Distribution zeros = *Distribution::Reads(x, {{1, WindowOf(3, 1, Boundary::kZeros)}}, x);
  EXPECT_EQ(zeros.View(0), (LocalView{{2, 5}, {{Box({{0, 2}, {0, 4}}), {0, 1}}}}));
}

TEST(DistributionTest, DualExchangesBroadcastAndPartial) {
  const Mesh mesh = *Mesh::Create({2, 2, 1});
  const Layout x =
      *Layout::Create({4}, DType::kFloat32, mesh, {Placement::Split(0), Placement::Broadcast(), Placement::Partial()});
  EXPECT_EQ(*Distribution::Of(x).Dual(), Distribution::Of(*x.Dual()));
  const Layout max = *Layout::Create({4}, DType::kFloat32, *Mesh::Create({2}), {Placement::Partial(ReduceOp::kMax)});
  EXPECT_EQ(Distribution::Of(max).Dual().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DistributionTest, RefusesWindowsThatDoNotFit) {
  const Layout x = *Layout::Partition({2, 6}, DType::kFloat32, {1, 2}, {0, 1});
  const Window window = WindowOf(3, 0, Boundary::kZeros);
  EXPECT_TRUE(Distribution::Reads(x, {{1, window}}, *x.WithShape({2, 4})).ok());
  const Layout other_ranks = *Layout::Partition({2, 4}, DType::kFloat32, {1, 2}, {1, 0});
  const Layout other_placements =
      *Layout::Create({2, 4}, DType::kFloat32, x.mesh(), {Placement::Split(1), Placement::Split(0)});
  const absl::Status bad[] = {
      Distribution::Reads(x, {{1, window}}, x).status(),
      Distribution::Reads(x, {{2, window}}, x).status(),
      Distribution::Reads(x, {{1, window}}, other_ranks).status(),
      Distribution::Reads(x, {{1, window}}, other_placements).status(),
      Distribution::Reads(x, {{1, WindowOf(9, 0, Boundary::kZeros)}}, x).status(),
  };
  for (const absl::Status& status : bad) EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(DistributionTest, FromViewsHoldsAnyBoxes) {
  const Mesh mesh = *Mesh::Create({2, 2});
  const std::vector<Placement> placements = {Placement::Split(0), Placement::Broadcast()};
  // Rows 4, 0 and 1 of five on the first two ranks, row 1 on the others.
  const LocalView wrapped = ProductView({{3, {{{4, 5}, 0}, {{0, 2}, 1}}}, {2, {{{0, 2}, 0}}}});
  const LocalView one = ProductView({{1, {{{1, 2}, 0}}}, {2, {{{0, 2}, 0}}}});
  const auto d = Distribution::FromViews({5, 2}, DType::kFloat32, mesh, placements, {wrapped, wrapped, one, one});
  ASSERT_TRUE(d.ok()) << d.status();
  EXPECT_EQ(d->View(1), (LocalView{{3, 2}, {{Box({{4, 5}, {0, 2}}), {0, 0}}, {Box({{0, 2}, {0, 2}}), {1, 0}}}}));
  EXPECT_EQ(d->View(0), wrapped);
  EXPECT_EQ(d->View(3), one);
  EXPECT_EQ(d->View(7), (LocalView{{0, 0}, {}}));
  const Layout x = *Layout::Partition({4, 6}, DType::kFloat32, {1, 2}, {0, 1});
  const Distribution of = Distribution::Of(x);
  EXPECT_EQ(*Distribution::FromViews(x.shape(), x.dtype(), x.mesh(), x.placements(), {of.View(0), of.View(1)}), of);
}

TEST(DistributionTest, FromViewsRefusesWrongPieces) {
  const auto with = [](std::vector<LocalView> views, Placement placement = Placement::Split(0)) {
    return Distribution::FromViews({5}, DType::kFloat32, *Mesh::Create({2}), {placement}, std::move(views)).status();
  };
  const LocalView good{{2}, {{Box({{3, 5}}), {0}}}};
  EXPECT_TRUE(with({good, good}).ok());
  EXPECT_TRUE(with({good, good}, Placement::Partial()).ok());
  const absl::Status bad[] = {
      with({good}),
      with({good, good}, Placement::Split(1)),
      with({good, {{2, 1}, {}}}),
      with({good, {{2}, {{Box({{3, 5}, {0, 1}}), {0, 0}}}}}),
      with({good, {{2}, {{Box({{4, 6}}), {0}}}}}),
      with({good, {{2}, {{Box({{3, 5}}), {1}}}}}),
      with({good, {{2}, {{Box({{3, 3}}), {0}}}}}),
      with({good, {{2}, {{Box({{3, 5}}), {0}}, {Box({{0, 1}}), {1}}}}}),
      with({good, {{2}, {{Box({{1, 3}}), {0}}}}}, Placement::Broadcast()),
  };
  for (const absl::Status& status : bad) EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace adjoin
