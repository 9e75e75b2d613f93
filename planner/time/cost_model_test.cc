#include "planner/time/cost_model.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "planner/time/kernel_curve.h"
#include "planner/time/rate_check.h"
#include "planner/time/rate_merge.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

KernelRate Rate(const std::string& kind, std::vector<int64_t> size, double flops, double bytes, double seconds) {
  KernelRate rate;
  rate.set_kind(kind);
  rate.set_dtype("float32");
  for (const int64_t each : size) rate.add_size(each);
  rate.set_flops(flops);
  rate.set_bytes(bytes);
  rate.set_forward_seconds(seconds);
  rate.set_backward_seconds(2 * seconds);
  return rate;
}

RateTable Table() {
  RateTable rates;
  rates.set_machine("a test");
  rates.set_launch_seconds(1e-6);
  rates.set_step_seconds(1e-5);
  *rates.add_kernel() = Rate("linear", {10, 10, 10}, 2000, 1200, 1e-5);
  *rates.add_kernel() = Rate("linear", {100, 100, 100}, 2e6, 120000, 2e-3);
  *rates.add_kernel() = Rate("copy", {1000, 1}, 0, 8000, 4e-6);
  LaneRate& lane = *rates.add_lane();
  lane.set_lane("memory");
  lane.set_round_seconds(1e-5);
  lane.set_message_seconds(1e-6);
  lane.set_byte_seconds(1e-9);
  lane.set_pack_byte_seconds(2e-9);
  lane.set_add_byte_seconds(4e-9);
  return rates;
}

Layer Linear(uint32_t out) {
  Layer layer;
  layer.mutable_linear()->set_out_features(out);
  return layer;
}

LayerSizes LinearSizes(int64_t rows, int64_t in, int64_t out) {
  LayerSizes sizes;
  sizes.input = {{rows, in}};
  sizes.output = {rows, out};
  sizes.parameter = {{out, in}};
  return sizes;
}

TEST(KernelCurveTest, IsExactWhereItWasMeasured) {
  const std::vector<KernelCurve::Point> points = {
      {{1, 8}, 100, 10, 3e-6}, {{4, 8}, 900, 20, 5e-6}, {{9, 64}, 5000, 700, 8e-4}, {{2, 2}, 0, 10, 1e-7}};
  const KernelCurve curve(points);
  for (const KernelCurve::Point& point : points) {
    EXPECT_NEAR(curve.Seconds(point.size, point.flops, point.bytes), point.seconds, 1e-9 * point.seconds);
  }
}

TEST(KernelCurveTest, FindsTheRatesOfTheModelThatMadeTheTimes) {
  std::vector<KernelCurve::Point> points;
  for (int64_t n = 1; n <= 1 << 16; n *= 4) {
    const double flops = 7.0 * static_cast<double>(n) * static_cast<double>(n), bytes = 12.0 * static_cast<double>(n);
    points.push_back({{n}, flops, bytes, 5e-6 + 1e-11 * flops + 3e-10 * bytes});
  }
  const KernelCurve curve(points);
  EXPECT_NEAR(curve.Seconds({3000}, 7.0 * 9e6, 36000), 5e-6 + 1e-11 * 7 * 9e6 + 3e-10 * 36000, 1e-9);
}

TEST(CostModelTest, TheBuiltInTableIsGood) {
  const CostModel& model = CostModel::Default();
  EXPECT_NE(model.machine(), "");
  EXPECT_GT(model.OfStep(), 0);
  // Kernels of nothing but their kind: each is known.
  Layer conv;
  conv.mutable_conv()->set_out_channels(8);
  conv.mutable_conv()->mutable_window()->add_kernel(3);
  LayerSizes sizes;
  sizes.input = {{4, 8, 66, 66}};
  sizes.output = {4, 8, 64, 64};
  sizes.parameter = {{8, 8, 3, 3}};
  const auto seconds = model.OfLayer(conv, sizes, true, true);
  EXPECT_GT(seconds.forward, 1e-5);
  EXPECT_LT(seconds.forward, 1);
  EXPECT_GT(seconds.backward, seconds.forward / 2);
}

TEST(CostModelTest, IsExactOnTheTable) {
  const auto model = CostModel::Create(Table());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto seconds = model->OfLayer(Linear(100), LinearSizes(100, 100, 100), true, true);
  EXPECT_NEAR(seconds.forward, 2e-3, 1e-9);
  EXPECT_NEAR(seconds.backward, 4e-3, 1e-9);
}

TEST(CostModelTest, MoreWorkTakesLonger) {
  const CostModel& model = CostModel::Default();
  double before = 0;
  for (int64_t rows = 16; rows <= 1 << 20; rows *= 4) {
    const double seconds = model.OfLayer(Linear(64), LinearSizes(rows, 64, 64), true, true).forward;
    EXPECT_GT(seconds, before) << rows << " rows";
    before = seconds;
  }
}

TEST(CostModelTest, ComputesOnlyTheGradientsThatAreAsked) {
  const auto model = CostModel::Create(Table());
  ASSERT_TRUE(model.ok());
  const LayerSizes sizes = LinearSizes(100, 100, 100);
  EXPECT_EQ(model->OfLayer(Linear(100), sizes, false, false).backward, 0);
  EXPECT_NEAR(model->OfLayer(Linear(100), sizes, true, false).backward, 2e-3, 1e-9);
  EXPECT_NEAR(model->OfLayer(Linear(100), sizes, false, true).backward, 2e-3, 1e-9);
}

