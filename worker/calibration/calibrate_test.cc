// A calibration in a hurry: every kernel is measured, and a model can be made of them.
#include "worker/calibration/calibrate.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "planner/time/cost_model.h"
#include "planner/time/rate_merge.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

TEST(CalibrateTest, TwoRanksMeasureEachKernelAndTheLane) {
  std::vector<RateTable> tables(2);
  std::vector<std::string> left_out;
  const absl::Status status = RunRanks(
      2, TransportKind::kInMemory, 1,
      [&](Transport& transport) {
        const bool first = transport.rank() == 0;
        auto rates = Calibrate(transport, absl::Seconds(0.5), [&](const std::string& line) {
          if (first) left_out.push_back(line);
        });
        if (rates.ok()) tables[transport.rank()] = *rates;
        return rates.status();
      },
      absl::Minutes(4));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(left_out.empty()) << left_out[0];
  const auto merged = MergeRates(tables);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->ranks_at_once(), 2);
  EXPECT_EQ(merged->lane_size(), 1);
  std::set<std::string> kinds;
  for (const KernelRate& rate : merged->kernel()) kinds.insert(rate.kind());
  for (const char* kind : {"conv", "conv.columns", "conv.transposed", "conv.first", "linear", "attention", "norm.batch",
                           "activation", "copy", "loss.classes", "update.adam", "sum"}) {
    EXPECT_EQ(kinds.count(kind), 1u) << kind;
  }
  EXPECT_TRUE(CostModel::Create(*merged).ok());
}

}  // namespace
}  // namespace adjoin
