#include "layers/network/parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/types.h>

#include "layers/rules/layout_proto.h"
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

Init InitOf(const std::string& kind, double gain = 0, double value = 0) {
  Init init;
  init.set_kind(kind);
  init.set_gain(gain);
  init.set_value(value);
  return init;
}

// The parts of a weight with this init on four ranks, which must be parts of what one rank draws; returns that.
torch::Tensor Drawn(const Init& init, const std::vector<int64_t>& shape) {
  const auto draw = [&](const Layout& home, int rank) {
    Plan plan = PlanWithHome(home);
    *plan.mutable_parameter(0)->mutable_init() = init;
    auto parameters = Parameters::Create(plan, rank);
    if (!parameters.ok()) ADD_FAILURE() << parameters.status();
    parameters->Initialise(3);
    return parameters->tensor(0).detach().clone();
  };
  const torch::Tensor whole = draw(Layout::Owner(shape, DType::kFloat64, 0), 0);
  std::vector<int64_t> parts(shape.size(), 1);
  parts[0] = parts[1] = 2;
  const Layout cut = *Layout::Partition(shape, DType::kFloat64, parts, {3, 1, 0, 2});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(torch::equal(draw(cut, rank), PartOf(whole, cut.BoxOf(rank)))) << init.kind();
  }
  return whole;
}

// Against what PyTorch's own functions draw: mean, standard deviation and the largest element, of 96000 elements.
TEST(ParametersTest, SchemesSpreadAsPyTorchs) {
  namespace init = torch::nn::init;
  const std::vector<int64_t> shape = {60, 100, 4, 4};  // fan_in 1600, fan_out 960
  const auto compare = [&](const Init& scheme, const torch::Tensor& expected) {
    const torch::Tensor drawn = Drawn(scheme, shape);
    const double deviation = expected.std().item<double>();
    EXPECT_NEAR(drawn.mean().item<double>(), expected.mean().item<double>(), 0.02 * deviation) << scheme.kind();
    EXPECT_NEAR(drawn.std().item<double>(), deviation, 0.02 * deviation) << scheme.kind();
    const double largest = expected.abs().max().item<double>();
    const bool bounded = scheme.kind().find("uniform") != std::string::npos || scheme.kind() == "trunc_normal";
    EXPECT_NEAR(drawn.abs().max().item<double>(), largest, (bounded ? 0.01 : 0.25) * largest) << scheme.kind();
  };
  torch::manual_seed(1);
  const auto empty = [&] { return torch::empty(shape, torch::kFloat64); };
  const auto fan_out = torch::kFanOut;
  compare(InitOf("uniform", 0.5, 0.5), init::uniform_(empty()));
  compare(InitOf("normal", 2, 1), init::normal_(empty(), 1, 2));
  compare(InitOf("xavier_uniform"), init::xavier_uniform_(empty()));
  compare(InitOf("xavier_normal", 3), init::xavier_normal_(empty(), 3));
  compare(InitOf("kaiming_uniform"), init::kaiming_uniform_(empty()));
  compare(InitOf("kaiming_normal"), init::kaiming_normal_(empty()));
  compare(InitOf("kaiming_normal", 1), init::kaiming_normal_(empty(), 0, torch::kFanIn, torch::kLinear));
  compare(InitOf("kaiming_normal_fan_out"), init::kaiming_normal_(empty(), 0, fan_out, torch::kReLU));
  compare(InitOf("kaiming_uniform_fan_out"), init::kaiming_uniform_(empty(), 0, fan_out, torch::kReLU));
  // PyTorch has it in Python only: a normal distribution between -2 and 2, which of one with standard deviation 1
  // leaves 0.8796 of it; one with 0.02 is as good as whole, and one around 1 with 1 has the mean 1 + (phi(3) - phi(1))
  // / (Phi(1) - Phi(-3)).
  const torch::Tensor truncated = Drawn(InitOf("trunc_normal", 1, 0), shape);
  EXPECT_NEAR(truncated.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(truncated.std().item<double>(), 0.8796, 0.01);
  EXPECT_LE(truncated.abs().max().item<double>(), 2);
  EXPECT_GT(truncated.abs().max().item<double>(), 1.99);
  const torch::Tensor narrow = Drawn(InitOf("trunc_normal", 0.02, 0), shape);
  EXPECT_NEAR(narrow.std().item<double>(), 0.02, 0.0003);
  EXPECT_GT(narrow.abs().max().item<double>(), 0.06);
  EXPECT_NEAR(Drawn(InitOf("trunc_normal", 1, 1), shape).mean().item<double>(), 0.7169, 0.01);
}

TEST(ParametersTest, SchemesThatDrawNothing) {
  EXPECT_TRUE(torch::equal(Drawn(InitOf("ones"), {3, 5}), torch::ones({3, 5}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(Drawn(InitOf("zeros"), {3, 5}), torch::zeros({3, 5}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(Drawn(InitOf("constant", 0, -0.5), {3, 5}), torch::full({3, 5}, -0.5, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(Drawn(InitOf("eye"), {3, 5}), torch::eye(3, 5, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(Drawn(InitOf("dirac"), {4, 3, 3, 2}),
                           torch::nn::init::dirac_(torch::empty({4, 3, 3, 2}, torch::kFloat64))));
  Init values = InitOf("values");
  for (int i = 0; i < 15; ++i) values.add_values(i * 0.25);
  EXPECT_TRUE(torch::equal(Drawn(values, {3, 5}), torch::arange(15, torch::kFloat64).reshape({3, 5}) * 0.25));
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
  plan.mutable_parameter(1)->mutable_init()->set_kind("norm");
  const std::string error(Parameters::Create(plan, 1).status().message());
  EXPECT_EQ(error.rfind("parameter \"fc.bias\": init.kind \"norm\" is not known", 0), 0u) << error;
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
  EXPECT_EQ(parameters->IndexOf("fc.scale").status().message(), "no parameter \"fc.scale\"; known: fc.weight, fc.bias");
}

}  // namespace
}  // namespace adjoin
