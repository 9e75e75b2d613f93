// What is counted once for many pairs costs what each pair costs that is counted by itself.
#include "planner/auto/movement_costs.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "planner/auto/pairwise_minimum.h"
#include "planner/time/cost_model.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/traffic.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr double kChange = 1e-6;

// Cuts of four dims, even and uneven ones, with copies and sums, on meshes of some or all of eight ranks.
Layout AnyLayout(Draw& draw, const std::vector<int64_t>& shape) {
  static const std::vector<std::vector<int64_t>> meshes = {{8}, {2, 4}, {4, 2}, {2, 2, 2}, {4}, {2}, {1}};
  const Mesh mesh = *Mesh::Create(meshes[draw.Between(0, static_cast<int64_t>(meshes.size()) - 1)]);
  std::vector<Placement> placements;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const int64_t kind = draw.Between(0, 9);
    placements.push_back(kind == 0   ? Placement::Broadcast()
                         : kind == 1 ? Placement::Partial()
                                     : Placement::Split(static_cast<int>(draw.Between(0, 3))));
  }
  return *Layout::Create(shape, DType::kFloat32, mesh, placements);
}

struct Case {
  Layout from, to;
  std::map<int, Reading> readings;
  std::optional<Layout> read;
};

// A movement between layouts, or a halo exchange of some dims.
Case AnyCase(Draw& draw, const std::vector<int64_t>& shape) {
  Case drawn{AnyLayout(draw, shape), AnyLayout(draw, shape), {}, std::nullopt};
  if (draw.OneIn(2)) return drawn;
  drawn.read = draw.OneIn(3) ? drawn.from : AnyLayout(draw, shape);
  std::vector<int64_t> outputs = shape;
  outputs[1] = draw.Between(1, 40);
  for (int dim = 2; dim < 4; ++dim) {
    if (draw.OneIn(4)) continue;
    const Window window = *Window::Create({.kernel = draw.Between(1, 3), .pad_lo = 1, .pad_hi = 1});
    drawn.readings.emplace(dim, window);
    outputs[dim] = *Reading(window).OutputSize(shape[dim]);
  }
  if (drawn.readings.empty()) {
    drawn.read.reset();
    return drawn;
  }
  drawn.to = *drawn.read->WithShape(outputs);
  return drawn;
}

MovementCosts::Pair ByItself(const Case& drawn) {
  const auto traffic = TwoWayTrafficOf({drawn.from, drawn.to, drawn.readings, drawn.read, {}});
  if (!traffic.ok()) return {kImpossible, kImpossible, false};
  if (traffic->is_identity) return {0, 0, true};
  const bool is_halo = !drawn.readings.empty() && *drawn.read == drawn.from;
  return {CostModel::Default().OfMovement(traffic->forward.busiest) + (is_halo ? 0 : kChange),
          CostModel::Default().OfMovement(traffic->adjoint.busiest), false};
}

TEST(MovementCostsTest, PairsThatShareACountCostWhatEachCostsByItself) {
  const uint64_t seed = TestSeed(1);
  int moved = 0;
  for (uint64_t i = 0; i < 40 && !HasFailure(); ++i) {
    Draw draw(seed + i);
    // Few extents of each dim, so that pairs of one kind come again and again in others.
    MovementCosts costs(CostModel::Default(), kChange);
    for (int k = 0; k < 150; ++k) {
      const std::vector<int64_t> shape = {8 * draw.Between(1, 3),
                                          draw.OneIn(3) ? draw.Between(1, 40) : 16 << draw.Between(0, 9),
                                          draw.OneIn(2) ? 8 : 14, draw.OneIn(2) ? 16 : 10};
      const Case drawn = AnyCase(draw, shape);
      const int from = costs.Layouts().Add(drawn.from);
      const int read = drawn.readings.empty() ? costs.AddRead(costs.Layouts().Add(drawn.to))
                                              : costs.AddRead({&drawn.to, &drawn.readings, &*drawn.read});
      const MovementCosts::Pair found = costs.Seconds(from, read), right = ByItself(drawn);
      EXPECT_EQ(found.forward, right.forward) << "ADJOIN_TEST_SEED=" << seed + i << " case " << k << " from "
                                              << drawn.from.ToString() << " to " << drawn.to.ToString();
      EXPECT_EQ(found.adjoint, right.adjoint) << "ADJOIN_TEST_SEED=" << seed + i << " case " << k;
      EXPECT_EQ(found.identity, right.identity) << "ADJOIN_TEST_SEED=" << seed + i << " case " << k;
      moved += right.forward > kChange && right.forward < kImpossible ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 1000);
}

TEST(MovementCostsTest, AReadOfALayoutIsOneHoweverItIsNamed) {
  MovementCosts costs(CostModel::Default(), kChange);
  const Layout x = *Layout::Partition({8, 4}, DType::kFloat32, {2, 1}, {0, 1});
  const int number = costs.Layouts().Add(x);
  const int read = costs.AddRead(number);
  EXPECT_EQ(costs.AddRead({.to = &x}), read);
  EXPECT_TRUE(costs.Seconds(number, read).identity);
  EXPECT_EQ(&costs.Read(read).Lies(), &costs.Layouts()[number]);
}

}  // namespace
}  // namespace adjoin
