#include "worker/training/metric_sums.h"
#include "base/testing/test_seed.h"

#include <sys/resource.h>

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "planner/checks/metric_rule.h"

namespace adjoin {
namespace {

constexpr int64_t kClasses = 5;
constexpr int64_t kIgnored = 9;

struct Fixture {
  JobSpec spec;
  ProgramPlan program;

  Fixture(const std::string& kind, const std::vector<std::string>& metrics) {
    for (const std::string& metric : metrics) spec.mutable_evaluate()->add_metric(metric);
    *program.add_loss()->mutable_spec() = *spec.add_loss();
    spec.mutable_loss(0)->set_kind(kind);
    program.mutable_loss(0)->mutable_spec()->set_kind(kind);
    program.set_name("evaluate");
    auto* layout = program.add_value()->mutable_layout();
    layout->add_shape(1);
    layout->add_shape(kClasses);
    program.add_value()->mutable_layout()->set_dtype("int64");  // the targets
    program.mutable_loss(0)->set_target(1);
  }
  EvaluationNumbers numbers() const { return EvaluationNumbers::Create(spec, program).value(); }
};

// Sums in a list, as the tests compare them.
class Sums {
 public:
  explicit Sums(const EvaluationNumbers& numbers) : numbers_(at::zeros({numbers.size()}, at::kDouble)) {}
  operator const at::Tensor&() const { return numbers_; }
  std::vector<double> list() const {
    return std::vector<double>(numbers_.data_ptr<double>(), numbers_.data_ptr<double>() + numbers_.numel());
  }

 private:
  at::Tensor numbers_;
};

// Element by element, from plain lists. `prediction` [n, classes, m], `target` [n, m].
TEST(MetricSums, AgreeWithCountingOneByOne) {
  const Fixture fixture("cross_entropy", {"accuracy", "top2", "top5", "dice", "iou", "confusion"});
  const EvaluationNumbers numbers = fixture.numbers();
  std::mt19937 random(TestSeed());
  const int64_t n = 7, m = 11;
  Loss loss;
  loss.set_kind("cross_entropy");
  loss.set_ignore_index(kIgnored);
  // Few different values, so that there are ties; class 4 is no target and is never predicted.
  at::Tensor prediction = at::empty({n, kClasses, m}, at::kFloat);
  at::Tensor target = at::empty({n, m}, at::kLong);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      target[i][j] = random() % 6 == 0 ? kIgnored : static_cast<int64_t>(random() % 4);
      for (int64_t c = 0; c < kClasses; ++c) prediction[i][c][j] = c == 4 ? -1.0 : static_cast<double>(random() % 3);
    }
  }
  const Sums totals(numbers);
  // In uneven parts, one of them empty: sums over ranks are sums over parts.
  for (const auto& [lo, hi] : std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 2}, {2, 7}}) {
    AddClassNumbers(numbers, loss, prediction.slice(0, lo, hi), target.slice(0, lo, hi), totals);
  }

  double counted = 0;
  std::vector<std::vector<int64_t>> confusion(kClasses, std::vector<int64_t>(kClasses));
  std::vector<double> top(kClasses + 1);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      const int64_t t = target[i][j].item<int64_t>();
      if (t == kIgnored) continue;
      ++counted;
      std::vector<std::pair<float, int64_t>> order;
      for (int64_t c = 0; c < kClasses; ++c) order.push_back({-prediction[i][c][j].item<float>(), c});
      std::sort(order.begin(), order.end());
      ++confusion[t][order[0].second];
      for (int64_t k = 1; k <= kClasses; ++k) {
        for (int64_t best = 0; best < k; ++best) top[k] += order[best].second == t ? 1 : 0;
      }
    }
  }
  const std::vector<MetricValue> values = MetricValues(numbers, totals.list(), 1);
  ASSERT_EQ(values.size(), 6u);
  EXPECT_EQ(values[0].value, top[1] / counted);
  EXPECT_EQ(values[1].value, top[2] / counted);
  EXPECT_EQ(values[2].value, 1.0);
  EXPECT_EQ(values[5].matrix, confusion);
  double dice = 0, iou = 0;
  for (int64_t c = 0; c < 4; ++c) {
    double row = 0, column = 0;
    for (int64_t other = 0; other < kClasses; ++other) {
      row += static_cast<double>(confusion[c][other]);
      column += static_cast<double>(confusion[other][c]);
    }
    const double both = static_cast<double>(confusion[c][c]);
    EXPECT_DOUBLE_EQ(values[3].per_class[c], 2 * both / (row + column));
    EXPECT_DOUBLE_EQ(values[4].per_class[c], both / (row + column - both));
    dice += 2 * both / (row + column) / 4;
    iou += both / (row + column - both) / 4;
  }
  EXPECT_TRUE(std::isnan(values[3].per_class[4])) << "nothing is of this class";
  EXPECT_NEAR(values[3].value, dice, 1e-12);
  EXPECT_NEAR(values[4].value, iou, 1e-12);
}

