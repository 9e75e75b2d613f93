#include "layers/parameters.h"

#include <gtest/gtest.h>

#include "layers/plan/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

Plan PlanWithHome(const Layout& home) {
  Plan plan;
  ParameterPlan* weight = plan.add_parameter();
  weight->set_name("fc.weight");
  weight->set_fan_in(7);
  *weight->mutable_home() = ToProto(home);
  ParameterPlan* frozen = plan.add_parameter();
  frozen->set_name("fc.bias");
  frozen->set_fan_in(7);
  frozen->set_frozen(true);
  *frozen->mutable_home() = ToProto(Layout::Owner({5}, DType::kFloat32, 1));
  return plan;
}

torch::Tensor PartOf(const torch::Tensor& whole, const Box& box) {
  torch::Tensor part = whole;
  for (int dim = 0; dim < box.dims(); ++dim) part = part.narrow(dim, box[dim].lo, box[dim].size());
  return part;
}

TEST(ParametersTest, EveryHomeDrawsTheSameValues) {
  const std::vector<int64_t> shape = {5, 7};
  auto serial = Parameters::Create(PlanWithHome(Layout::Owner(shape, DType::kFloat64, 0)), 0);
  ASSERT_TRUE(serial.ok()) << serial.status();
  serial->Initialise(3);
  const torch::Tensor whole = serial->tensor(0).detach();
  const double bound = 1 / std::sqrt(7.0);
  EXPECT_LE(whole.abs().max().item<double>(), bound);
  EXPECT_GT(whole.max().item<double>(), 0.7 * bound);
  EXPECT_LT(whole.min().item<double>(), -0.7 * bound);

  const std::vector<Layout> homes = {*Layout::Replicated(shape, DType::kFloat64, {0, 2}),
                                     *Layout::Partition(shape, DType::kFloat64, {2, 2}, {3, 1, 0, 2}),
                                     *Layout::Partition(shape, DType::kFloat64, {1, 3}, {0, 1, 2}, {{1, {4, 0, 3}}})};
  for (const Layout& home : homes) {
    for (int rank = 0; rank < 4; ++rank) {
      auto parameters = Parameters::Create(PlanWithHome(home), rank);
      ASSERT_TRUE(parameters.ok()) << parameters.status();
      parameters->Initialise(3);
      EXPECT_TRUE(torch::equal(parameters->tensor(0).detach(), PartOf(whole, home.BoxOf(rank)))) << home.ToString();
      EXPECT_EQ(parameters->tensor(1).numel(), rank == 1 ? 5 : 0);
    }
  }
}

TEST(ParametersTest, FrozenParametersNeedNoGradient) {
  auto parameters = Parameters::Create(PlanWithHome(Layout::Owner({5, 7}, DType::kFloat64, 0)), 1);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_TRUE(parameters->tensor(0).requires_grad());
  EXPECT_EQ(parameters->tensor(0).sizes(), torch::IntArrayRef({0, 0}));
  EXPECT_FALSE(parameters->tensor(1).requires_grad());
  EXPECT_EQ(parameters->tensor(1).scalar_type(), torch::kFloat32);
}

TEST(ParametersTest, AConstantIsTheSameEverywhere) {
  Plan plan = PlanWithHome(*Layout::Replicated({}, DType::kInt64, {0, 1}));
  plan.mutable_parameter(0)->set_frozen(true);
  for (ParameterPlan& entry : *plan.mutable_parameter()) {
    entry.mutable_init()->set_kind("constant");
    entry.mutable_init()->set_value(3);
  }
  auto parameters = Parameters::Create(plan, 1);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  parameters->Initialise(3);
  EXPECT_EQ(parameters->tensor(0).item<int64_t>(), 3);
  EXPECT_TRUE(torch::equal(parameters->tensor(1), torch::full({5}, 3.0f)));
  plan.mutable_parameter(1)->mutable_init()->set_kind("normal");
  EXPECT_EQ(Parameters::Create(plan, 1).status().message(),
            "parameter \"fc.bias\" has init \"normal\"; known: \"constant\"");
}

TEST(ParametersTest, SetFromGlobalTakesThisRanksBox) {
  const Layout home = *Layout::Partition({5, 7}, DType::kFloat64, {2, 1}, {1, 0});
  auto parameters = Parameters::Create(PlanWithHome(home), 0);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  const torch::Tensor leaf = parameters->tensor(0);
  const torch::Tensor whole = torch::arange(35, torch::kFloat64).reshape({5, 7});
  EXPECT_TRUE(parameters->SetFromGlobal(0, whole).ok());
  EXPECT_TRUE(torch::equal(leaf.detach(), whole.narrow(0, 3, 2)));

  const absl::Status wrong = parameters->SetFromGlobal(0, whole.t());
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "parameter \"fc.weight\" has shape 5x7, but was given 7x5");
}

TEST(ParametersTest, UnknownNameListsTheKnownOnes) {
  auto parameters = Parameters::Create(PlanWithHome(Layout::Owner({5, 7}, DType::kFloat64, 0)), 0);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(*parameters->IndexOf("fc.bias"), 1);
  EXPECT_EQ(parameters->IndexOf("fc.scale").status().message(),
            "no parameter \"fc.scale\"; known: fc.weight, fc.bias");
}

}  // namespace
}  // namespace adjoin
