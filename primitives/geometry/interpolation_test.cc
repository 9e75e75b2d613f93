#include "primitives/geometry/interpolation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/reading.h"

namespace adjoin {
namespace {

using Mode = Interpolation::Mode;
using testing::HasSubstr;

Interpolation Made(Mode mode, int64_t inputs, int64_t outputs, bool align_corners = false, double scale = 0) {
  return Interpolation::Create({mode, inputs, outputs, align_corners, scale, DType::kFloat64}).value();
}

Interpolation RandomInterpolation(Draw& draw, int64_t inputs) {
  while (true) {
    Interpolation::Options o;
    o.mode = static_cast<Mode>(draw.Between(0, 3));
    o.inputs = inputs;
    o.outputs = draw.Between(1, 40);
    o.align_corners = (o.mode == Mode::kLinear || o.mode == Mode::kCubic) && draw.OneIn(2);
    o.dtype = draw.OneIn(2) ? DType::kFloat32 : DType::kFloat64;
    if (draw.OneIn(2)) {
      o.scale = static_cast<double>(draw.Between(1, 400)) / 100;
      const auto outputs = Interpolation::OutputSize(inputs, o.scale);
      if (!outputs.ok()) continue;
      o.outputs = *outputs;
    }
    return Interpolation::Create(o).value();
  }
}

std::string ErrorOf(const Interpolation::Options& options) {
  return std::string(Interpolation::Create(options).status().message());
}

TEST(InterpolationTest, EqualsResultsWorkedByHand) {
  const Interpolation twice = Made(Mode::kLinear, 4, 8);
  EXPECT_EQ(twice.TapOf(0, 0), (Interpolation::Tap{0, 1}));  // -1/4, held at 0
  EXPECT_EQ(twice.TapOf(3, 0), (Interpolation::Tap{1, 0.75}));
  EXPECT_EQ(twice.TapOf(3, 1), (Interpolation::Tap{2, 0.25}));
  EXPECT_EQ(twice.TapOf(7, 1).index, 3);
  EXPECT_EQ(twice.Reads({3, 5}), (Interval{1, 3}));
  EXPECT_EQ(twice.Reads({4, 4}), (Interval{0, 0}));
  EXPECT_EQ(twice.ToString(), "linear 4 to 8");

  const Interpolation corners = Made(Mode::kLinear, 3, 5, /*align_corners=*/true);
  EXPECT_EQ(corners.TapOf(1, 0), (Interpolation::Tap{0, 0.5}));
  EXPECT_EQ(corners.TapOf(4, 0), (Interpolation::Tap{2, 1}));

  const Interpolation nearest = Made(Mode::kNearest, 4, 9, false, 2.3);
  EXPECT_EQ(nearest.Reads({8, 9}), (Interval{3, 4}));  // 8 / 2.3 = 3.48
  EXPECT_EQ(Made(Mode::kNearest, 5, 2).Reads({1, 2}), (Interval{2, 3}));
  // The middles of the outputs are at 1.25 and 3.75.
  EXPECT_EQ(Made(Mode::kNearestExact, 5, 2).Reads({0, 1}), (Interval{1, 2}));
  EXPECT_EQ(Made(Mode::kNearestExact, 5, 2).Reads({1, 2}), (Interval{3, 4}));
  EXPECT_EQ(Made(Mode::kNearestExact, 4, 9, false, 2.3).ToString(), "nearest-exact 4 to 9 scale 2.3");

  // Output 1 of a doubling is at 1/4: cells -1 (the border's, 0), 0, 1, 2.
  const Interpolation cubic = Made(Mode::kCubic, 4, 8);
  EXPECT_EQ(cubic.taps(), 4);
  EXPECT_EQ(cubic.TapOf(1, 0), (Interpolation::Tap{0, -0.10546875}));
  EXPECT_EQ(cubic.TapOf(1, 1), (Interpolation::Tap{0, 0.87890625}));
  EXPECT_EQ(cubic.TapOf(1, 2), (Interpolation::Tap{1, 0.26171875}));
  EXPECT_EQ(cubic.TapOf(1, 3), (Interpolation::Tap{2, -0.03515625}));
}

TEST(InterpolationTest, CopiesWhereExtentsAreEqual) {
  for (Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic, Mode::kNearestExact}) {
    EXPECT_TRUE(Made(mode, 7, 7).copies()) << ToString(mode);
    EXPECT_EQ(Made(mode, 7, 7).Reads({2, 4}), (Interval{2, 4})) << ToString(mode);
    EXPECT_TRUE(Made(mode, 7, 7, false, 1.0).copies()) << ToString(mode);
    EXPECT_EQ(Made(mode, 4, 4, false, 1.2).copies(), mode == Mode::kLinear) << ToString(mode);
  }
}

TEST(InterpolationTest, ReadsIsTheHullOfTheTapsAndWeightsSumToOne) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 4000; ++i) {
    const int64_t n = draw.Between(1, 30);
    const Interpolation made = RandomInterpolation(draw, n);
    if (IsNearest(made.options().mode) && !made.copies()) continue;
    const int64_t m = made.options().outputs;
    SCOPED_TRACE(made.ToString());
    const int64_t lo = draw.Between(0, m), hi = draw.Between(lo, m);
    Interval hull;
    for (int64_t o = lo; o < hi; ++o) {
      double sum = 0, moment = 0;
      bool inside = true;
      for (int tap = 0; tap < made.taps(); ++tap) {
        const auto [index, weight] = made.TapOf(o, tap);
        ASSERT_TRUE(index >= 0 && index < n) << "output " << o << " reads " << index;
        if (tap > 0) {
          const int64_t before = made.TapOf(o, tap - 1).index;
          ASSERT_TRUE(index == before || index == before + 1);
          inside = inside && index > before;
        }
        hull = hull.Hull({index, index + 1});
        sum += weight;
        moment += weight * static_cast<double>(index);
      }
      ASSERT_NEAR(sum, 1, 1e-12);
      // Away from the borders, linear gives a straight line back; cubic with a = -0.75 does not.
      if (!inside || made.taps() != 2) continue;
      const double r = made.options().align_corners
                           ? static_cast<double>(n - 1) / std::max(1.0, static_cast<double>(m - 1))
                       : made.options().scale > 0 ? 1 / made.options().scale
                                                  : static_cast<double>(n) / static_cast<double>(m);
      const double at =
          made.options().align_corners ? r * static_cast<double>(o) : r * (static_cast<double>(o) + 0.5) - 0.5;
      ASSERT_NEAR(moment, std::max(at, 0.0), 1e-5) << "output " << o;
    }
    ASSERT_EQ(made.Reads({lo, hi}), hull) << "outputs " << lo << " to " << hi;
  }
}

