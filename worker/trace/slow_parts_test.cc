// Replays of steps and what they blame: cases computed by hand, and random ones against another algorithm.
#include "worker/trace/slow_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "worker/trace/step_ops.h"
#include "worker/trace/step_replay.h"

namespace adjoin {
namespace {

constexpr int64_t kMs = 1000000;
using Kind = SlowPartFound::Kind;

// Writes what ranks record while they do what a test says, as a global clock would see it.
class Recording {
 public:
  explicit Recording(int ranks) : now_(static_cast<size_t>(ranks), 0), steps_(static_cast<size_t>(ranks)) {}

  void Work(int rank, int32_t part, int64_t ns) {
    steps_[static_cast<size_t>(rank)].ops.push_back({.part = part, .ns = ns});
    now_[static_cast<size_t>(rank)] += ns;
  }
  // A message that is needed at once.
  void Move(int from, int to, int64_t ns, int64_t bytes = 1000) {
    int64_t& there = now_[static_cast<size_t>(to)];
    const int64_t posted = now_[static_cast<size_t>(from)];
    const uint64_t flow = ++flows_;
    steps_[static_cast<size_t>(from)].ops.push_back(
        {.kind = StepOp::Kind::kSend, .peer = to, .flow = flow, .bytes = bytes, .ns = posted});
    const bool waits = posted + ns > there;
    there = std::max(there, posted + ns);
    steps_[static_cast<size_t>(to)].ops.push_back({.kind = StepOp::Kind::kReceive,
                                                   .peer = from,
                                                   .flow = flow,
                                                   .bytes = bytes,
                                                   .waited = waits ? 1 : 0,
                                                   .ns = there});
    last_[{from, to}] = {flow, there};
  }
  // The sender goes on no sooner than `ns` after its last message to `to` was taken in.
  void AwaitTaken(int from, int to, int64_t ns) {
    const auto last = last_.find({from, to});
    int64_t& here = now_[static_cast<size_t>(from)];
    if (last == last_.end() || last->second.second + ns <= here) return;
    const int64_t waited = last->second.second + ns - here;
    here += waited;
    steps_[static_cast<size_t>(from)].ops.push_back(
        {.kind = StepOp::Kind::kAwaitTaken, .peer = to, .flow = last->second.first, .waited = waited, .ns = here});
  }
  // Every rank needs a message of every other one, posted before any is awaited.
  void MeetAll(int64_t ns) {
    const std::vector<int64_t> posted = now_;
    const int ranks = static_cast<int>(now_.size());
    const uint64_t first = flows_;
    flows_ += static_cast<uint64_t>(ranks * ranks);
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        steps_[static_cast<size_t>(from)].ops.push_back({.kind = StepOp::Kind::kSend,
                                                         .peer = to,
                                                         .flow = first + 1 + static_cast<uint64_t>(from * ranks + to),
                                                         .bytes = 8,
                                                         .ns = posted[static_cast<size_t>(from)]});
      }
    }
    for (int to = 0; to < ranks; ++to) {
      for (int from = 0; from < ranks; ++from) {
        if (from == to) continue;
        int64_t& there = now_[static_cast<size_t>(to)];
        const int64_t arrives = posted[static_cast<size_t>(from)] + ns;
        const bool waits = arrives > there;
        there = std::max(there, arrives);
        steps_[static_cast<size_t>(to)].ops.push_back({.kind = StepOp::Kind::kReceive,
                                                       .peer = from,
                                                       .flow = first + 1 + static_cast<uint64_t>(from * ranks + to),
                                                       .bytes = 8,
                                                       .waited = waits ? 1 : 0,
                                                       .ns = there});
      }
    }
  }
  std::vector<RecordedStep> Finish() {
    for (size_t rank = 0; rank < steps_.size(); ++rank) steps_[rank].end = now_[rank];
    return steps_;
  }
  int64_t end() const { return *std::max_element(now_.begin(), now_.end()); }

 private:
  std::vector<int64_t> now_;
  std::vector<RecordedStep> steps_;
  uint64_t flows_ = 0;
  std::map<std::pair<int, int>, std::pair<uint64_t, int64_t>> last_;  // message of a pair, and when it was taken in
};

