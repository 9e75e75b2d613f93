#include "layers/rules/layout_proto.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "primitives/geometry/adaptive_window.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/edge_window.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/transposed_window.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

TEST(LayoutProtoTest, RandomLayoutsSurvive) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) { return from + static_cast<int>(random() % (to - from + 1)); };
    const int dims = pick(1, 4), axes = pick(1, 3);
    std::vector<int64_t> shape, mesh_shape;
    for (int i = 0; i < dims; ++i) shape.push_back(pick(0, 9));
    int64_t ranks = 1;
    for (int i = 0; i < axes; ++i) ranks *= mesh_shape.emplace_back(pick(1, 3));
    std::vector<int> names;
    for (int i = 0; i < ranks; ++i) names.push_back(2 * i + 1);
    std::shuffle(names.begin(), names.end(), random);
    std::vector<Placement> placements;
    std::map<int, int64_t> parts;
    for (int i = 0; i < axes; ++i) {
      const int kind = pick(0, 3);
      placements.push_back(kind == 0   ? Placement::Broadcast()
                           : kind == 1 ? Placement::Partial()
                                       : Placement::Split(pick(0, dims - 1)));
      if (kind > 1) parts.emplace(placements.back().dim, 1).first->second *= mesh_shape[i];
    }
    Layout::Cuts cuts;
    for (const auto& entry : parts) {
      if (pick(0, 1) == 0) continue;
      std::vector<int64_t> sizes(entry.second, 0);
      for (int64_t cell = 0; cell < shape[entry.first]; ++cell) ++sizes[random() % sizes.size()];
      cuts[entry.first] = sizes;
    }
    const Layout layout =
        Layout::Create(shape, DType::kFloat64, *Mesh::Create(mesh_shape, names), placements, cuts).value();
    const auto back = LayoutFromProto(ToProto(layout));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, layout) << layout.ToString();
  }
}

TEST(LayoutProtoTest, BalancedCutsAreNotWritten) {
  const Layout even = Layout::Partition({7, 4}, DType::kFloat32, {2, 1}, {0, 1}).value();
  const Layout same = Layout::Partition({7, 4}, DType::kFloat32, {2, 1}, {0, 1}, {{0, {4, 3}}}).value();
  const Layout other = Layout::Partition({7, 4}, DType::kFloat32, {2, 1}, {0, 1}, {{0, {3, 4}}}).value();
  EXPECT_EQ(ToProto(even).cut_size(), 0);
  EXPECT_EQ(ToProto(even).SerializeAsString(), ToProto(same).SerializeAsString());
  ASSERT_EQ(ToProto(other).cut_size(), 1);
  EXPECT_EQ(ToProto(other).cut(0).size(1), 4);
}

TEST(LayoutProtoTest, ReadingsSurvive) {
  const Layout x = Layout::Partition({2, 1, 1, 10}, DType::kFloat64, {1, 1, 1, 3}, {0, 1, 2}).value();
  const Layout y = Layout::Partition({2, 1, 1, 23}, DType::kFloat64, {1, 1, 1, 3}, {0, 1, 2}).value();
  const std::vector<Reading> readings = {
      Window::Create({5, 2, 3, 1, 2, Boundary::kZeros, true}).value(),
      Window::Create({5, 2, 3, 1, 2, Boundary::kReflect, false}).value(),
      TransposedWindow::Create({5, 3, 2, 4, 1, 2}).value(),
      AdaptiveWindow::Create(23).value(),
      Interpolation::Create({Interpolation::Mode::kLinear, 10, 23, true, 2.3, DType::kFloat64}).value(),
  };
  for (const Reading& reading : readings) {
    EXPECT_EQ(ToProto(3, reading).dim(), 3u);
    const auto back = ReadingFromProto(ToProto(3, reading), x, y);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToString(), reading.ToString());
  }
  const Reading back = ReadingFromProto(ToProto(3, readings.back()), x, y).value();
  EXPECT_EQ(back.As<Interpolation>()->options().dtype, DType::kFloat64);
}

