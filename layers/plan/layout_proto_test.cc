#include "layers/plan/layout_proto.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

TEST(LayoutProtoTest, RandomLayoutsSurvive) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
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

TEST(LayoutProtoTest, WindowsSurvive) {
  const Window window = Window::Create({5, 2, 3, 1, 2, Boundary::kZeros, true}).value();
  const auto back = WindowFromProto(ToProto(3, window));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToString(), window.ToString());
  EXPECT_EQ(ToProto(3, window).dim(), 3u);
}

TEST(LayoutProtoTest, OperatorBecomesHaloOrRedistribution) {
  const Layout x = Layout::Partition({2, 1, 11}, DType::kFloat32, {1, 1, 3}, {0, 1, 2}).value();
  const std::map<int, Window> windows = {{2, Window::Create({5, 1, 1, 2, 2}).value()}};
  OperatorPlan op;
  *op.mutable_from() = ToProto(x);
  *op.mutable_to() = ToProto(x);
  auto ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->from, Distribution::Of(x));
  EXPECT_EQ(ends->to, Distribution::Of(x));
  *op.add_window() = ToProto(2, windows.at(2));
  ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->to, Distribution::Windows(x, windows, x).value());
  *op.add_window() = op.window(0);
  EXPECT_FALSE(DistributionsOf(op).ok());
}

TEST(LayoutProtoTest, InterpolationsSurviveAndMakeAHalo) {
  const Layout x = Layout::Partition({2, 1, 10}, DType::kFloat64, {1, 1, 3}, {0, 1, 2}).value();
  const Layout y = Layout::Partition({2, 1, 23}, DType::kFloat64, {1, 1, 3}, {0, 1, 2}).value();
  const Interpolation made =
      Interpolation::Create({Interpolation::Mode::kLinear, 10, 23, true, 2.3, DType::kFloat64, true}).value();
  const auto back = InterpolationFromProto(ToProto(2, made), x, y);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToString(), made.ToString());
  EXPECT_EQ(back->options().dtype, DType::kFloat64);
  EXPECT_TRUE(back->options().channels_last);

  OperatorPlan op;
  *op.mutable_from() = ToProto(x);
  *op.mutable_to() = ToProto(y);
  *op.add_interpolation() = ToProto(2, made);
  const auto ends = DistributionsOf(op);
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_EQ(ends->from, Distribution::Of(x));
  EXPECT_EQ(ends->to, InterpolatedReads(x, {{2, made}}, y).value());
  OperatorPlan bad = op;
  *bad.add_interpolation() = op.interpolation(0);
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad = op;
  *bad.add_window() = ToProto(2, Window::Create({5, 1, 1, 2, 2}).value());
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad = op;
  bad.mutable_interpolation(0)->set_dim(3);
  EXPECT_FALSE(DistributionsOf(bad).ok());
  bad.mutable_interpolation(0)->set_dim(2);
  bad.mutable_interpolation(0)->set_mode("bilinear");
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