double Equal(int, int) { return 1; }

// Two ranks work for 1, send each other a message that takes 5, seem to wait until 5 for the other's being ready, which
// each is only then, and work for 2 after they have what was sent: until 8. If rank 1 worked for 4 at first, rank 0
// would have its message at 9.
TEST(StepReplayTest, WaitsThatWouldWaitForEachOtherTakeAsLongAsTheyDid) {
  std::vector<RecordedStep> steps(2);
  for (int rank = 0; rank < 2; ++rank) {
    const int peer = 1 - rank;
    const auto sent = static_cast<uint64_t>(1 + rank), received = static_cast<uint64_t>(1 + peer);
    steps[static_cast<size_t>(rank)].ops = std::vector<StepOp>{
        {.part = 0, .ns = 1 * kMs},
        {.kind = StepOp::Kind::kSend, .peer = peer, .flow = sent, .bytes = 8, .ns = 1 * kMs},
        {.kind = StepOp::Kind::kAwaitReady, .peer = peer, .flow = sent, .waited = 4 * kMs, .ns = 5 * kMs},
        {.kind = StepOp::Kind::kReady, .peer = peer, .flow = received, .bytes = 8, .ns = 5 * kMs},
        {.kind = StepOp::Kind::kReceive, .peer = peer, .flow = received, .bytes = 8, .waited = 1 * kMs, .ns = 6 * kMs},
        {.part = 1, .ns = 2 * kMs}};
  }
  const StepGraph graph(steps);
  EXPECT_NEAR(graph.Replay(), 0.008, 1e-12);
  EXPECT_NEAR(graph.Replay({.work = {{}, {0.004, 0, 0, 0, 0, 0.002}}}), 0.011, 1e-12);
  EXPECT_EQ(graph.ops(0)[2].kind, StepOp::Kind::kWork);
  EXPECT_NEAR(graph.ops(0)[2].work, 0.004, 1e-12);
  EXPECT_EQ(graph.ops(1)[2].kind, StepOp::Kind::kAwaitReady);
}

TEST(StepReplayTest, FollowsWhatIsWaitedFor) {
  Recording step(3);
  step.Work(0, 0, 10 * kMs);
  step.Work(1, 0, 2 * kMs);
  step.Move(0, 1, 3 * kMs);  // arrives at 13
  step.Work(1, 1, 4 * kMs);  // until 17
  step.Work(2, 0, 5 * kMs);
  step.Move(1, 2, 1 * kMs);  // arrives at 18
  step.Work(2, 1, 2 * kMs);  // until 20
  const StepGraph graph(step.Finish());
  EXPECT_NEAR(graph.Replay(), 0.020, 1e-12);
  // Rank 0 works 4 instead of 10: 4 + 3 + 4 + 1 + 2.
  EXPECT_NEAR(graph.Replay({.work = {{0.004, 0}}}), 0.014, 1e-12);
  // Rank 2 as well, which has waited all the time: no difference.
  EXPECT_NEAR(graph.Replay({.work = {{0.004, 0}, {}, {0, 0, 0.002}}}), 0.014, 1e-12);
  // The first message takes nothing: 10 + 4 + 1 + 2.
  EXPECT_NEAR(graph.Replay({.work = {}, .moves = {0, 0.001}}), 0.017, 1e-12);
}

TEST(StepReplayTest, AMessageThatWasThereIsAsFastAsThoseThatWereWaitedFor) {
  Recording step(2);
  step.Work(1, 0, 50 * kMs);
  step.Move(0, 1, 1 * kMs);  // taken in at 50, since when it was there nobody knows
  step.Work(0, 0, 60 * kMs);
  step.Move(0, 1, 2 * kMs);  // waited for
  const StepGraph graph(step.Finish());
  EXPECT_NEAR(graph.Replay(), 0.062, 1e-12);
  EXPECT_NEAR(graph.messages()[0].seconds, 0.002, 1e-12);
  // Without rank 1's work it would have had it at 2 at the latest.
  EXPECT_NEAR(graph.Replay({.work = {{0, 0, 0}, {0, 0, 0}}}), 0.002, 1e-12);
}

