#include "coordinator/page/plan_pictures.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace adjoin {
namespace {

// Draws at once.
class Draws final : public SpecPlanner {
 public:
  absl::StatusOr<uint64_t> Start(PlanTask task, PlanDone done) override {
    PlanAnswer answer;
    answer.set_picture("picture of " + *task.picture_of);
    done(answer);
    return ++drawn;
  }
  void GiveUp(uint64_t) override {}
  void Stop() override {}
  uint64_t drawn = 0;
};

class PlanPicturesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Of(const std::string& hash) {
    PlanPictures::Wanted wanted;
    wanted.job_id = "job-17";
    wanted.plan_hash = hash;
    return pictures_.Of(wanted, [&] {
      ++reads_;
      return plan_;
    });
  }

  Draws planner_;
  PlanPictures pictures_{planner_};
  absl::StatusOr<std::string> plan_ = std::string("the plan");
  int reads_ = 0;
};

TEST_F(PlanPicturesTest, APlanIsReadOnlyWhereAPictureIsDrawn) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Of("a").value_or(""), "picture of the plan");
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(planner_.drawn, 1);
  EXPECT_TRUE(Of("b").ok());
  EXPECT_EQ(reads_, 2);
  plan_ = absl::DataLossError("damaged");
  EXPECT_TRUE(absl::IsDataLoss(Of("c").status()));
  EXPECT_EQ(planner_.drawn, 2);
}

TEST_F(PlanPicturesTest, OneThatIsTooLargeIsReadOnce) {
  plan_ = std::string(PlanPictures::kMostPlanBytes + 1, 'x');
  const absl::Status first = Of("a").status();
  EXPECT_TRUE(absl::IsResourceExhausted(first)) << first;
  EXPECT_EQ(Of("a").status(), first);
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(planner_.drawn, 0);
}

}  // namespace
}  // namespace adjoin
