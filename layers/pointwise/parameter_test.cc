// Parameters of a module itself, added, multiplied and expanded in any layout, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr const char* kHomes[] = {"", "home: OWNER ", "home: REPLICATED ", "home: SHARDED "};

// With "expand", "sum" reads x beside the result: else x's gradient would be zero whatever the layer does.
std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 6);
  const std::string combine = random.Of<std::string>({"add", "multiply", "expand"});
  std::vector<int64_t> used;
  if (combine == "expand") {
    used = shape;
    used[0] = 1;
    if (random.OneIn(2)) used.back() = random.Between(1, 6);
  } else {
    used.assign(shape.end() - random.Between(1, static_cast<int64_t>(shape.size())), shape.end());
    for (int64_t& extent : used) extent = random.OneIn(4) ? 1 : extent;
    if (used.size() == shape.size()) used[0] = 1;
  }
  std::vector<int64_t> whole = used;
  const bool is_part = random.OneIn(2);
  for (size_t dim = combine == "expand" ? 1 : 0; dim < whole.size() && is_part; ++dim)
    whole[dim] += random.Between(0, 3);
  Tensors parameters;
  parameters["named.so"] = random.Normal(whole).requires_grad_();
  Tensor part = parameters["named.so"];
  for (size_t dim = 0; dim < used.size(); ++dim) part = part.narrow(static_cast<int64_t>(dim), 0, used[dim]);
  const Tensor x = random.Normal(shape).requires_grad_();
  std::vector<int64_t> expanded = used;
  expanded[0] = shape[0];
  const Tensor y = combine == "add" ? x + part : combine == "multiply" ? x * part : part.expand(expanded);
  const std::string op = absl::StrCat(kHomes[random.Between(0, 3)],
                                      "parameter_name { key: \"weight\" value: \"named.so\" } parameter { shape: [",
                                      absl::StrJoin(whole, ", "), "] combine: \"", combine, "\"",
                                      is_part ? absl::StrCat(" length: [", absl::StrJoin(used, ", "), "]") : "", " }");
  JobParts job = RandomLayerJob(random, op, random.Between(1, 6), shape, y.sizes().vec());
  if (combine != "expand") return CompareLayer(job, random, x, parameters, y, transport);
  return CompareLayer(job, random, {{"x", x}}, parameters, {{"y", y + 0 * x.sum()}}, transport);
}

TEST(ParameterTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(ParameterTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

absl::StatusOr<Plan> PlanOfLayers(const std::string& layers) {
  JobParts job;
  job.ranks = 1;
  job.batch = 2;
  job.x_shape = {3, 4};
  job.last_dims = 3;
  job.layers = layers;
  return PlanOf(JobText(job), {{"data", job.batch}});
}

std::string ErrorOf(const std::string& layers) {
  const auto plan = PlanOfLayers(layers);
  return plan.ok() ? "" : std::string(plan.status().message());
}

TEST(ParameterTest, IsABufferWhereTheJobSaysSo) {
  const auto plan =
      PlanOfLayers("layer { name: \"y\" input: \"x\" parameter { shape: 4 combine: \"multiply\" buffer: true } }\n");
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const ParameterPlan& parameter : plan->parameter()) {
    if (parameter.name() != "y.weight") continue;
    EXPECT_TRUE(parameter.buffer());
    EXPECT_TRUE(parameter.frozen());
    EXPECT_EQ(parameter.init().value(), 1);
    return;
  }
  ADD_FAILURE() << "the plan has no y.weight";
}

TEST(ParameterTest, RefusesWhatDoesNotFit) {
  const auto refuses = [](const std::string& op, const std::string& text) {
    const std::string error = ErrorOf(absl::StrCat("layer { name: \"y\" input: \"x\" ", op, " }\n"));
    EXPECT_TRUE(absl::StrContains(error, text)) << op << ": " << error;
  };
  refuses("parameter { combine: \"add\" }", "parameter.shape is missing");
  refuses("parameter { shape: 0 combine: \"add\" }", "an extent is at least 1, not 0");
  refuses("parameter { shape: 4 }",
          "parameter.combine is missing; write \"add\", \"multiply\", \"expand\" or \"value\"");
  refuses("parameter { shape: 4 combine: \"sub\" }", "parameter.combine is \"sub\"");
  refuses("parameter { shape: 3 combine: \"add\" }", "a parameter of 3 is not for an input of 2x3x4");
  refuses("parameter { shape: [2, 3, 4] combine: \"add\" }", "1 beside the batch");
  refuses("parameter { shape: [1, 1, 3, 4] combine: \"add\" }", "is not for an input of 2x3x4");
  refuses("parameter { shape: [2, 4] combine: \"expand\" }", "expanded to the batch has 1 there");
  refuses("parameter { shape: [9, 4] length: 3 combine: \"add\" }", "parameter.length has 1 numbers");
  refuses("parameter { shape: [9, 4] length: [10, 4] combine: \"add\" }", "it is 10; the dim has 9 elements");
  refuses("parameter { shape: [9223372036854775807, 4] length: [3, 4] combine: \"add\" }", "elements");
  refuses("parameter_name { key: \"bias\" value: \"b\" } parameter { shape: 4 combine: \"add\" }",
          "the layer has no parameter \"bias\"; it has \"weight\"");
  refuses("parameter_name { key: \"weight\" value: \"a b\" } parameter { shape: 4 combine: \"add\" }", "\"a b\"");
  refuses("parameter_name { key: \"weight\" value: \"w\" } activation { fn: \"relu\" }", "leave parameter_name out");
}

TEST(ParameterTest, RefusesOneNameOfTwo) {
  const std::string named =
      " parameter_name { key: \"weight\" value: \"scale\" } parameter { shape: 4 combine: \"multiply\" } }\n";
  const std::string error = ErrorOf("layer { name: \"a\" input: \"x\"" + named + "layer { name: \"y\"" + named);
  EXPECT_TRUE(absl::StrContains(error, "its parameter \"scale\" has the name of one of layer \"a\"")) << error;
}

// A buffer does not change, so two layers may use one.
TEST(ParameterTest, SharesABuffer) {
  const std::string op = " parameter { shape: 4 combine: \"multiply\" buffer: true } }\n";
  EXPECT_EQ(ErrorOf("layer { name: \"a\" input: \"x\"" + op + "layer { name: \"y\" weights_of: \"a\"" + op), "");
}

}  // namespace
}  // namespace adjoin
