// The steps of every collective on one to nine simulated ranks: the result, the bytes, the slots, and no deadlock.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/simulated_ranks.h"

namespace adjoin {
namespace {

using Kind = CollectiveGroup::Kind;

CollectiveGroup GroupOf(Kind kind, int size, int64_t elements, bool root_takes_part = true) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 100);
  return {kind, ranks, elements, root_takes_part};
}

// Around each algorithm's limits for complex128 (16 bytes): from 1 KiB on, segments of 128 KiB and 256 KiB.
const std::vector<int64_t>& ElementCounts() {
  static const auto* counts =
      new std::vector<int64_t>{0, 1, 2, 7, 511, 512, 513, 8191, 8192, 8193, 30000, 16384 * 3 + 5, 16384 * 9 + 1};
  return *counts;
}

void CheckGroup(const CollectiveGroup& group, Draw& draw) {
  SCOPED_TRACE(testing::Message() << AlgorithmOf(group, DType::kComplex128) << " ranks " << group.ranks.size()
                                  << " elements " << group.elements << " root " << group.root_takes_part);
  std::vector<std::vector<int64_t>> buffers;
  std::vector<int64_t> sum(group.elements);
  for (size_t p = 0; p < group.ranks.size(); ++p) {
    const bool empty_root = group.kind == Kind::kSumReduce && p == 0 && !group.root_takes_part;
    buffers.push_back(empty_root ? std::vector<int64_t>(group.elements) : draw.Integers(group.elements, -1000, 1000));
    for (int64_t i = 0; i < group.elements; ++i) sum[i] += buffers[p][i];
  }
  const std::vector<int64_t> root = buffers[0];
  std::string error;
  const auto members = RunSteps(group, DType::kComplex128, buffers, &error);
  ASSERT_EQ(error, "");
  int64_t sent = 0;
  for (size_t p = 0; p < members.size(); ++p) {
    sent += members[p].elements_sent;
    for (const CollectiveStep& step : members[p].steps) ASSERT_TRUE(step.send_to >= 0 || step.recv_from >= 0);
    if (group.kind == Kind::kBroadcast) {
      ASSERT_EQ(members[p].buffer, root);
    }
    if (group.kind == Kind::kAllSumReduce || (group.kind == Kind::kSumReduce && p == 0)) {
      ASSERT_EQ(members[p].buffer, sum);
    }
  }
  const int64_t others = static_cast<int64_t>(group.ranks.size()) - 1;
  const std::string algorithm = AlgorithmOf(group, DType::kComplex128);
  if (algorithm != "recursive doubling") {
    EXPECT_EQ(sent, (algorithm == "pairwise exchange" ? 2 : 1) * others * group.elements);
  }
}

TEST(CollectiveStepsTest, EqualTheDefinition) {
  Draw draw = Draw::FromEnvironment();
  for (int size = 1; size <= 9; ++size) {
    for (int64_t elements : ElementCounts()) {
      if (HasFatalFailure()) return;
      CheckGroup(GroupOf(Kind::kBroadcast, size, elements), draw);
      CheckGroup(GroupOf(Kind::kBroadcast, size, elements, false), draw);
      CheckGroup(GroupOf(Kind::kSumReduce, size, elements), draw);
      CheckGroup(GroupOf(Kind::kSumReduce, size, elements, false), draw);
      CheckGroup(GroupOf(Kind::kAllSumReduce, size, elements), draw);
    }
  }
}

TEST(CollectiveStepsTest, AllSumReduceGivesEveryRankTheSameBits) {
  Draw draw = Draw::FromEnvironment();
  for (int size = 2; size <= 9; ++size) {
    for (int64_t elements : {1, 2048, 2049, 200000}) {
      std::vector<std::vector<float>> buffers(size);
      for (std::vector<float>& buffer : buffers) {
        for (int64_t i = 0; i < elements; ++i) {
          buffer.push_back(std::ldexp(static_cast<float>(draw.Between(-1000003, 1000003)), draw.Between(-20, 20)));
        }
      }
      std::string error;
      const auto members =
          RunSteps(GroupOf(Kind::kAllSumReduce, size, elements), DType::kFloat32, std::move(buffers), &error);
      ASSERT_EQ(error, "");
      for (const auto& member : members) {
        EXPECT_EQ(std::memcmp(member.buffer.data(), members[0].buffer.data(), elements * sizeof(float)), 0);
      }
    }
  }
}

