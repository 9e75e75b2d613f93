#include "worker/training/best_metric.h"

#include <gtest/gtest.h>

#include <limits>

namespace adjoin {
namespace {

TEST(BestMetricTest, SmallerLossesAndLargerAccuraciesAreBetter) {
  BestMetric loss = BestMetric::Create("").value();
  EXPECT_EQ(loss.metric(), "loss");
  EXPECT_TRUE(loss.Judge(2, 10));
  EXPECT_FALSE(loss.Judge(2, 20));
  EXPECT_TRUE(loss.Judge(1.5, 30));
  EXPECT_EQ(loss.state().step, 30);
  BestMetric accuracy = BestMetric::Create("accuracy").value();
  EXPECT_TRUE(accuracy.Judge(0.5, 1));
  EXPECT_FALSE(accuracy.Judge(0.4, 2));
  EXPECT_TRUE(accuracy.Judge(0.6, 3));
  EXPECT_FALSE(BestMetric::Create("lss").ok());
}

TEST(BestMetricTest, CountsTheFailuresInARow) {
  BestMetric loss = BestMetric::Create("loss", 0.25).value();
  EXPECT_FALSE(loss.Judge(std::numeric_limits<double>::quiet_NaN(), 1));
  EXPECT_EQ(loss.state().failed, 1);
  EXPECT_TRUE(loss.Judge(1, 2));
  EXPECT_EQ(loss.state().failed, 0);
  EXPECT_FALSE(loss.Judge(0.75, 3)) << "not by more than min_delta";
  EXPECT_FALSE(loss.Judge(std::numeric_limits<double>::quiet_NaN(), 4));
  EXPECT_EQ(loss.state().failed, 2);
  EXPECT_TRUE(loss.Judge(0.5, 5));
  EXPECT_EQ(loss.state().best, 0.5);
}

TEST(BestMetricTest, IsRestoredFromItsNumbers) {
  BestMetric first = BestMetric::Create("loss").value();
  first.Judge(3, 7);
  first.Judge(4, 8);
  std::map<std::string, double> numbers;
  first.ToNumbers("a.", &numbers);
  BestMetric second = BestMetric::Create("loss").value();
  second.FromNumbers("b.", numbers);
  EXPECT_FALSE(second.state().any);
  second.FromNumbers("a.", numbers);
  EXPECT_EQ(second.state().best, 3);
  EXPECT_EQ(second.state().step, 7);
  EXPECT_EQ(second.state().failed, 1);
  EXPECT_FALSE(second.Judge(3, 9));
  EXPECT_TRUE(second.Judge(2, 10));
}

}  // namespace
}  // namespace adjoin