// A plan has thousands of layouts, and each would list all ranks of a large job.
TEST(LayoutProtoTest, LongListsOfRanksAreWrittenAsRuns) {
  std::vector<int> ranks(4096);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Layout all = *Layout::Partition({64, 64, 64}, DType::kFloat32, {16, 16, 16}, ranks);
  EXPECT_EQ(ToProto(all).ranks_size(), 1);
  EXPECT_EQ(ToProto(all).rank_size(), 0);
  EXPECT_LT(ToProto(all).ByteSizeLong(), 100u);
  EXPECT_EQ(*LayoutFromProto(ToProto(all)), all);
  std::rotate(ranks.begin(), ranks.begin() + 1000, ranks.end());
  const Layout rotated = *Layout::Partition({64, 64, 64}, DType::kFloat32, {16, 16, 16}, ranks);
  EXPECT_EQ(ToProto(rotated).ranks_size(), 2);
  EXPECT_EQ(*LayoutFromProto(ToProto(rotated)), rotated);
  std::reverse(ranks.begin(), ranks.end());
  const Layout reversed = *Layout::Partition({64, 64, 64}, DType::kFloat32, {16, 16, 16}, ranks);
  EXPECT_EQ(ToProto(reversed).rank_size(), 4096);
  EXPECT_EQ(*LayoutFromProto(ToProto(reversed)), reversed);

  LayoutPlan bad = ToProto(all);
  bad.mutable_ranks(0)->set_count(4294967295u);
  EXPECT_FALSE(LayoutFromProto(bad).ok());
  bad.mutable_ranks(0)->set_count(4095);
  EXPECT_FALSE(LayoutFromProto(bad).ok()) << "a rank is missing";
  bad.add_ranks()->set_count(1);
  EXPECT_FALSE(LayoutFromProto(bad).ok()) << "rank 0 twice";
  bad = ToProto(all);
  bad.add_ranks()->set_count(1 << 24);
  EXPECT_THAT(std::string(LayoutFromProto(bad).status().message()),
              testing::HasSubstr("a layout with 16781312 ranks on a mesh of 4096"));
}

TEST(LayoutProtoTest, EdgesSurviveAndAreNamedOnceWhereBothSidesAreAlike) {
  const Layout x = Layout::Partition({2, 1, 11}, DType::kFloat32, {1, 1, 3}, {0, 1, 2}).value();
  for (const EdgeWindow::Options& options :
       {EdgeWindow::Options{2, 2, true}, EdgeWindow::Options{2, 2, false}, EdgeWindow::Options{2, 1, true},
        EdgeWindow::Options{3, 0, false}, EdgeWindow::Options{0, 1, true}}) {
    const EdgeWindow edges = EdgeWindow::Create(options).value();
    const ReadingPlan message = ToProto(2, edges);
    EXPECT_EQ(message.edge().has_after(), options.after != options.before) << edges.ToString();
    const auto back = ReadingFromProto(message, x, x);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToString(), edges.ToString());
  }
}

TEST(LayoutProtoTest, OperatorBecomesHaloOrRedistribution) {
  const Layout x = Layout::Partition({2, 1, 11}, DType::kFloat32, {1, 1, 3}, {0, 1, 2}).value();
  const Layout owner = Layout::Owner({2, 1, 11}, DType::kFloat32, 4);
  const std::map<int, Reading> windows = {{2, Window::Create({5, 1, 1, 2, 2}).value()}};
  OperatorPlan op;
  *op.mutable_from() = ToProto(x);
  *op.mutable_to() = ToProto(x);
  auto ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->from, Distribution::Of(x));
  EXPECT_EQ(ends->to, Distribution::Of(x));
  *op.add_reading() = ToProto(2, windows.at(2));
  ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->to, Distribution::Reads(x, windows, x).value());

  *op.mutable_from() = ToProto(owner);
  EXPECT_FALSE(DistributionsOf(op).ok()) << "another mesh than the outputs'";
  *op.mutable_read() = ToProto(x);
  ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->from, Distribution::Of(owner));
  EXPECT_EQ(ends->to, Distribution::Reads(x, windows, x).value());

  OperatorPlan bad = op;
  *bad.add_reading() = op.reading(0);
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad = op;
  bad.mutable_reading(0)->set_dim(3);
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad.mutable_reading(0)->set_dim(2);
  bad.mutable_reading(0)->mutable_window()->set_boundary("mirror");
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad.mutable_reading(0)->mutable_interpolation()->set_mode("bilinear");
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad.mutable_reading(0)->clear_kind();
  EXPECT_FALSE(DistributionsOf(bad).ok());
}

TEST(LayoutProtoTest, NonsenseIsRefused) {
  const LayoutPlan good = ToProto(Layout::Partition({4, 4}, DType::kFloat32, {2, 2}, {0, 1, 2, 3}).value());
  LayoutPlan bad = good;
  bad.set_dtype("float31");
  EXPECT_FALSE(LayoutFromProto(bad).ok());
  bad = good;
  bad.set_placement(0, "S(7)");
  EXPECT_FALSE(LayoutFromProto(bad).ok());
  bad = good;
  bad.set_rank(1, 0);
  EXPECT_FALSE(LayoutFromProto(bad).ok());
}

}  // namespace
}  // namespace adjoin
