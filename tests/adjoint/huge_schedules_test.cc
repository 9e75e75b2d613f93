// Schedules of tensors of more than 2^31 bytes and more than 2^31 elements: offsets, sizes, bytes and steps in 64 bits.
// Nothing is allocated; large_tensor_test.cc moves such tensors.
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

using Kind = CollectiveGroup::Kind;

constexpr int64_t kOdd = (int64_t{1} << 33) + 12345;  // elements

std::vector<MovementPlan> PlansOf(const Distribution& from, const Distribution& to, int ranks) {
  std::vector<MovementPlan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(*MovementPlan::Build(from, to, rank));
  return plans;
}

int64_t AllBytes(const std::vector<MovementPlan>& plans) {
  int64_t bytes = 0;
  for (const MovementPlan& plan : plans) {
    EXPECT_GE(plan.BytesSent(), 0);
    bytes += plan.BytesSent();
  }
  return bytes;
}

// Every region is within its local tensor, sizes add up, and the receiver gets the cells that were sent.
void ExpectConsistent(const std::vector<MovementPlan>& plans, int64_t moved) {
  std::map<std::pair<int, int>, int64_t> sent;
  std::map<std::pair<int, int>, int64_t> received;
  const auto sum = [](const Transfer& transfer, const std::vector<int64_t>& shape) {
    int64_t elements = 0;
    for (const Region& region : transfer.regions) {
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        EXPECT_GE(region.at[dim], 0);
        EXPECT_GT(region.size[dim], 0);
        EXPECT_LE(region.at[dim] + region.size[dim], shape[dim]);
      }
      elements += region.Volume();
    }
    EXPECT_EQ(elements, transfer.elements);
    return elements;
  };
  int64_t all = 0;
  for (const MovementPlan& plan : plans) {
    const ExchangeSchedule& direct = plan.direct();
    for (const Transfer& t : direct.sends()) sent[{plan.rank(), t.peer}] = sum(t, direct.from_shape());
    for (const Transfer& t : direct.recvs()) {
      received[{t.peer, plan.rank()}] = sum(t, direct.to_shape());
      all += t.elements;
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(all, moved);
}

TEST(HugeSchedulesTest, PartsOfUnevenCuts) {
  const int64_t n = (int64_t{1} << 40) + 7;
  const Layout even = *Layout::Partition({n, 3}, DType::kFloat32, {5, 1}, {0, 1, 2, 3, 4});
  EXPECT_EQ(even.BoxOf(0)[0], (Interval{0, n / 5 + 1}));
  EXPECT_EQ(even.BoxOf(4)[0], (Interval{n - n / 5, n}));
  EXPECT_EQ(even.BoxOf(4).Volume(), n / 5 * 3);
  const Layout uneven =
      *Layout::Partition({n, 3}, DType::kFloat32, {5, 1}, {0, 1, 2, 3, 4}, {{0, {1, n - 3, 0, 1, 1}}});
  EXPECT_EQ(uneven.BoxOf(1).Volume(), (n - 3) * 3);
  EXPECT_EQ(uneven.BoxOf(3)[0], (Interval{n - 2, n - 1}));
}

TEST(HugeSchedulesTest, Repartition) {
  const std::vector<int64_t> shape = {(int64_t{1} << 20) + 3, (int64_t{1} << 21) + 1, 2};  // 2^42 and more
  const Layout rows = *Layout::Partition(shape, DType::kComplex128, {8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Layout blocks = *Layout::Partition(shape, DType::kComplex128, {2, 2, 2}, {7, 5, 3, 1, 0, 2, 4, 6});
  const auto plans = PlansOf(Distribution::Of(rows), Distribution::Of(blocks), 8);
  ExpectConsistent(plans, VolumeOf(shape));
  int64_t kept = 0;
  for (const MovementPlan& plan : plans) {
    for (const Transfer& t : plan.direct().recvs()) kept += t.peer == plan.rank() ? t.elements : 0;
  }
  EXPECT_EQ(AllBytes(plans), (VolumeOf(shape) - kept) * 16);
  std::vector<MovementPlan> back;
  for (const MovementPlan& plan : plans) back.push_back(plan.Reversed());
  ExpectConsistent(back, VolumeOf(shape));
  EXPECT_EQ(AllBytes(back), AllBytes(plans));
}

TEST(HugeSchedulesTest, Halo) {
  const int64_t n = int64_t{1} << 34;
  const Layout x = *Layout::Partition({2, n}, DType::kFloat32, {1, 4}, {0, 1, 2, 3});
  const Window window = *Window::Create(
      {.kernel = 5, .dilation = 1 << 20, .pad_lo = 2 << 20, .pad_hi = 2 << 20, .boundary = Boundary::kCircular});
  ASSERT_EQ(*window.OutputSize(n), n);
  const Distribution to = *Distribution::Reads(x, {{1, window}}, x);
  const int64_t padded = n / 4 + (4 << 20);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(to.View(rank).shape, (std::vector<int64_t>{2, padded}));
  const auto plans = PlansOf(Distribution::Of(x), to, 4);
  ExpectConsistent(plans, 4 * 2 * padded);
  EXPECT_EQ(AllBytes(plans), int64_t{4} * 2 * (4 << 20) * 4);
}

TEST(HugeSchedulesTest, BytesOfCollectives) {
  for (int ranks : {2, 3, 5, 8}) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    for (DType dtype : {DType::kUInt8, DType::kBFloat16, DType::kComplex128}) {
      const int64_t bytes = kOdd * SizeOf(dtype);
      const Layout copies = *Layout::Replicated({kOdd}, dtype, all);
      const Layout owner = Layout::Owner({kOdd}, dtype, ranks - 1);
      const auto bytes_of = [&](const Layout& from, const Layout& to) {
        return AllBytes(PlansOf(Distribution::Of(from), Distribution::Of(to), ranks));
      };
      // Every rank but one must hear or be heard of every element; an all-sum-reduce does both, at least.
      EXPECT_EQ(bytes_of(owner, copies), (ranks - 1) * bytes);
      EXPECT_EQ(bytes_of(*copies.Dual(), owner), (ranks - 1) * bytes);
      EXPECT_EQ(bytes_of(*copies.Dual(), copies), 2 * (ranks - 1) * bytes);
    }
  }
}

// Steps of all positions: intervals within the tensor, messages that meet, one slot never twice at a time.
TEST(HugeSchedulesTest, StepsOfCollectives) {
  for (Kind kind : {Kind::kBroadcast, Kind::kSumReduce, Kind::kAllSumReduce}) {
    for (int ranks : {2, 5, 8}) {
      CollectiveGroup group{kind, {}, kOdd, true};
      for (int rank = 0; rank < ranks; ++rank) group.ranks.push_back(rank);
      std::map<std::tuple<int, int, int>, std::vector<std::pair<int64_t, int64_t>>> sent, received;
      int64_t elements = 0;
      for (int position = 0; position < ranks; ++position) {
        for (const CollectiveStep& step : StepsOf(group, position, DType::kBFloat16)) {
          ASSERT_GE(step.slot, 0);
          ASSERT_LT(step.slot, 4096);
          for (const Interval& interval : {step.send, step.recv}) {
            ASSERT_GE(interval.lo, 0);
            ASSERT_LE(interval.hi, kOdd);
          }
          if (step.send_to >= 0) {
            ASSERT_GT(step.send.size(), 0);
            sent[{position, step.send_to, step.slot}].push_back({step.send.lo, step.send.hi});
            elements += step.send.size();
          }
          if (step.recv_from >= 0) {
            received[{step.recv_from, position, step.slot}].push_back({step.recv.lo, step.recv.hi});
          }
        }
      }
      EXPECT_EQ(sent, received);
      EXPECT_EQ(elements, (kind == Kind::kAllSumReduce ? 2 : 1) * (ranks - 1) * kOdd);
    }
  }
}

}  // namespace
}  // namespace adjoin