// Longest paths by repeated relaxation, instead of a walk that follows the messages.
double Relaxed(const StepGraph& graph, const StepGraph::Change& change) {
  std::vector<std::vector<double>> done;  // when each op is over
  for (int rank = 0; rank < graph.ranks(); ++rank) done.emplace_back(graph.ops(rank).size(), 0.0);
  std::vector<double> posted(graph.messages().size(), 0.0);
  std::vector<double> taken(graph.messages().size(), 0.0);
  double end = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < graph.ranks(); ++rank) {
      double now = 0;
      for (size_t i = 0; i < graph.ops(rank).size(); ++i) {
        const StepGraph::Op& op = graph.ops(rank)[i];
        const size_t at = static_cast<size_t>(rank);
        const size_t m = static_cast<size_t>(op.message);
        if (op.message < 0) {
          now += change.work.size() > at && !change.work[at].empty() ? change.work[at][i] : op.work;
        } else if (op.kind == StepOp::Kind::kReceive) {
          now = std::max(now, posted[m] + (change.moves.empty() ? graph.messages()[m].seconds : change.moves[m]));
          if (taken[m] < now) {
            taken[m] = now;
            changed = true;
          }
        } else if (op.kind == StepOp::Kind::kAwaitTaken) {
          now = std::max(now, taken[m] + op.after);
        } else if (posted[m] < now) {
          posted[m] = now;
          changed = true;
        }
        if (done[at][i] < now) {
          done[at][i] = now;
          changed = true;
        }
        end = std::max(end, now);
      }
    }
  }
  return end;
}

TEST(StepReplayTest, RandomStepsAgreeWithRelaxation) {
  const uint64_t seed = TestSeed();
  for (uint64_t times = 0; times < 200; ++times) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", step ", times));
    std::mt19937_64 random(seed * 1000 + times);
    const auto below = [&random](uint64_t n) { return static_cast<int64_t>(random() % n); };
    const int ranks = 1 + static_cast<int>(below(6));
    Recording step(ranks);
    for (int i = 0; i < 60; ++i) {
      const int rank = static_cast<int>(below(static_cast<uint64_t>(ranks)));
      const int peer = static_cast<int>(below(static_cast<uint64_t>(ranks)));
      if (below(3) == 0 || peer == rank) {
        step.Work(rank, static_cast<int32_t>(below(4)), below(10 * kMs));
      } else if (below(10) == 0) {
        step.MeetAll(below(kMs));
      } else if (below(4) == 0) {
        step.AwaitTaken(rank, peer, below(kMs));
      } else {
        step.Move(rank, peer, below(3 * kMs), 1 << below(5));
      }
    }
    const std::vector<RecordedStep> steps = step.Finish();
    const StepGraph graph(steps);
    StepGraph::Change change;
    change.work.resize(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      if (below(2) == 0) continue;
      for (const StepGraph::Op& op : graph.ops(rank)) {
        change.work[static_cast<size_t>(rank)].push_back(op.work * static_cast<double>(below(3)));
      }
    }
    for (const StepGraph::Message& message : graph.messages()) change.moves.push_back(message.seconds / 2);
    if (below(2) == 0) change.moves.clear();
    EXPECT_NEAR(graph.Replay(), Relaxed(graph, {}), 1e-12);
    EXPECT_NEAR(graph.Replay(change), Relaxed(graph, change), 1e-12);
    // A message that was there already may have been there earlier, which makes no step longer.
    EXPECT_LE(graph.Replay(), static_cast<double>(step.end()) * 1e-9 + 1e-12);
  }
}