// Integers give the exact cell. Rounding makes that one or its neighbour of it, and nothing is rounded where one extent
// is the other times a power of 2.
TEST(InterpolationTest, NearestReadsOneCellOrTwoAtTheExactOne) {
  int pairs = 0, with_two = 0;
  for (const Mode mode : {Mode::kNearest, Mode::kNearestExact}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (int64_t n = 1; n <= 64; ++n) {
        for (int64_t m = 1; m <= 64; ++m) {
          const Interpolation made =
              Interpolation::Create({.mode = mode, .inputs = n, .outputs = m, .dtype = dtype}).value();
          SCOPED_TRACE(made.ToString());
          const bool is_exact = m == n || m == 2 * n || n == 2 * m || m == 4 * n;
          Interval all;
          bool one_each = true;
          for (int64_t o = 0; o < m; ++o) {
            const int64_t cell = mode == Mode::kNearest ? o * n / m : (2 * o + 1) * n / (2 * m);
            const Interval reads = made.Reads({o, o + 1});
            ASSERT_TRUE(reads.lo >= std::max<int64_t>(cell - 1, 0) && reads.hi <= std::min(cell + 2, n))
                << "output " << o;
            ASSERT_TRUE(reads.size() == 1 || (reads.size() == 2 && !is_exact)) << "output " << o;
            ASSERT_TRUE(reads.lo == cell || !is_exact) << "output " << o;
            one_each = one_each && reads.size() == 1;
            all = all.Hull(reads);
          }
          ASSERT_EQ(made.Reads({0, m}), all);
          ++pairs;
          with_two += one_each ? 0 : 1;
        }
      }
    }
  }
  EXPECT_LT(with_two, pairs / 25);
  EXPECT_GT(with_two, 0);
}