// Memory is that of a part of the prediction, and the counts are those of its parts.
TEST(MetricSums, LargePredictionsNeedLittleMemoryBesideThem) {
  const Fixture fixture("cross_entropy", {"accuracy", "top2", "dice", "confusion"});
  const EvaluationNumbers numbers = fixture.numbers();
  Loss loss;
  loss.set_ignore_index(kIgnored);
  at::manual_seed(5);
  const int64_t side = 128;
  const at::Tensor prediction = at::rand({2, kClasses, side, side, side}, at::kFloat);
  at::Tensor target = at::randint(kClasses, {2, side, side, side}, at::kLong);
  target.select(1, 7).fill_(kIgnored);
  const Sums expected(numbers);
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t z = 0; z < side; z += 8) {
      AddClassNumbers(numbers, loss, prediction.narrow(0, sample, 1).narrow(2, z, 8),
                      target.narrow(0, sample, 1).narrow(1, z, 8), expected);
    }
  }
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  const Sums totals(numbers);
  AddClassNumbers(numbers, loss, prediction, target, totals);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(totals.list(), expected.list());
  EXPECT_EQ(totals.list()[numbers.counted()], static_cast<double>(2 * side * side * (side - 1)));
  // The prediction has 80 MiB.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 40 << 10) << "KiB";
}

TEST(MetricSums, AreNanWhereNoTargetCounts) {
  const Fixture fixture("nll", {"accuracy", "dice"});
  Loss loss;
  loss.set_ignore_index(kIgnored);
  const Sums totals(fixture.numbers());
  AddClassNumbers(fixture.numbers(), loss, at::zeros({2, kClasses}), at::full({2}, kIgnored, at::kLong), totals);
  for (const MetricValue& value : MetricValues(fixture.numbers(), totals.list(), 1))
    EXPECT_TRUE(std::isnan(value.value));
}

TEST(MetricSums, AClassThatIsNanIsNotRight) {
  const Fixture fixture("nll", {"accuracy", "top2"});
  at::Tensor prediction = at::zeros({2, kClasses});
  prediction[0][3] = std::nan("");
  const Sums totals(fixture.numbers());
  AddClassNumbers(fixture.numbers(), Loss(), prediction, at::full({2}, 3, at::kLong), totals);
  for (const MetricValue& value : MetricValues(fixture.numbers(), totals.list(), 1)) EXPECT_EQ(value.value, 0);
}

TEST(MetricSums, TakeErrorsInFloat64) {
  const Fixture fixture("l1", {"mse", "mae", "psnr"});
  const EvaluationNumbers numbers = fixture.numbers();
  const at::Tensor target = at::arange(100, at::kFloat).reshape({4, 25});
  at::Tensor prediction = target + 0.5;
  prediction[0][0] = 10;
  const Sums totals(numbers);
  AddErrorNumbers(numbers, prediction.slice(0, 0, 1), target.slice(0, 0, 1), totals);
  AddErrorNumbers(numbers, prediction.slice(0, 1, 1), target.slice(0, 1, 1), totals);
  AddErrorNumbers(numbers, prediction.slice(0, 1, 4), target.slice(0, 1, 4), totals);
  const double mse = (99 * 0.25 + 100) / 100;
  const std::vector<MetricValue> values = MetricValues(numbers, totals.list(), /*range=*/2);
  EXPECT_DOUBLE_EQ(values[0].value, mse);
  EXPECT_DOUBLE_EQ(values[1].value, (99 * 0.5 + 10) / 100);
  EXPECT_DOUBLE_EQ(values[2].value, 10 * std::log10(4 / mse));
}

double TargetWeight(const Loss& loss, const at::Tensor& target) {
  const at::Tensor mine = at::zeros({2}, at::kDouble);
  SetTargetWeight(loss, target, 1, mine);
  EXPECT_EQ(mine[0].item<double>(), 0);
  return mine[1].item<double>();
}

TEST(MetricSums, WeighTargetsByTheirClass) {
  Loss loss;
  const at::Tensor target = at::tensor({int64_t{0}, int64_t{2}, kIgnored, int64_t{2}}, at::kLong);
  loss.set_ignore_index(kIgnored);
  EXPECT_EQ(TargetWeight(loss, target), 3);
  for (double weight : {0.5, 1.0, 0.25}) loss.add_class_weight(weight);
  EXPECT_EQ(TargetWeight(loss, target), 1.0);
  loss.clear_ignore_index();
  EXPECT_EQ(TargetWeight(loss, target.slice(0, 0, 2)), 0.75);
  EXPECT_EQ(TargetWeight(loss, target.slice(0, 0, 0)), 0);
}

}  // namespace
}  // namespace adjoin
