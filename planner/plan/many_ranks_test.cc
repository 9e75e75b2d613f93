// Plans for many ranks: their bytes against the schedules of all ranks, and what large jobs leave out.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/planner.h"
#include "planner/plan/planning_jobs.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

absl::StatusOr<Plan> PlanOf(const std::string& text) {
  const auto spec = ParseSpec(text, "job.textproto");
  if (!spec.ok()) return spec.status();
  return Planner::Build(spec->spec, {{"train", 1 << 20}}, BuiltinLayerRules(), &spec->locations);
}

std::vector<const OperatorPlan*> MovementsOf(const Plan& plan) {
  std::vector<const OperatorPlan*> movements;
  for (const OperatorPlan& op : plan.program(0).op()) movements.push_back(&op);
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.has_sync()) movements.push_back(&parameter.sync());
    movements.push_back(&parameter.collect());
  }
  return movements;
}

// Checks every number of bytes against the schedules of all ranks.
void ExpectExactBytes(const Plan& plan) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<int64_t> step(ranks);
  for (const OperatorPlan* op : MovementsOf(plan)) {
    const auto ends = DistributionsOf(*op);
    ASSERT_TRUE(ends.ok()) << ends.status();
    const auto traffic = TrafficBySchedules(ends->from, ends->to);
    ASSERT_TRUE(traffic.ok()) << traffic.status();
    EXPECT_EQ(op->bytes_forward_sum(), traffic->forward.total_bytes) << op->name();
    EXPECT_EQ(op->bytes_adjoint_sum(), op->differentiable() ? traffic->adjoint.total_bytes : 0) << op->name();
    const bool in_step = op->name().rfind("collect.", 0) != 0;
    for (int rank = 0; rank < static_cast<int>(traffic->forward.rank.size()); ++rank) {
      const int64_t forward = traffic->forward.rank[rank].bytes_sent;
      const int64_t adjoint = op->differentiable() ? traffic->adjoint.rank[rank].bytes_sent : 0;
      if (in_step) step[rank] += forward + adjoint;
      if (op->bytes_forward().empty()) continue;
      ASSERT_EQ(op->bytes_forward(rank), forward) << op->name() << " rank " << rank;
      if (op->differentiable()) {
        ASSERT_EQ(op->bytes_adjoint(rank), adjoint) << op->name() << " rank " << rank;
      }
    }
    if (!traffic->forward.algorithm.empty()) {
      EXPECT_EQ(op->algorithm(), traffic->forward.algorithm);
    }
  }
  EXPECT_EQ(std::vector<int64_t>(plan.program(0).bytes_per_step().begin(), plan.program(0).bytes_per_step().end()),
            step);
}

TEST(ManyRanksTest, BytesOfCosmoFlowAreThoseOfTheSchedules) {
  const auto plan = PlanOf(CosmoFlowJob(128));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectExactBytes(*plan);
}

// The same ranks in another order, and parts of other sizes.
TEST(ManyRanksTest, BytesOfReversedRanksAndUnevenCutsAreThoseOfTheSchedules) {
  std::string ranks;
  for (int rank = 127; rank >= 0; --rank) absl::StrAppend(&ranks, rank, rank > 0 ? "," : "");
  const std::string text = absl::StrReplaceAll(
      CosmoFlowJob(128), {{"partition: [2,1,4,4,4] }", absl::StrCat("partition: [2,1,4,4,4] rank: [", ranks,
                                                                    "] cut { dim: 2 size: [100,28,256,128] } }")}});
  ASSERT_NE(text, CosmoFlowJob(128));
  const auto plan = PlanOf(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectExactBytes(*plan);
}

TEST(ManyRanksTest, LargeJobsHaveSumsInsteadOfLists) {
  const auto plan = PlanOf(CosmoFlowJob(2048));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->program(0).bytes_per_step_size(), 2048);
  int64_t sum = 0, step = 0;
  for (const OperatorPlan* op : MovementsOf(*plan)) {
    EXPECT_TRUE(op->bytes_forward().empty() && op->bytes_adjoint().empty()) << op->name();
    const auto traffic = TrafficOf(*op);
    ASSERT_TRUE(traffic.ok()) << traffic.status();
    EXPECT_EQ(op->bytes_forward_sum(), traffic->forward.total_bytes) << op->name();
    if (op->name().rfind("collect.", 0) != 0) sum += op->bytes_forward_sum() + op->bytes_adjoint_sum();
  }
  for (const int64_t bytes : plan->program(0).bytes_per_step()) step += bytes;
  EXPECT_EQ(step, sum);
  EXPECT_LT(plan->ByteSizeLong(), size_t{1} << 20);
  EXPECT_NE(Planner::Explain(*plan).find("on ranks 0-2047"), std::string::npos);
}

// What a halo that is read from the files would have sent is not counted, with lists and without.
TEST(ManyRanksTest, HalosOfFilesAreNotSent) {
  for (const int ranks : {128, 2048}) {
    // With another padding on one side conv1 reads its part with a halo, and not edges beside it.
    auto plan = PlanOf(absl::StrReplaceAll(ResNet3dJob(ranks), {{"pad_lo: 3 ", "pad_lo: 3 pad_hi: 2 "}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->program(0).op(0).name(), "conv1.x");
    const std::vector<int64_t> before(plan->program(0).bytes_per_step().begin(),
                                      plan->program(0).bytes_per_step().end());
    const auto traffic = TrafficOf(plan->program(0).op(0));
    ASSERT_TRUE(traffic.ok()) << traffic.status();
    EXPECT_GT(traffic->forward.total_bytes, 0);
    ReadHalosFromFiles(&*plan);
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(plan->program(0).bytes_per_step(rank), before[rank] - traffic->forward.rank[rank].bytes_sent);
    }
  }
}

TEST(ManyRanksTest, TheMostRanksArePlanned) {
  const auto plan = PlanOf(CosmoFlowJob(Planner::kMaxRanks));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(plan->ByteSizeLong(), size_t{4} << 20);
  const auto more = PlanOf(CosmoFlowJob(2 * Planner::kMaxRanks));
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.status().message().find("it must be from 1 to 32768"), std::string::npos) << more.status();
}

}  // namespace
}  // namespace adjoin