// A kernel may take doubled extents for what they are, or follow the scale: output 18 reads cell 9 or 18 / 2.09 = 8.6.
TEST(InterpolationTest, NearestReadsByTheScaleAndByTheExtents) {
  EXPECT_EQ(Made(Mode::kNearest, 10, 20, false, 2.09).Reads({18, 19}), (Interval{8, 10}));
  EXPECT_EQ(Made(Mode::kNearestExact, 10, 20, false, 2.09).Reads({19, 20}), (Interval{9, 10}));
}

TEST(InterpolationTest, ViewsHoldWhatEveryOutputReads) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 500; ++i) {
    const int64_t parts[] = {draw.Between(1, 2), draw.Between(1, 2), draw.Between(1, 3)};
    const std::vector<int64_t> x_shape = {draw.Between(0, 3), draw.Between(1, 9), draw.Between(1, 9)};
    std::map<int, Reading> interpolations;
    std::vector<int64_t> y_shape = x_shape;
    for (int d : {1, 2}) {
      interpolations.emplace(d, RandomInterpolation(draw, x_shape[d]));
      y_shape[d] = interpolations.at(d).As<Interpolation>()->options().outputs;
    }
    const Mesh mesh = Mesh::Create({parts[0], 2, parts[1], parts[2]}).value();
    const std::vector<Placement> placements = {Placement::Split(0), Placement::Broadcast(), Placement::Split(1),
                                               Placement::Split(2)};
    const std::vector<int64_t> batch = draw.Sizes(x_shape[0], parts[0]);
    const auto layout = [&](const std::vector<int64_t>& shape) {
      return Layout::Create(shape, DType::kFloat32, mesh, placements,
                            {{0, batch}, {1, draw.Sizes(shape[1], parts[1])}, {2, draw.Sizes(shape[2], parts[2])}})
          .value();
    };
    const Layout x = layout(x_shape), y = layout(y_shape);
    const auto reads = Distribution::Reads(x, interpolations, y);
    ASSERT_TRUE(reads.ok()) << reads.status();
    for (int rank : mesh.ranks()) {
      const Box outputs = y.BoxOf(rank);
      std::vector<Interval> hull = {outputs[0]};
      for (int d : {1, 2}) hull.push_back(interpolations.at(d).Reads(outputs[d], x_shape[d]));
      const Box box(hull);
      const LocalView& view = reads->View(rank);
      ASSERT_EQ(view.shape, box.Shape());
      ASSERT_EQ(view.pieces.size(), box.empty() ? 0u : 1u);
      if (!box.empty()) {
        ASSERT_EQ(view.pieces[0].box, box);
      }
    }
  }
}

TEST(InterpolationTest, RefusesWrongOptions) {
  EXPECT_THAT(ErrorOf({Mode::kLinear, 0, 4}), HasSubstr("from 0 to 4"));
  EXPECT_THAT(ErrorOf({Mode::kLinear, 4, 0}), HasSubstr("from 4 to 0"));
  EXPECT_THAT(ErrorOf({Mode::kNearest, 4, 8, true}), HasSubstr("leave it out"));
  EXPECT_THAT(ErrorOf({Mode::kNearestExact, 4, 8, true}), HasSubstr("nothing for nearest-exact; leave it out"));
  EXPECT_THAT(ErrorOf({Mode::kNearest, 4, 8, false, 2.5}), HasSubstr("makes 10 outputs of 4 inputs, not 8"));
  for (double scale : {-1.0, 0.0, 0.1, 1e300, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(Interpolation::OutputSize(4, scale).ok()) << scale;
  }
  EXPECT_FALSE(ParseInterpolationMode("bilinear").ok());
  for (Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic, Mode::kNearestExact}) {
    EXPECT_EQ(ParseInterpolationMode(ToString(mode)).value(), mode);
  }

  const Layout x = Layout::Partition({2, 4}, DType::kFloat32, {1, 2}, {0, 1}).value();
  const std::map<int, Reading> twice = {{1, Made(Mode::kLinear, 4, 8)}};
  const auto error = [&](const std::vector<int64_t>& shape, std::vector<int64_t> partition) {
    const Layout y = Layout::Partition(shape, DType::kFloat32, partition, {0, 1}).value();
    return std::string(Distribution::Reads(x, twice, y).status().message());
  };
  EXPECT_EQ(error({2, 8}, {1, 2}), "");
  EXPECT_THAT(error({2, 7}, {1, 2}), HasSubstr("dim 1"));
  EXPECT_THAT(error({2, 8}, {2, 1}), HasSubstr("one mesh"));
}

}  // namespace
}  // namespace adjoin
