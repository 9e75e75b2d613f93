#include "coordinator/decisions/restart_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

Restart Policy(uint32_t max_restarts, double backoff_s, const std::vector<std::string>& on = {}) {
  Restart policy;
  policy.set_max_restarts(max_restarts);
  policy.set_backoff_s(backoff_s);
  for (const std::string& cause : on) policy.add_on(cause);
  return policy;
}

// A job whose attempts end one after another.
struct Job {
  Restart policy;
  RestartHistory history = {};
  uint32_t limit = 3;

  RestartDecision End(const AttemptEnd& end) {
    ++history.attempts;
    const RestartDecision decision = DecideRestart(policy, end, history, limit);
    history = decision.history;
    return decision;
  }
  RestartDecision End(EndCause cause, uint64_t steps = 5) { return End(AttemptEnd{.cause = cause, .steps = steps}); }
};

// The table of the header, and which causes `on` may name.
struct Row {
  EndCause cause;
  bool without_policy, counts, counts_progress;
  std::string name;
};
const std::vector<Row>& Table() {
  static const auto* const table = new std::vector<Row>{
      {EndCause::kRankLost, false, true, true, "rank_lost"},  {EndCause::kRankKilled, false, true, false, "rank_lost"},
      {EndCause::kNodeLost, true, false, false, "node_lost"}, {EndCause::kDrained, true, false, false, "drained"},
      {EndCause::kError, false, true, true, "error"},         {EndCause::kHopeless, false, false, false, "hopeless"},
  };
  return *table;
}

TEST(RestartPolicyTest, AWantedRestartComesAlsoWhereTheClusterIsHeldToBeTheCause) {
  Restart policy;
  policy.set_max_restarts(1);
  policy.add_on("rank_lost");
  AttemptEnd end;
  end.cause = EndCause::kNodeLost;
  EXPECT_FALSE(DecideRestart(policy, end, {}, /*limit=*/3).restart);
  end.reported = EndCause::kRankLost;
  const RestartDecision decision = DecideRestart(policy, end, {}, /*limit=*/3);
  EXPECT_TRUE(decision.restart);
  EXPECT_FALSE(decision.counted);
}

TEST(RestartPolicyTest, EachCauseCountsAsItsTableSays) {
  for (const Row& row : Table()) {
    SCOPED_TRACE(testing::Message() << row.name << " " << static_cast<int>(row.cause));
    EXPECT_EQ(ToString(row.cause), row.name);
    EXPECT_EQ(Job{}.End(row.cause).restart, row.without_policy);
    const bool never = row.cause == EndCause::kHopeless;
    const bool always = row.cause == EndCause::kDrained;
    for (const std::string on : {"rank_lost", "node_lost", "error"}) {
      EXPECT_EQ(Job{Policy(9, 0, {on})}.End(row.cause).restart, always || (!never && on == row.name)) << on;
    }
    Job job{Policy(1000000, 0, {"rank_lost", "node_lost", "error"})};
    uint32_t restarts = 0;
    while (restarts < 50 && job.End(row.cause).restart) ++restarts;
    EXPECT_EQ(restarts, never ? 0u : row.counts_progress ? 3u : 50u) << "the first end sets the mark";
    EXPECT_EQ(job.history.counted > 0, row.counts && restarts > 0);
    Job once{Policy(1, 0, {"rank_lost", "node_lost", "error"})};
    once.End(row.cause, 1);
    const RestartDecision second = once.End(row.cause, 2);
    EXPECT_EQ(second.restart, !never && !row.counts);
    if (row.counts) {
      EXPECT_EQ(second.why_not, "restart.max_restarts, which is 1, is used up");
    }
  }
}

TEST(RestartPolicyTest, ThreeRestartsThatCameNoFurtherEndTheJob) {
  Job job{Policy(100, 0)};
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_TRUE(job.End(EndCause::kRankLost, 40).restart) << attempt;
    EXPECT_TRUE(job.End(EndCause::kNodeLost, 0).restart) << "what the cluster does in between changes nothing";
    EXPECT_TRUE(job.End(EndCause::kRankKilled, 0).restart);
  }
  const Job before = job;
  const RestartDecision end = job.End(EndCause::kRankLost, 40);
  EXPECT_FALSE(end.restart);
  EXPECT_EQ(end.why_not, "3 restarts in a row came no further than step 40");
  EXPECT_TRUE(Job(before).End(EndCause::kRankLost, 41).restart);
  EXPECT_TRUE(
      Job(before).End({.cause = EndCause::kRankLost, .steps = 30, .resumed_step = 10, .checkpoint_step = 20}).restart)
      << "it wrote a checkpoint: the next attempt goes on from there";
  EXPECT_FALSE(
      Job(before).End({.cause = EndCause::kRankLost, .steps = 30, .resumed_step = 20, .checkpoint_step = 0}).restart);
}