TEST(CostModelTest, AnEmptyPartTakesACallOnly) {
  const auto model = CostModel::Create(Table());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->OfLayer(Linear(100), LinearSizes(0, 100, 100), true, true).forward, 1e-6);
}

TEST(CostModelTest, AKindThatTheTableLacksIsLikeACopy) {
  const auto model = CostModel::Create(Table());
  ASSERT_TRUE(model.ok());
  Layer layer;
  layer.mutable_softmax();
  LayerSizes sizes;
  sizes.input = {{1000}};
  sizes.output = {1000};
  EXPECT_GE(model->OfLayer(layer, sizes, true, false).forward, 4e-6);
}

TEST(CostModelTest, AddsUpAMovement) {
  const auto model = CostModel::Create(Table());
  ASSERT_TRUE(model.ok());
  RankTraffic traffic;
  traffic.bytes_sent = 100;
  traffic.bytes_received = 200;
  traffic.messages_sent = 1;
  traffic.messages_received = 2;
  traffic.bytes_kept = 50;
  traffic.bytes_added = 10;
  traffic.rounds = 2;
  EXPECT_NEAR(model->OfMovement(traffic), 2e-5 + 3e-6 + 300e-9 + 350 * 2e-9 + 10 * 4e-9, 1e-15);
  EXPECT_EQ(model->OfMovement(traffic), model->OfMovement(traffic, "network"));
  EXPECT_EQ(model->OfMovement({}), 0);
}

TEST(CostModelTest, IsFiniteWhateverTheSizes) {
  const CostModel& model = CostModel::Default();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto seconds = model.OfLayer(Linear(4000000000u), LinearSizes(kMost, kMost, kMost), true, true);
  EXPECT_LE(seconds.forward, 1e12);
  EXPECT_GE(seconds.forward, 0);
  RankTraffic traffic;
  traffic.bytes_sent = traffic.bytes_kept = traffic.messages_sent = kMost;
  EXPECT_LE(model.OfMovement(traffic), 1e12);
  Optimizer optimizer;
  optimizer.mutable_adam();
  EXPECT_LE(model.OfUpdate(optimizer, kMost), 1e12);
}

TEST(RateCheckTest, RefusesHostileTables) {
  struct Case {
    const char* what;
    void (*change)(RateTable&);
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{
           {"empty", [](RateTable& t) { t.clear_kernel(); }, "has no kernel"},
           {"too many",
            [](RateTable& t) {
              for (int i = 0; i < 5000; ++i) *t.add_kernel() = t.kernel(0);
            },
            "at most 4096"},
           {"NaN", [](RateTable& t) { t.mutable_kernel(1)->set_flops(std::numeric_limits<double>::quiet_NaN()); },
            "kernel[1].flops"},
           {"infinite", [](RateTable& t) { t.set_step_seconds(std::numeric_limits<double>::infinity()); },
            "step_seconds"},
           {"negative", [](RateTable& t) { t.mutable_kernel(0)->set_backward_seconds(-1); },
            "kernel[0].backward_seconds is -1"},
           {"no time", [](RateTable& t) { t.mutable_kernel(0)->set_forward_seconds(0); }, "takes some time"},
           {"size", [](RateTable& t) { t.mutable_kernel(0)->set_size(0, -5); }, "sizes are 0 or more"},
           {"sizes",
            [](RateTable& t) {
              for (int i = 0; i < 20; ++i) t.mutable_kernel(0)->add_size(1);
            },
            "at most 16 are allowed"},
           {"type", [](RateTable& t) { t.mutable_kernel(0)->set_dtype("float31"); }, "kernel[0].dtype"},
           {"kind", [](RateTable& t) { t.mutable_kernel(0)->set_kind(std::string(1000, 'x')); }, "has 1000 bytes"},
           {"machine", [](RateTable& t) { t.set_machine("\x1b[2J"); }, "not printable"},
           {"lane", [](RateTable& t) { t.mutable_lane(0)->set_lane("pigeon"); }, "\"memory\" or \"network\""},
       }) {
    RateTable table = Table();
    c.change(table);
    EXPECT_THAT(std::string(CheckRates(table).message()), HasSubstr(c.expected)) << c.what;
    EXPECT_FALSE(CostModel::Create(table).ok()) << c.what;
  }
}

TEST(RateCheckTest, TextIsReadAsItWasWritten) {
  const auto read = ParseRates(RatesText(Table()), "rates");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), Table().SerializeAsString());
  EXPECT_THAT(std::string(ParseRates("kernel { kind: 7 }", "rates").status().message()), HasSubstr("rates:1:"));
  EXPECT_FALSE(ParseRates("", "rates").ok());
}

TEST(RateMergeTest, TakesTheMeanOfWhatAllHave) {
  RateTable other = Table();
  other.mutable_kernel(0)->set_forward_seconds(3e-5);
  other.mutable_kernel()->RemoveLast();
  const auto merged = MergeRates({Table(), other});
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_EQ(merged->kernel_size(), 2);
  EXPECT_DOUBLE_EQ(merged->kernel(0).forward_seconds(), 2e-5);
  EXPECT_DOUBLE_EQ(merged->kernel(1).forward_seconds(), 2e-3);
}

}  // namespace
}  // namespace adjoin
