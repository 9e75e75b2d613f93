#include "coordinator/decisions/restart_policy.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

Restart Policy(uint32_t max_restarts, double backoff_s, const std::vector<std::string>& on = {}) {
  Restart policy;
  policy.set_max_restarts(max_restarts);
  policy.set_backoff_s(backoff_s);
  for (const std::string& cause : on) policy.add_on(cause);
  return policy;
}

RestartHistory After(uint32_t attempts, uint32_t counted = 0, uint32_t without_progress = 0, uint64_t best_step = 0) {
  return {attempts, counted, without_progress, best_step};
}

TEST(RestartPolicyTest, WithoutAPolicyOnlyLostInfrastructureRestarts) {
  EXPECT_FALSE(DecideRestart(Restart(), EndCause::kRankLost, 5, After(1), 3).restart);
  EXPECT_FALSE(DecideRestart(Restart(), EndCause::kError, 5, After(1), 3).restart);
  EXPECT_FALSE(DecideRestart(Restart(), EndCause::kHopeless, 5, After(1), 3).restart);
  EXPECT_TRUE(DecideRestart(Restart(), EndCause::kNodeLost, 5, After(1), 3).restart);
  EXPECT_TRUE(DecideRestart(Restart(), EndCause::kDrained, 5, After(1), 3).restart);
}

TEST(RestartPolicyTest, OnlyFailuresOfTheJobItselfUseUpItsRestarts) {
  RestartDecision decision = DecideRestart(Policy(1, 0), EndCause::kRankLost, 5, After(1), 3);
  EXPECT_TRUE(decision.restart);
  EXPECT_EQ(decision.history.counted, 1);
  decision = DecideRestart(Policy(1, 0), EndCause::kNodeLost, 9, After(2, 1, 0, 5), 3);
  EXPECT_TRUE(decision.restart);
  EXPECT_EQ(decision.history.counted, 1);
  decision = DecideRestart(Policy(1, 0), EndCause::kRankLost, 12, After(3, 1, 0, 9), 3);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.why_not, "restart.max_restarts, which is 1, is used up");
}

TEST(RestartPolicyTest, OnNamesTheCausesThatRestart) {
  EXPECT_TRUE(DecideRestart(Policy(2, 0, {"error"}), EndCause::kError, 1, After(1), 3).restart);
  EXPECT_FALSE(DecideRestart(Policy(2, 0, {"error"}), EndCause::kRankLost, 1, After(1), 3).restart);
  EXPECT_FALSE(DecideRestart(Policy(2, 0, {"error"}), EndCause::kNodeLost, 1, After(1), 3).restart);
  EXPECT_TRUE(DecideRestart(Policy(2, 0, {"error"}), EndCause::kDrained, 1, After(1), 3).restart);
  EXPECT_FALSE(DecideRestart(Policy(2, 0, {"error"}), EndCause::kHopeless, 1, After(1), 3).restart);
}

TEST(RestartPolicyTest, ThreeRestartsWithoutProgressEndTheJob) {
  RestartHistory history = After(1);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    history.attempts = attempt;
    RestartDecision decision = DecideRestart(Policy(100, 0), EndCause::kNodeLost, 40, history, 3);
    EXPECT_TRUE(decision.restart) << attempt;
    history = decision.history;
  }
  history.attempts = 4;
  RestartDecision end = DecideRestart(Policy(100, 0), EndCause::kNodeLost, 40, history, 3);
  EXPECT_FALSE(end.restart);
  EXPECT_EQ(end.why_not, "3 restarts in a row came no further than step 40");
  EXPECT_TRUE(DecideRestart(Policy(100, 0), EndCause::kNodeLost, 41, history, 3).restart);
  EXPECT_TRUE(DecideRestart(Policy(100, 0), EndCause::kDrained, 40, history, 3).restart);
}

TEST(RestartPolicyTest, TheBackoffDoublesAndIsBounded) {
  EXPECT_EQ(DecideRestart(Policy(100, 1.5), EndCause::kRankLost, 1, After(1), 3).backoff, absl::Seconds(1.5));
  EXPECT_EQ(DecideRestart(Policy(100, 1.5), EndCause::kRankLost, 1, After(3), 3).backoff, absl::Seconds(6));
  EXPECT_EQ(DecideRestart(Policy(100, 1.5), EndCause::kRankLost, 1, After(50), 3).backoff, absl::Minutes(10));
  EXPECT_EQ(DecideRestart(Policy(100, 1.5), EndCause::kDrained, 1, After(3), 3).backoff, absl::ZeroDuration());
}

}  // namespace
}  // namespace adjoin
