// Every job in examples/mnist is planned, and the plan agrees with the job's comments.
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

absl::StatusOr<Plan> PlanOf(const std::string& name) {
  const std::string path = "examples/mnist/" + name + ".textproto";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto parsed = ParseSpec(text.str(), path);
  if (!parsed.ok()) return parsed.status();
  return Planner::Build(parsed->spec, {{"train", 10000}, {"test", 2000}}, BuiltinLayerRules(), &parsed->locations);
}

class ExampleJob : public testing::TestWithParam<std::string> {};

TEST_P(ExampleJob, IsPlanned) {
  auto plan = PlanOf(GetParam());
  ASSERT_TRUE(plan.ok()) << plan.status();
  // 10,000 and 2,000 samples in batches of 64: 16 are left over in both.
  ASSERT_EQ(plan->program_size(), 4);
  EXPECT_EQ(plan->program(0).name(), "train");
  EXPECT_EQ(plan->program(1).name(), "train_tail");
  EXPECT_EQ(plan->program(1).batch(), 16);
  EXPECT_EQ(plan->program(3).name(), "evaluate_tail");
  EXPECT_EQ(plan->program(3).batch(), 16);
  EXPECT_EQ(plan->parameter_size(), 10);
  std::set<uint32_t> ids;
  int operators = 0;
  for (const ProgramPlan& program : plan->program()) {
    EXPECT_EQ(program.op(program.report_op()).name(), "report");
    EXPECT_EQ(program.loss_size(), 1);
    for (const OperatorPlan& op : program.op()) {
      ids.insert(op.id());
      ++operators;
      EXPECT_TRUE(DistributionsOf(op).ok()) << op.name();
      EXPECT_FALSE(op.differentiable() && !program.training());
    }
  }
  for (const ParameterPlan& parameter : plan->parameter()) {
    ids.insert(parameter.collect().id());
    ++operators;
    if (!parameter.has_sync()) continue;
    ids.insert(parameter.sync().id());
    ++operators;
  }
  EXPECT_EQ(static_cast<int>(ids.size()), operators);
  EXPECT_GE(*ids.begin(), 1u);
  std::cout << Planner::Explain(*plan);
}

INSTANTIATE_TEST_SUITE_P(All, ExampleJob,
                         testing::Values("lenet5-serial", "lenet5-spatial", "lenet5-sync-sgd", "lenet5-hybrid",
                                         "lenet5-two-stage"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace adjoin