TEST(RestartPolicyTest, TheBackoffDoublesUntilThereIsProgress) {
  Job job{Policy(100, 1.5), {}, /*limit=*/100};
  EXPECT_EQ(job.End(EndCause::kRankLost, 1).backoff, absl::Seconds(1.5));
  EXPECT_EQ(job.End(EndCause::kRankLost, 1).backoff, absl::Seconds(3));
  EXPECT_EQ(job.End(EndCause::kDrained, 1).backoff, absl::ZeroDuration());
  EXPECT_EQ(job.End(EndCause::kRankLost, 1).backoff, absl::Seconds(6));
  EXPECT_EQ(job.End(EndCause::kRankLost, 2).backoff, absl::Seconds(1.5)) << "a step that no attempt had done";
  EXPECT_EQ(job.End(EndCause::kRankLost, 2).backoff, absl::Seconds(3));
  EXPECT_EQ(job.End({.cause = EndCause::kRankLost, .steps = 2, .resumed_step = 0, .checkpoint_step = 1}).backoff,
            absl::Seconds(1.5))
      << "a checkpoint";
  for (int i = 0; i < 50; ++i) job.End(EndCause::kRankLost, 1);
  EXPECT_EQ(job.End(EndCause::kRankLost, 1).backoff, absl::Minutes(10));
}

TEST(RestartPolicyTest, ThePauseAfterTheClustersFailuresGrowsWhileNoStepIsDone) {
  Job job{Policy(100, 30)};
  for (double seconds : {0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0}) {
    EXPECT_EQ(job.End(EndCause::kNodeLost, 0).backoff, absl::Seconds(seconds));
  }
  EXPECT_EQ(job.End(EndCause::kNodeLost, 1).backoff, absl::ZeroDuration()) << "it had done a step";
  EXPECT_EQ(job.End({.cause = EndCause::kNodeLost, .steps = 7, .resumed_step = 7}).backoff, absl::ZeroDuration());
  EXPECT_EQ(job.End({.cause = EndCause::kNodeLost, .steps = 7, .resumed_step = 7}).backoff, absl::Milliseconds(500))
      << "steps of an attempt before are not its own";
  Job killed{Policy(100, 0)};
  EXPECT_EQ(killed.End(EndCause::kRankKilled, 0).backoff, absl::ZeroDuration());
  EXPECT_EQ(killed.End(EndCause::kRankKilled, 0).backoff, absl::Milliseconds(500)) << "also without backoff_s";
}

// Random lives of jobs, judged from the whole list of their ends.
TEST(RestartPolicyTest, RandomHistoriesEndAsTheirWholeListSays) {
  std::mt19937_64 random(TestSeed());
  for (int life = 0; life < 2000; ++life) {
    const uint32_t max_restarts = random() % 2 == 0 ? random() % 6 : 1000000;
    const double first_backoff = random() % 2 == 0 ? 0 : 0.05;
    Job job{Policy(max_restarts, first_backoff, {"rank_lost", "node_lost", "error"})};
    std::vector<AttemptEnd> ends;
    uint64_t checkpoint = 0;
    for (bool goes_on = true; goes_on && ends.size() < 60;) {
      AttemptEnd end;
      end.cause = Table()[random() % (Table().size() - 1)].cause;  // any but kHopeless
      end.resumed_step = checkpoint;
      end.steps = checkpoint + random() % 4;
      if (random() % 8 == 0 && end.steps > checkpoint) end.checkpoint_step = checkpoint = end.steps;
      ends.push_back(end);
      const RestartDecision decision = job.End(end);

      // The ends that count, and the last one with progress.
      size_t counted = 0, progress = 0, in_row = 0;
      uint64_t best = 0;
      std::set<EndCause> own = {EndCause::kRankLost, EndCause::kError};
      double backoff = 0;
      size_t used = 0;
      for (const AttemptEnd& each : ends) {
        const bool further = each.steps > best || each.checkpoint_step > each.resumed_step;
        best = std::max(best, each.steps);
        if (further) in_row = 0, backoff = 0, ++progress;
        if (!further && own.count(each.cause) > 0 && counted > 0) ++in_row;
        used = counted;
        if (own.count(each.cause) > 0 || each.cause == EndCause::kRankKilled) {
          ++counted;
          backoff = backoff == 0 ? first_backoff : std::min(600.0, 2 * backoff);
        }
      }
      const bool ours = own.count(end.cause) > 0;
      const bool charged = ours || end.cause == EndCause::kRankKilled;
      const bool expected = !(ours && in_row >= 3) && !(charged && used >= max_restarts);
      ASSERT_EQ(decision.restart, expected) << "life " << life << ", end " << ends.size() << ", of " << progress;
      ASSERT_EQ(decision.why_not.empty(), expected || (charged && max_restarts == 0 && !(ours && in_row >= 3)));
      if (!expected) break;
      EXPECT_EQ(decision.counted, charged);
      EXPECT_EQ(decision.history.counted, counted);
      if (ours) {
        EXPECT_NEAR(absl::ToDoubleSeconds(decision.backoff), backoff, 1e-9);
      } else {
        EXPECT_LE(decision.backoff, std::max(absl::Minutes(1), absl::Seconds(backoff)));
      }
      goes_on = decision.restart;
    }
  }
}

}  // namespace
}  // namespace adjoin
