// Compares the counted traffic with the schedules of all ranks, on random layouts, meshes and readings.
#include "primitives/geometry/traffic.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "primitives/geometry/adaptive_window.h"
#include "primitives/geometry/edge_window.h"
#include "primitives/geometry/index_selection.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr int kCases = 10000;

// A reading of a dim of `n` cells, of any kind, and how many outputs it has. Halos reach over several parts.
Reading RandomReading(Draw& draw, int64_t n) {
  while (true) {
    std::optional<Reading> reading;
    switch (draw.Between(0, 6)) {
      case 0: reading = *AdaptiveWindow::Create(draw.Between(1, n + 2)); break;
      case 1: reading = *IndexSelection::Cyclic({draw.Between(0, 2 * n), draw.Between(0, 9), 1, n}); break;
      case 2: reading = *IndexSelection::Of(draw.Integers(draw.Between(0, 5), 0, n - 1)); break;
      case 3: reading = *EdgeWindow::Create({draw.Between(1, 3), draw.Between(0, 3), draw.OneIn(2)}); break;
      default: {
        Window::Options options;
        options.kernel = draw.Between(1, 6);
        options.stride = draw.Between(1, 3);
        options.dilation = draw.Between(1, 2);
        options.pad_lo = draw.Between(0, 4);
        options.pad_hi = draw.Between(0, 4);
        options.boundary = static_cast<Boundary>(draw.Between(0, 3));
        options.ceil_mode = options.boundary == Boundary::kZeros && draw.OneIn(3);
        reading = *Window::Create(options);
      }
    }
    if (reading->OutputSize(n).ok()) return *reading;
  }
}

std::vector<int64_t> RandomShape(Draw& draw) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(0, 4), 0, 9);
  // Collectives pay only for long tensors.
  if (!shape.empty() && draw.OneIn(2)) shape[draw.Between(0, shape.size() - 1)] *= draw.OneIn(2) ? 40000 : 1000;
  return shape;
}

Layout WithReductions(Draw& draw, const Layout& layout) {
  const ReduceOp reduce = static_cast<ReduceOp>(draw.Between(0, 2));
  std::vector<Placement> placements = layout.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Placement::Kind::kPartial) placement.reduce = reduce;
  }
  return *layout.WithPlacements(std::move(placements));
}

// One with more ranks than RandomMesh has.
Mesh AnyMesh(Draw& draw) {
  if (!draw.OneIn(4)) return RandomMesh(draw);
  const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 4), 1, 3);
  std::vector<int> ranks(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<int>()) + draw.Between(0, 2));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (draw.OneIn(2)) std::shuffle(ranks.begin(), ranks.end(), draw.engine());
  ranks.resize(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<int>()));
  return *Mesh::Create(shape, ranks);
}

MovementEnds RandomRedistribution(Draw& draw) {
  const std::vector<int64_t> shape = RandomShape(draw);
  const Layout from = RandomLayout(draw, shape, AnyMesh(draw));
  const Layout to = RandomLayout(draw, shape, RelatedMesh(draw, from.mesh()));
  return {.from = draw.OneIn(4) ? WithReductions(draw, from) : from, .to = draw.OneIn(8) ? from : to};
}

// With readings, of a tensor that may first go to another mesh.
MovementEnds RandomHaloExchange(Draw& draw) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(1, 3), 1, 12);
  if (draw.OneIn(3)) shape[0] *= 1000;
  const Layout from = RandomLayout(draw, shape, AnyMesh(draw));
  MovementEnds ends{.from = from, .to = from};
  Layout read = from;
  if (draw.OneIn(2)) {
    read = RandomLayout(draw, shape, RelatedMesh(draw, from.mesh()));
    ends.read = read;
  }
  std::vector<int64_t> outputs = shape;
  Layout::Cuts cuts;
  for (int dim = 0; dim < from.dims(); ++dim) {
    if (draw.OneIn(4)) continue;
    const Reading reading = RandomReading(draw, shape[dim]);
    ends.readings.emplace(dim, reading);
    outputs[dim] = *reading.OutputSize(shape[dim]);
    if (!read.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(outputs[dim], read.Parts(dim));
  }
  ends.to = *Layout::Create(outputs, read.dtype(), read.mesh(), read.placements(), cuts);
  if (draw.OneIn(3)) {
    for (int dim = 0; dim < from.dims(); ++dim) {
      if (draw.OneIn(2)) continue;
      ends.source.emplace(dim, *EdgeWindow::Create({draw.Between(1, 3), draw.Between(0, 3), draw.OneIn(2)}));
    }
  }
  return ends;
}

std::string Text(const Traffic& traffic) {
  std::string text;
  for (const RankTraffic& r : traffic.rank) {
    for (const int64_t number : {r.bytes_sent, r.bytes_received, r.messages_sent, r.messages_received, r.bytes_kept,
                                 r.bytes_added, int64_t{r.rounds}}) {
      text += std::to_string(number) + " ";
    }
    text += "; ";
  }
  return text + traffic.algorithm;
}