TEST(CollectiveStepsTest, ChoosesByBytes) {
  const auto all = [](int ranks, int64_t bytes) { return GroupOf(Kind::kAllSumReduce, ranks, bytes); };
  EXPECT_TRUE(PlainListIsCheaper(all(4, 8 << 10), DType::kUInt8));
  EXPECT_FALSE(PlainListIsCheaper(all(4, 64 << 10), DType::kUInt8));
  EXPECT_FALSE(PlainListIsCheaper(all(4, 8 << 10), DType::kFloat64));  // elements, not bytes
  EXPECT_EQ(AlgorithmOf(all(4, 64 << 10), DType::kUInt8), "pairwise exchange");
  EXPECT_EQ(AlgorithmOf(all(64, 1 << 10), DType::kUInt8), "recursive doubling");
  EXPECT_EQ(AlgorithmOf(all(64, 1 << 20), DType::kUInt8), "pairwise exchange");
  EXPECT_EQ(AlgorithmOf(GroupOf(Kind::kSumReduce, 4, 1025), DType::kFloat64), "binomial tree");
  for (Kind kind : {Kind::kBroadcast, Kind::kSumReduce}) {
    EXPECT_TRUE(PlainListIsCheaper(GroupOf(kind, 4, 1 << 10), DType::kUInt8));
    EXPECT_FALSE(PlainListIsCheaper(GroupOf(kind, 4, 1 << 20), DType::kUInt8));
    EXPECT_FALSE(PlainListIsCheaper(GroupOf(kind, 100, 1 << 10), DType::kUInt8));
  }
}

// The segments grow where a fixed length would need more slots than a tag has.
TEST(CollectiveStepsTest, KeepHugeTensorsWithinTheSlots) {
  const int64_t elements = (int64_t{1} << 40) + 12345;
  for (Kind kind : {Kind::kBroadcast, Kind::kSumReduce, Kind::kAllSumReduce}) {
    const CollectiveGroup group = GroupOf(kind, 9, elements);
    int64_t sent = 0;
    for (int p = 0; p < 9; ++p) {
      for (const CollectiveStep& step : StepsOf(group, p, DType::kFloat64)) {
        ASSERT_GE(step.slot, 0);
        ASSERT_LT(step.slot, 4096);
        sent += step.send.size();
      }
    }
    EXPECT_EQ(sent, (kind == Kind::kAllSumReduce ? 16 : 8) * elements);
  }
}

// The sums without the steps are the sums over the steps.
TEST(CollectiveStepsTest, AreCountedWithoutThem) {
  for (Kind kind : {Kind::kBroadcast, Kind::kSumReduce, Kind::kAllSumReduce}) {
    for (int size = 1; size <= 40; ++size) {
      for (int64_t elements : {0, 1, 7, 39, 2048, 20000, 300001, 9000000}) {
        const CollectiveGroup group = GroupOf(kind, size, elements);
        for (int p = 0; p < size; ++p) {
          StepTotals sums;
          for (const CollectiveStep& step : StepsOf(group, p, DType::kFloat32)) {
            sums.elements_sent += step.send.size();
            sums.elements_received += step.recv.size();
            sums.messages_sent += step.send_to >= 0 ? 1 : 0;
            sums.messages_received += step.recv_from >= 0 ? 1 : 0;
            if (step.add) sums.elements_added += step.recv.size();
          }
          const StepTotals totals = TotalsOf(group, p, DType::kFloat32);
          const std::string what = absl::StrCat(size, " ranks, ", elements, " elements, position ", p);
          EXPECT_EQ(totals.elements_sent, sums.elements_sent) << what;
          EXPECT_EQ(totals.elements_received, sums.elements_received) << what;
          EXPECT_EQ(totals.messages_sent, sums.messages_sent) << what;
          EXPECT_EQ(totals.messages_received, sums.messages_received) << what;
          EXPECT_EQ(totals.elements_added, sums.elements_added) << what;
        }
      }
    }
  }
}

// Both kinds of tree can pass messages between the same two ranks in one execution.
TEST(CollectiveStepsTest, BroadcastAndSumReduceUseDifferentSlots) {
  for (int p = 0; p < 9; ++p) {
    for (const CollectiveStep& step : StepsOf(GroupOf(Kind::kBroadcast, 9, 1 << 30), p, DType::kUInt8)) {
      EXPECT_LT(step.slot, 2048);
    }
    for (const CollectiveStep& step : StepsOf(GroupOf(Kind::kSumReduce, 9, 1 << 30), p, DType::kUInt8)) {
      EXPECT_GE(step.slot, 2048);
    }
  }
}

}  // namespace
}  // namespace adjoin