// Four ranks compute two layers and meet after each: rank 3 takes longer in the second.
TEST(SlowPartsTest, NamesTheRankAndItsLayerAndNotThoseThatWait) {
  Recording step(4);
  for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(0, false), 10 * kMs);
  step.MeetAll(kMs);
  for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(1, false), (rank == 3 ? 18 : 10) * kMs);
  step.MeetAll(kMs);
  for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(1, true), (rank == 3 ? 30 : 20) * kMs);
  step.MeetAll(kMs);
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  EXPECT_NEAR(found.replayed, 0.060,
              1e-9);  // rank 3 waits once, for 1, and works 10 + 18 + 30; the others wait 1 for it
  ASSERT_EQ(found.parts.size(), 1u);
  EXPECT_EQ(found.parts[0].kind, Kind::kCompute);
  EXPECT_EQ(found.parts[0].rank, 3);
  EXPECT_EQ(found.parts[0].layer, 1);
  EXPECT_NEAR(found.parts[0].cost, 0.017, 1e-9);  // 10 + 1 + 10 + 1 + 20 + 1 are left
  EXPECT_NEAR(found.parts[0].seconds, 0.048, 1e-9);
  EXPECT_NEAR(found.parts[0].median, 0.030, 1e-9);
  ASSERT_EQ(found.computed.size(), 2u);
  EXPECT_EQ(found.computed[1].layer, 1);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR(found.computed[0].seconds[rank], 0.010, 1e-9);
    EXPECT_NEAR(found.computed[0].median[rank], 0.010, 1e-9);
    EXPECT_NEAR(found.computed[1].seconds[rank], rank == 3 ? 0.048 : 0.030, 1e-9);
    EXPECT_NEAR(found.computed[1].median[rank], 0.030, 1e-9);
  }
}

TEST(SlowPartsTest, NothingIsSlowWhereWorkIsCutUnevenly) {
  Recording step(4);
  for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(0, false), (rank + 1) * 5 * kMs);
  step.MeetAll(kMs);
  const std::vector<RecordedStep> steps = step.Finish();
  EXPECT_TRUE(FindSlowParts(steps, [](int rank, int) { return rank + 1.0; }).parts.empty());
  EXPECT_FALSE(FindSlowParts(steps, Equal).parts.empty());
  // A rank alone with a layer has no like; one without cells neither.
  Recording alone(2);
  alone.Work(0, PartOf(0, false), 30 * kMs);
  alone.Work(1, PartOf(0, false), 1 * kMs);
  alone.MeetAll(kMs);
  EXPECT_TRUE(FindSlowParts(alone.Finish(), [](int rank, int) { return rank == 0 ? 1.0 : 0.0; }).parts.empty());
}

TEST(SlowPartsTest, OfTwoSlowRanksBothAreNamed) {
  Recording step(6);
  for (int rank = 0; rank < 6; ++rank) step.Work(rank, PartOf(0, false), (rank == 1 || rank == 4 ? 20 : 10) * kMs);
  step.MeetAll(kMs);
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_EQ(found.parts.size(), 2u);
  EXPECT_EQ(found.parts[0].rank + found.parts[1].rank, 5);
  for (const SlowPartFound& part : found.parts) EXPECT_NEAR(part.cost, 0.010, 1e-9);
}

TEST(SlowPartsTest, ASlowLinkIsNoSlowRank) {
  Recording step(4);
  for (int turn = 0; turn < 3; ++turn) {
    for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(0, false), 10 * kMs);
    for (int rank = 0; rank < 4; ++rank) step.Move(rank, (rank + 1) % 4, rank == 2 ? 9 * kMs : kMs, 100000);
  }
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_FALSE(found.parts.empty());
  EXPECT_EQ(found.parts[0].kind, Kind::kLink);
  EXPECT_EQ(found.parts[0].rank, 2);
  EXPECT_EQ(found.parts[0].peer, 3);
  EXPECT_NEAR(found.parts[0].seconds, 0.027, 1e-9);
  EXPECT_NEAR(found.parts[0].median, 0.003, 1e-9);
  for (const SlowPartFound& part : found.parts) EXPECT_NE(part.kind, Kind::kCompute);
}