void ExpectExact(const MovementEnds& ends, const std::string& where) {
  const auto from = ends.Source();
  const auto to = ends.Destination();
  ASSERT_TRUE(from.ok() && to.ok()) << from.status() << to.status() << where;
  const auto counted = TwoWayTrafficOf(ends);
  const auto slow = TrafficBySchedules(*from, *to);
  ASSERT_EQ(counted.status(), slow.status()) << where;
  if (!slow.ok()) return;
  std::string what = where + " from " + ends.from.ToString() + " to " + ends.to.ToString();
  if (ends.read.has_value()) what += " read as " + ends.read->ToString();
  for (const auto& reading : ends.readings) what += "; " + std::to_string(reading.first) + reading.second.ToString();
  for (const auto& reading : ends.source) what += "; of " + std::to_string(reading.first) + reading.second.ToString();
  EXPECT_EQ(Text(counted->forward), Text(slow->forward)) << what;
  EXPECT_EQ(Text(counted->adjoint), Text(slow->adjoint)) << what;
  EXPECT_EQ(counted->is_identity, slow->is_identity) << what;
  EXPECT_EQ(counted->forward.total_bytes, slow->forward.total_bytes) << what;
  EXPECT_EQ(counted->adjoint.busiest, slow->adjoint.busiest) << what;
  const auto busiest = BusiestTrafficOf(
      {ends.from, ends.to, ends.readings, ends.read.has_value() ? *ends.read : ends.from, ends.source});
  ASSERT_TRUE(busiest.ok()) << busiest.status() << what;
  EXPECT_EQ(busiest->forward, slow->forward.busiest) << what;
  EXPECT_EQ(busiest->adjoint, slow->adjoint.busiest) << what;
  EXPECT_EQ(busiest->is_identity, slow->is_identity) << what;
  // The schedules name those groups only that pay.
  EXPECT_TRUE(slow->forward.algorithm.empty() || busiest->has_groups) << what;
}

TEST(TrafficTest, OfSchedulesIsWhatTheRanksSend) {
  const uint64_t seed = TestSeed(1);
  for (uint64_t i = 0; i < 500; ++i) {
    Draw draw(seed + i);
    const MovementEnds ends = draw.OneIn(2) ? RandomRedistribution(draw) : RandomHaloExchange(draw);
    const Distribution from = *ends.Source(), to = *ends.Destination();
    const auto traffic = TrafficBySchedules(from, to);
    if (!traffic.ok()) continue;
    int64_t sent = 0, received = 0;
    for (size_t rank = 0; rank < traffic->forward.rank.size(); ++rank) {
      const MovementPlan plan = *MovementPlan::Build(from, to, static_cast<int>(rank));
      EXPECT_EQ(traffic->forward.rank[rank].bytes_sent, plan.BytesSent()) << "ADJOIN_TEST_SEED=" << seed + i;
      EXPECT_EQ(traffic->adjoint.rank[rank].bytes_sent, plan.Reversed().BytesSent()) << "ADJOIN_TEST_SEED=" << seed + i;
      sent += traffic->forward.rank[rank].messages_sent;
      received += traffic->forward.rank[rank].messages_received;
    }
    EXPECT_EQ(sent, received) << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(TrafficTest, OfRedistributionsEqualsTheSchedules) {
  const uint64_t seed = TestSeed(1);
  for (uint64_t i = 0; i < kCases && !HasFailure(); ++i) {
    Draw draw(seed + i);
    ExpectExact(RandomRedistribution(draw), "ADJOIN_TEST_SEED=" + std::to_string(seed + i));
  }
}

TEST(TrafficTest, OfHaloExchangesEqualsTheSchedules) {
  const uint64_t seed = TestSeed(1);
  for (uint64_t i = 0; i < kCases && !HasFailure(); ++i) {
    Draw draw(seed + i);
    ExpectExact(RandomHaloExchange(draw), "ADJOIN_TEST_SEED=" + std::to_string(seed + i));
  }
}

// By the schedules of all ranks it would take minutes.
TEST(TrafficTest, CountsHalosThatManyRanksReadOfCopiesElsewhere) {
  constexpr int kSide = 64;
  std::vector<int> ranks(kSide * kSide);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Mesh rows = *Mesh::Create({kSide, kSide}, ranks);
  const Layout from = *Layout::Create({1, 2, 4 * kSide, 4 * kSide}, DType::kFloat32, rows,
                                      {Placement::Split(2), Placement::Broadcast()});
  const Layout grid = *Layout::Partition(from.shape(), DType::kFloat32, {1, 1, kSide, kSide}, ranks);
  const Reading window = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1});
  const TwoWayTraffic traffic =
      *TwoWayTrafficOf({.from = from, .to = grid, .readings = {{2, window}, {3, window}}, .read = grid});
  int64_t sent = 0, received = 0, messages = 0;
  for (const RankTraffic& rank : traffic.forward.rank) {
    sent += rank.bytes_sent + rank.bytes_kept;
    received += rank.bytes_received + rank.bytes_kept;
    messages += rank.messages_sent - rank.messages_received;
  }
  // 4 x 4 cells of 2 channels, and the halos' that are not of the border.
  const int64_t extent = 6 * kSide - 2;
  EXPECT_EQ(sent, extent * extent * 2 * 4);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(messages, 0);
  EXPECT_GT(traffic.adjoint.busiest.bytes_added, 0);
}

TEST(TrafficTest, CountsTheExampleOfTheHeader) {
  const Layout x = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {4, 1, 1, 1}, {0, 1, 2, 3});
  const Layout y = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {1, 1, 2, 2}, {0, 1, 2, 3});
  const Traffic traffic = *TrafficOf(x, y);
  EXPECT_EQ(traffic.rank[1].bytes_sent, 3 * 16 * 14 * 14 * 4);
  EXPECT_EQ(traffic.busiest.messages_received, 3);
  EXPECT_EQ(traffic.total_bytes, 4 * traffic.rank[1].bytes_sent);
}

TEST(TrafficTest, RefusesRanksThatCannotBe) {
  const Layout far = Layout::Owner({4}, DType::kFloat32, 2147483647);
  const auto traffic = TrafficOf(far, far);
  ASSERT_FALSE(traffic.ok());
  EXPECT_NE(traffic.status().message().find("rank 2147483647"), std::string::npos) << traffic.status();
}

}  // namespace
}  // namespace adjoin
