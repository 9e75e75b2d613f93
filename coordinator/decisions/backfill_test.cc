#include "coordinator/decisions/backfill.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

// True where some set of running jobs may end first, such that the head could start then, but not without `taken`
// slots.
bool Delays(int needed, int free, const std::vector<int>& running, int taken) {
  for (int set = 0; set < 1 << running.size(); ++set) {
    int ended = 0;
    for (size_t i = 0; i < running.size(); ++i) ended += (set >> i & 1) * running[i];
    if (free + ended >= needed && free + ended - taken < needed) return true;
  }
  return false;
}

TEST(BackfillTest, MatchesBudgetsWorkedOutByHand) {
  EXPECT_EQ(BackfillBudget(6, 2, {8, 1}), 2);  // only the 8 can bring the head to start, and it brings more than enough
  EXPECT_EQ(BackfillBudget(4, 2, {4, 2}), 0);  // the 2 may end first, and then every slot counts
  EXPECT_EQ(BackfillBudget(10, 3, {2, 2}), 3);  // it cannot start with these workers at all
  EXPECT_EQ(BackfillBudget(10, 3, {}), 3);
}

TEST(BackfillTest, IsTheLargestBudgetThatDelaysTheHeadInNoOrderOfEnds) {
  const uint64_t seed = TestSeed();
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int> running(random() % 9);
    for (int& slots : running) slots = 1 + static_cast<int>(random() % (i % 2 == 0 ? 5 : 90));
    const int needed = 1 + static_cast<int>(random() % 120);
    const int free = static_cast<int>(random() % needed);
    const std::string what =
        absl::StrCat("seed ", seed, ": needs ", needed, ", ", free, " free, running ", absl::StrJoin(running, " "));
    const int budget = BackfillBudget(needed, free, running);
    ASSERT_FALSE(Delays(needed, free, running, budget)) << what << ", budget " << budget;
    if (budget < free) {
      ASSERT_TRUE(Delays(needed, free, running, budget + 1)) << what << ", budget " << budget;
    }
  }
}

}  // namespace
}  // namespace adjoin
