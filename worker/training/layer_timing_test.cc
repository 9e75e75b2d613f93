// What the ranks have measured of their layers, brought together on rank 0.
#include "worker/training/layer_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

Plan PlanOf(const std::vector<std::string>& layers, uint64_t every) {
  Plan plan;
  plan.mutable_spec()->mutable_train()->set_measure_layers_every(every);
  ProgramPlan& program = *plan.add_program();
  program.set_name("train");
  for (const std::string& name : layers) program.add_layer()->set_name(name);
  return plan;
}

// What a rank has measured: any numbers that differ from rank to rank, the last rank's not all the largest.
LayerSeconds Measured(int rank, int layer) {
  return {1.0 + rank, 10.0 - rank, 0.25 * layer, rank == 1 ? 7.0 + layer : 0.5};
}

TEST(LayerTimingTest, MeansAndLongestAreThoseOfAllRanks) {
  const uint64_t seed = TestSeed();
  const std::vector<std::string> names = {"conv1", "pool1", "fc"};
  for (const int ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(ranks);
    const Plan plan = PlanOf(names, 4);
    std::vector<MeasuredLayers> found(static_cast<size_t>(ranks));
    const absl::Status status =
        RunRanks(ranks, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) -> absl::Status {
          HostMemory memory;
          Communicator communicator(&transport, &memory, {});
          ADJOIN_ASSIGN_OR_RETURN(const auto timing, LayerTiming::Create(plan, &communicator));
          std::vector<LayerSeconds> mine;
          for (int i = 0; i < timing->layers(); ++i) mine.push_back(Measured(transport.rank(), i));
          for (int times = 0; times < 2; ++times) {
            ADJOIN_ASSIGN_OR_RETURN(found[static_cast<size_t>(transport.rank())],
                                    timing->Collect(mine, 100.0 + transport.rank()));
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status << " (seed " << seed << ")";
    ASSERT_EQ(found[0].layer.size(), names.size());
    EXPECT_DOUBLE_EQ(found[0].longest_step, 99.0 + ranks);
    EXPECT_DOUBLE_EQ(found[0].mean_step, 100.0 + (ranks - 1) / 2.0);
    for (int i = 0; i < 3; ++i) {
      LayerSeconds mean, most;
      double most_sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const LayerSeconds of = Measured(rank, i);
        for (double LayerSeconds::*number :
             {&LayerSeconds::forward, &LayerSeconds::backward, &LayerSeconds::movement, &LayerSeconds::wait}) {
          mean.*number += of.*number / ranks;
          most.*number = std::max(most.*number, of.*number);
        }
        most_sum = std::max(most_sum, of.sum());
      }
      const MeasuredLayers::Layer& layer = found[0].layer[static_cast<size_t>(i)];
      EXPECT_EQ(layer.name, names[static_cast<size_t>(i)]);
      EXPECT_NEAR(layer.mean.forward, mean.forward, 1e-12);
      EXPECT_NEAR(layer.mean.backward, mean.backward, 1e-12);
      EXPECT_NEAR(layer.mean.movement, mean.movement, 1e-12);
      EXPECT_NEAR(layer.mean.wait, mean.wait, 1e-12);
      EXPECT_EQ(layer.most.forward, most.forward);
      EXPECT_EQ(layer.most.backward, most.backward);
      EXPECT_EQ(layer.most.movement, most.movement);
      EXPECT_EQ(layer.most.wait, most.wait);
      EXPECT_EQ(layer.most_sum, most_sum);
    }
    for (int rank = 1; rank < ranks; ++rank) EXPECT_TRUE(found[static_cast<size_t>(rank)].layer.empty());
  }
}

TEST(LayerTimingTest, AJobMeasuresEverySoManySteps) {
  const absl::Status status = RunRanks(1, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    ADJOIN_ASSIGN_OR_RETURN(const auto none, LayerTiming::Create(PlanOf({"a"}, 0), &communicator));
    EXPECT_EQ(none, nullptr);
    ADJOIN_ASSIGN_OR_RETURN(const auto timing, LayerTiming::Create(PlanOf({"a"}, 3), &communicator));
    std::vector<int64_t> due;
    for (int64_t step = 1; step < 10; ++step) {
      if (timing->IsDue(step)) due.push_back(step);
    }
    EXPECT_EQ(due, (std::vector<int64_t>{3, 6, 9}));
    ADJOIN_ASSIGN_OR_RETURN(const auto seldom, LayerTiming::Create(PlanOf({"a"}, ~uint64_t{0}), &communicator));
    EXPECT_FALSE(seldom->IsDue(1) || seldom->IsDue(int64_t{1} << 62));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace adjoin