// It does not get to run, and so it takes in late what the others have sent.
TEST(SlowPartsTest, ARankThatIsLateWithAllMessagesIsSlowAndNotItsLinks) {
  Recording step(4);
  for (int turn = 0; turn < 3; ++turn) {
    for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(0, false), 10 * kMs);
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from != to) step.Move(from, to, to == 2 ? 9 * kMs : kMs, 100000);
      }
    }
  }
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_EQ(found.parts.size(), 1u);
  EXPECT_EQ(found.parts[0].kind, Kind::kCompute);
  EXPECT_EQ(found.parts[0].rank, 2);
  EXPECT_EQ(found.parts[0].layer, -1);
  EXPECT_GT(found.parts[0].cost, 0.015);
  EXPECT_GT(found.parts[0].seconds, 2 * found.parts[0].median);
}

TEST(SlowPartsTest, ASlowLinkBesideOneThatIsLateByChanceIsNoSlowRank) {
  Recording step(4);
  for (int turn = 0; turn < 3; ++turn) {
    for (int rank = 0; rank < 4; ++rank) step.Work(rank, PartOf(0, false), 10 * kMs);
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        const int64_t taken = to != 2 ? kMs : from == 1 ? 40 * kMs : from == 3 ? 2 * kMs : kMs;
        if (from != to) step.Move(from, to, taken, 100000);
      }
    }
  }
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_FALSE(found.parts.empty());
  EXPECT_EQ(found.parts[0].kind, Kind::kLink);
  EXPECT_EQ(found.parts[0].rank, 1);
  EXPECT_EQ(found.parts[0].peer, 2);
  for (const SlowPartFound& part : found.parts) EXPECT_NE(part.kind, Kind::kCompute) << "rank " << part.rank;
}

TEST(SlowPartsTest, ASlowFileIsNamedAsThat) {
  Recording step(3);
  for (int rank = 0; rank < 3; ++rank) step.Work(rank, StepOp::kData, (rank == 1 ? 21 : 1) * kMs);
  for (int rank = 0; rank < 3; ++rank) step.Work(rank, PartOf(0, false), 10 * kMs);
  step.MeetAll(kMs);
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_EQ(found.parts.size(), 1u);
  EXPECT_EQ(found.parts[0].kind, Kind::kData);
  EXPECT_EQ(found.parts[0].rank, 1);
  EXPECT_NEAR(found.parts[0].cost, 0.020, 1e-9);
  EXPECT_NEAR(found.parts[0].median, 0.001, 1e-9);
}

// Cells of ranks and layers have a limit: the layers that deviate most stay, in their order.
TEST(SlowPartsTest, OfManyLayersThoseThatDeviateMostAreTold) {
  constexpr int kRanks = 64, kLayers = 40;
  Recording step(kRanks);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool slow = rank == 5 && layer % 10 == 3;
      step.Work(rank, PartOf(layer, false), slow ? 20 * kMs : rank == 63 && layer == 7 ? kMs : 10 * kMs);
    }
  }
  const SlowParts found = FindSlowParts(step.Finish(), Equal);
  ASSERT_EQ(found.computed.size(), static_cast<size_t>(SlowParts::kMostComputed / kRanks));
  EXPECT_EQ(found.computed_left_out, kLayers - SlowParts::kMostComputed / kRanks);
  std::set<int> layers;
  for (const LayerOnRanks& layer : found.computed) {
    ASSERT_EQ(layer.seconds.size(), static_cast<size_t>(kRanks));
    EXPECT_TRUE(layers.empty() || layer.layer > *layers.rbegin());
    layers.insert(layer.layer);
    EXPECT_NEAR(layer.median[63], 0.010, 1e-9) << "also of a rank that is faster, as in layer 7";
  }
  for (const int layer : {3, 13, 23, 33}) EXPECT_EQ(layers.count(layer), 1u) << layer;
}

TEST(SlowPartsTest, NothingToCompare) {
  EXPECT_TRUE(FindSlowParts({}, Equal).parts.empty());
  EXPECT_TRUE(FindSlowParts(std::vector<RecordedStep>(4), Equal).parts.empty());
  Recording alone(1);
  alone.Work(0, PartOf(0, false), kMs);
  EXPECT_TRUE(FindSlowParts(alone.Finish(), Equal).parts.empty());
}

}  // namespace
}  // namespace adjoin
