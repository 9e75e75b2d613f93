#include "planner/plan/pass_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

std::string Text(const std::vector<Pass>& order) {
  std::string text;
  for (const Pass& pass : order) absl::StrAppend(&text, pass.backward ? "B" : "F", pass.microbatch, " ");
  return text;
}

TEST(PassOrderTest, OneForwardOneBackward) {
  EXPECT_EQ(Text(PassOrder(1, 3)), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(Text(PassOrder(3, 5)), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4 ");
  EXPECT_EQ(Text(PassOrder(4, 2)), "F0 F1 B0 B1 ");
  EXPECT_EQ(Text(PassOrder(2, 0)), "");
}

TEST(PassOrderTest, KeepsOneMoreThanTheStagesAfter) {
  EXPECT_EQ(MicrobatchesInFlight({{1}, {2}, {}}, 8), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(MicrobatchesInFlight({{1}, {2}, {3}, {}}, 2), (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(MicrobatchesInFlight({{}, {}}, 8), (std::vector<int64_t>{1, 1}));
  // A value that skips many stages: they differ by three at most.
  EXPECT_EQ(MicrobatchesInFlight({{1, 5}, {2}, {3}, {4}, {5}, {}}, 8), (std::vector<int64_t>{6, 5, 4, 3, 3, 3}));
}

// The well-known share of 1F1B, (s - 1) / (m + s - 1).
TEST(PassOrderTest, IdleShareOfEqualStages) {
  const StageGraph next = {{1}, {2}, {3}, {}};
  const std::vector<StageWork> work(4, StageWork{1, 2, 1});
  EXPECT_NEAR(IdleShare(next, MicrobatchesInFlight(next, 8), work, 8), 3.0 / 11, 1e-12);
  EXPECT_NEAR(IdleShare(next, {1, 1, 1, 1}, work, 8), 0.75, 1e-12);
  for (const int64_t microbatches : {128, 129, 1000, 1000000000}) {
    const double share = 3.0 / static_cast<double>(microbatches + 3);
    EXPECT_NEAR(IdleShare(next, MicrobatchesInFlight(next, 8), work, microbatches), share, 1e-12);
  }
  EXPECT_EQ(IdleShare(next, {1, 1, 1, 1}, std::vector<StageWork>(4), 8), 0);
}

// Stages that run their orders with sends of which only two are under way, each until the receiver is at it: what the
// file's comment proves. A pass takes all that it gets, then sends, one movement after the other.
class Ranks {
 public:
  Ranks(const StageGraph& next, const std::vector<int64_t>& in_flight, int64_t microbatches) : next_(next) {
    before_.resize(next.size());
    for (std::size_t stage = 0; stage < next.size(); ++stage) {
      for (const int after : next[stage]) before_[after].push_back(static_cast<int>(stage));
      order_.push_back(PassOrder(in_flight[stage], microbatches));
    }
    done_.assign(next.size(), 0);
    for (auto& taken : taken_) taken.assign(next.size(), std::vector<int64_t>(next.size(), 0));
    for (auto& sent : sent_) sent.assign(next.size(), std::vector<int64_t>(next.size(), 0));
  }

  // One random stage does what it can, until none can do anything. Returns whether all are through.
  bool Run(std::mt19937& random) {
    while (true) {
      std::vector<int> able;
      for (std::size_t stage = 0; stage < next_.size(); ++stage) {
        if (Step(static_cast<int>(stage), /*really=*/false)) able.push_back(static_cast<int>(stage));
      }
      if (able.empty()) break;
      Step(able[random() % able.size()], /*really=*/true);
    }
    for (std::size_t stage = 0; stage < next_.size(); ++stage) {
      if (done_[stage] < order_[stage].size()) return false;
    }
    return true;
  }

 private:
  // Does one movement of the pass, or ends it.
  bool Step(int stage, bool really) {
    if (done_[stage] == order_[stage].size()) return false;
    const Pass pass = order_[stage][done_[stage]];
    const int way = pass.backward ? 1 : 0;
    for (const int peer : (pass.backward ? next_ : before_)[stage]) {
      if (taken_[way][stage][peer] > pass.microbatch) continue;
      if (sent_[way][peer][stage] <= pass.microbatch) return false;
      if (really) ++taken_[way][stage][peer];
      return true;
    }
    for (const int peer : (pass.backward ? before_ : next_)[stage]) {
      if (sent_[way][stage][peer] > pass.microbatch) continue;
      if (sent_[way][stage][peer] - taken_[way][peer][stage] >= 2) return false;
      if (really) ++sent_[way][stage][peer];
      return true;
    }
    if (really) ++done_[stage];
    return true;
  }

  const StageGraph& next_;
  StageGraph before_;
  std::vector<std::vector<Pass>> order_;
  std::vector<std::size_t> done_;
  std::vector<std::vector<int64_t>> taken_[2], sent_[2];  // forward, backward; by rank and peer
};

TEST(PassOrderTest, NoRankWaitsInACircle) {
  std::mt19937 random(TestSeed(1));
  for (int trial = 0; trial < 2000; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 9);
    const unsigned share = 1 + random() % 6;
    StageGraph next(stages);
    for (int from = 0; from < stages; ++from) {
      for (int to = from + 1; to < stages; ++to) {
        if (random() % share == 0) next[from].push_back(to);
      }
    }
    const int64_t most = 1 + static_cast<int64_t>(random() % 10), microbatches = static_cast<int64_t>(random() % 14);
    const std::vector<int64_t> in_flight = MicrobatchesInFlight(next, most);
    for (int from = 0; from < stages; ++from) {
      ASSERT_GE(in_flight[from], 1);
      ASSERT_LE(in_flight[from], most);
      for (const int to : next[from]) ASSERT_GE(in_flight[from], in_flight[to]);
    }
    ASSERT_TRUE(Ranks(next, in_flight, microbatches).Run(random)) << "trial " << trial;
  }
}

// The test above can fail: these numbers are not MicrobatchesInFlight's.
TEST(PassOrderTest, OtherNumbersInFlightMayWaitInACircle) {
  std::mt19937 random(1);
  const StageGraph far = {{1, 6}, {2}, {3}, {4}, {5}, {6}, {}};
  EXPECT_FALSE(Ranks(far, {7, 6, 5, 4, 3, 2, 1}, 12).Run(random));
  EXPECT_FALSE(Ranks({{1}, {}}, {1, 2}, 4).Run(random));
}

}  // namespace
}  // namespace adjoin
