#include "planner/checks/metric_rule.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseMetric, ReadsEveryName) {
  EXPECT_EQ(ParseMetric("top5")->k, 5);
  EXPECT_EQ(ParseMetric("accuracy")->k, 1);
  EXPECT_TRUE(ParseMetric("iou")->OfClasses());
  EXPECT_TRUE(ParseMetric("psnr")->OfNumbers());
  EXPECT_TRUE(ParseMetric("psnr")->LargerIsBetter());
  EXPECT_TRUE(ParseMetric("dice")->LargerIsBetter());
  for (const char* smaller : {"loss", "mse", "mae", "confusion"}) EXPECT_FALSE(ParseMetric(smaller)->LargerIsBetter());
  for (const char* bad : {"", "top", "top0", "top-1", "top05", "top5x", "Dice", "f1"}) {
    const auto metric = ParseMetric(bad);
    ASSERT_FALSE(metric.ok()) << bad;
    EXPECT_THAT(std::string(metric.status().message()), HasSubstr("\"dice\", \"iou\"")) << bad;
  }
}

TEST(MetricsOfProgram, ValidationAlsoHasTheMetricsOfEarlyStopAndKeepBest) {
  JobSpec spec;
  spec.mutable_evaluate()->add_metric("accuracy");
  spec.mutable_train()->mutable_early_stop()->set_metric("dice");
  spec.mutable_checkpoint()->set_keep_best("accuracy");
  EXPECT_THAT(MetricsOfProgram(spec, "evaluate_tail"), ElementsAre("accuracy"));
  EXPECT_THAT(MetricsOfProgram(spec, "validate"), ElementsAre("accuracy", "dice"));
  EXPECT_TRUE(MetricsOfProgram(spec, "predict").empty());
}

TEST(EvaluationNumbers, PositionsDoNotOverlap) {
  JobSpec spec;
  for (const char* metric : {"loss", "accuracy", "top1", "top3", "dice", "iou", "confusion", "mse", "psnr"}) {
    spec.mutable_evaluate()->add_metric(metric);
  }
  ProgramPlan program;
  program.set_name("evaluate");
  for (const char* kind : {"huber", "cross_entropy", "mse"}) {
    spec.add_loss()->set_kind(kind);
    program.add_loss()->mutable_spec()->set_kind(kind);
  }
  auto* shape = program.add_value()->mutable_layout()->mutable_shape();
  for (int64_t extent : {8, 4, 6}) shape->Add(extent);
  program.add_value()->mutable_layout()->set_dtype("int64");
  program.mutable_loss(1)->set_target(1);
  const auto numbers = EvaluationNumbers::Create(spec, program);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->class_loss(), 1);
  EXPECT_EQ(numbers->number_loss(), 0);
  EXPECT_EQ(numbers->classes(), 4);
  std::multiset<int64_t> taken = {numbers->stop_asked(), numbers->counted(), numbers->hits().at(1),
                                  numbers->hits().at(3)};
  for (int loss = 0; loss < 3; ++loss) taken.insert({numbers->share(loss), numbers->weight(loss)});
  for (int64_t i = 0; i < 12; ++i) taken.insert(numbers->per_class() + i);
  for (int64_t i = 0; i < 16; ++i) taken.insert(numbers->confusion() + i);
  for (int64_t i = 0; i < 3; ++i) taken.insert(numbers->numbers() + i);
  EXPECT_EQ(static_cast<int64_t>(taken.size()), numbers->size());
  int64_t place = 0;
  for (int64_t each : taken) EXPECT_EQ(each, place++);
}

TEST(EvaluationNumbers, RefusesWrongMetrics) {
  JobSpec spec;
  EXPECT_THAT(std::string(CheckMetricHasLoss(spec, *ParseMetric("loss")).message()), HasSubstr("needs a loss"));
  spec.mutable_evaluate()->add_metric("confusion");
  ProgramPlan program;
  program.set_name("evaluate");
  EXPECT_THAT(std::string(EvaluationNumbers::Create(spec, program).status().message()), HasSubstr("the job has none"));
  spec.add_loss()->set_kind("nll");
  program.add_loss()->mutable_spec()->set_kind("nll");
  auto* layout = program.add_value()->mutable_layout();
  for (int64_t extent : {8, 2000}) layout->add_shape(extent);
  program.mutable_loss(0)->set_target(1);
  program.add_value()->mutable_layout()->set_dtype("int64");
  EXPECT_THAT(std::string(EvaluationNumbers::Create(spec, program).status().message()), HasSubstr("at most 1024"));
}

TEST(EvaluationNumbers, ProbabilitiesAreNoClasses) {
  JobSpec spec;
  spec.mutable_evaluate()->add_metric("accuracy");
  Loss& loss = *spec.add_loss();
  loss.set_kind("cross_entropy");
  loss.set_target("soft");
  ProgramPlan program;
  program.set_name("evaluate");
  program.set_dataset("train");
  for (int i = 0; i < 2; ++i) program.add_value();
  for (int64_t extent : {8, 4}) program.mutable_value(0)->mutable_layout()->add_shape(extent);
  *program.add_loss()->mutable_spec() = loss;
  program.mutable_loss(0)->set_target(1);
  program.mutable_value(1)->mutable_layout()->set_dtype("float32");
  EXPECT_THAT(std::string(EvaluationNumbers::Create(spec, program).status().message()),
              HasSubstr("data set \"train\" has probabilities in their place"));
  program.mutable_value(1)->mutable_layout()->set_dtype("int64");
  const auto numbers = EvaluationNumbers::Create(spec, program);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->class_loss(), 0);
}

}  // namespace
}  // namespace adjoin
