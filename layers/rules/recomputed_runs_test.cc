// The pieces in which layers are computed again, against all ways to cut small random programs.
#include "layers/rules/recomputed_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testing/test_seed.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

// Value 0 is a field of one cell. Layer i makes value i + 1 of `cells[i]` float32 cells from the value before it.
ProgramPlan ChainOf(const std::vector<int64_t>& cells) {
  ProgramPlan program;
  program.set_training(true);
  for (size_t i = 0; i <= cells.size(); ++i) {
    ValuePlan* value = program.add_value();
    value->set_needs_grad(i > 0);
    value->mutable_layout()->add_shape(i == 0 ? 1 : cells[i - 1]);
    value->mutable_layout()->set_dtype("float32");
    value->mutable_layout()->add_mesh(1);
    value->mutable_layout()->add_rank(0);
    value->mutable_layout()->add_placement("S(0)");
    if (i == 0) continue;
    LayerPlan* layer = program.add_layer();
    layer->mutable_spec()->set_recompute(true);
    layer->add_input(static_cast<uint32_t>(i) - 1);
    layer->set_output(static_cast<uint32_t>(i));
  }
  program.add_loss()->set_input(static_cast<uint32_t>(cells.size()));
  return program;
}

// What pieces with these first layers keep for each other, and make again at a time: float32 cells, counted from the
// program.
int64_t CostOf(const ProgramPlan& program, const std::set<int>& starts) {
  const int layers = program.layer_size();
  const auto piece_of = [&](int layer) {
    return std::distance(starts.begin(), starts.upper_bound(layer));  // from 1
  };
  std::vector<int64_t> made(starts.size() + 1);
  int64_t kept = 0;
  for (int maker = 0; maker < layers; ++maker) {
    const uint32_t value = program.layer(maker).output();
    const int64_t cells = program.value(static_cast<int>(value)).layout().shape(0);
    made[piece_of(maker)] += cells;
    bool read_elsewhere = false;
    for (int reader = 0; reader < layers; ++reader) {
      const auto& inputs = program.layer(reader).input();
      const bool reads = std::find(inputs.begin(), inputs.end(), value) != inputs.end();
      read_elsewhere |= reads && piece_of(reader) != piece_of(maker);
    }
    for (const LossPlan& loss : program.loss()) read_elsewhere |= loss.input() == value;
    if (read_elsewhere) kept += cells;
  }
  return kept + *std::max_element(made.begin(), made.end());
}

TEST(RecomputedRunsTest, NeedHardlyMoreMemoryThanTheBestWayToCut) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const int layers = static_cast<int>(random() % 11) + 1;
    std::vector<int64_t> cells;
    for (int i = 0; i < layers; ++i) cells.push_back(int64_t{1} << (random() % 8));
    ProgramPlan program = ChainOf(cells);
    for (int skips = static_cast<int>(random() % 4); skips > 0; --skips) {
      const int reader = static_cast<int>(random() % layers);
      program.mutable_layer(reader)->add_input(static_cast<uint32_t>(random() % (reader + 1)));
    }
    int64_t best = std::numeric_limits<int64_t>::max();
    for (unsigned mask = 0; mask < 1U << (layers - 1); ++mask) {
      std::set<int> starts = {0};
      for (int i = 1; i < layers; ++i) {
        if (mask >> (i - 1) & 1) starts.insert(i);
      }
      best = std::min(best, CostOf(program, starts));
    }
    const absl::StatusOr<std::vector<RecomputedRun>> runs = RecomputedRuns(program);
    ASSERT_TRUE(runs.ok()) << runs.status();
    std::set<int> starts;
    int next = 0;
    for (const RecomputedRun& run : *runs) {
      ASSERT_EQ(run.first, next) << "seed " << seed << ", round " << round;
      starts.insert(run.first);
      next = run.end;
    }
    ASSERT_EQ(next, layers);
    EXPECT_LE(CostOf(program, starts), 1.1 * static_cast<double>(best)) << "seed " << seed << ", round " << round;
  }
}

TEST(RecomputedRunsTest, KeepWhatOthersRead) {
  ProgramPlan program = ChainOf(std::vector<int64_t>(9, 16));
  program.mutable_layer(2)->mutable_spec()->set_recompute(false);
  program.mutable_layer(8)->add_input(1);
  const absl::StatusOr<std::vector<RecomputedRun>> runs = RecomputedRuns(program);
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_GE(runs->size(), 3);
  // Layers 0 and 1 stand alone; value 1 is read by the last layer, too.
  std::set<uint32_t> kept;
  for (const RecomputedRun& run : *runs) {
    EXPECT_TRUE(run.end <= 2 || run.first >= 3) << run.first << " to " << run.end;
    kept.insert(run.outputs.begin(), run.outputs.end());
  }
  EXPECT_EQ(kept.count(1), 1);
  EXPECT_EQ(kept.count(2), 1);
  EXPECT_EQ(kept.count(9), 1);
  EXPECT_EQ(runs->back().end, 9);
  EXPECT_NE(std::find(runs->back().inputs.begin(), runs->back().inputs.end(), 1), runs->back().inputs.end());
}

TEST(RecomputedRunsTest, NoneWithoutABackwardPass) {
  ProgramPlan program = ChainOf({4, 4, 4});
  for (ValuePlan& value : *program.mutable_value()) value.set_needs_grad(false);
  EXPECT_TRUE(RecomputedRuns(program)->empty());
  program = ChainOf({4, 4, 4});
  program.set_training(false);
  EXPECT_TRUE(RecomputedRuns(program)->empty());
}

TEST(RecomputedRunsTest, CutALongNetworkInTime) {
  const absl::StatusOr<std::vector<RecomputedRun>> runs = RecomputedRuns(ChainOf(std::vector<int64_t>(3000, 8)));
  ASSERT_TRUE(runs.ok()) << runs.status();
  // About as many pieces as a piece has layers.
  EXPECT_GT(runs->size(), 40);
  EXPECT_LT(runs->size(), 75);
}

}  // namespace
}  // namespace adjoin
