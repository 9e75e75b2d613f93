// Kernels x strides x dilations x paddings x boundaries x groups x cuts, one by one, equal LibTorch's on one rank.
//
// "Sampled" takes cases at random; "Whole" takes all of them, in parts that can run side by side
// (conv_whole_matrix_test).
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "absl/strings/str_cat.h"
#include "layers/conv/conv_cases.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

struct Channels {
  int64_t in, out, groups;
};

const std::vector<int64_t> kKernels = {1, 2, 3, 4, 5, 7};
// The last one is a transposed convolution.
const std::vector<std::string> kForms = {"zeros", "circular", "reflect", "replicate", "transposed"};
const std::vector<Channels> kChannels = {{2, 2, 1}, {4, 2, 2}, {2, 4, 2}};
const std::vector<std::vector<int64_t>> kCuts = {
    {8, 8}, {5, 5}, {9, 8}, {7, 7, 6}, {1, 8, 1}, {0, 9}, {4, 4, 3, 3, 3, 3}};
// What the second axis of a mesh cuts in two, if there is one.
enum class Second { kNothing, kBatch, kChannels, kSpatial };

struct MatrixCase {
  int64_t kernel, stride, dilation, padding;
  std::string form;
  Channels channels;
  std::vector<int64_t> cut;
  bool of_output;  // the cut is the output's, the input being cut evenly; else the other way round
  Second second;
};

// All cases of one kernel and form.
std::vector<MatrixCase> CasesOf(int64_t kernel, const std::string& form) {
  std::vector<MatrixCase> cases;
  for (int64_t stride = 1; stride <= 4; ++stride)
    for (int64_t dilation = 1; dilation <= 3; ++dilation)
      for (int64_t padding = 0; padding <= kernel; ++padding)
        for (const Channels& channels : kChannels)
          for (const std::vector<int64_t>& cut : kCuts)
            for (bool of_output : {false, true}) {
              cases.push_back({kernel, stride, dilation, padding, form, channels, cut, of_output, Second::kNothing});
              const Second second = static_cast<Second>(1 + cases.size() / 2 % 3);
              cases.push_back({kernel, stride, dilation, padding, form, channels, cut, of_output, second});
            }
  return cases;
}

int64_t Sum(const std::vector<int64_t>& numbers) {
  int64_t sum = 0;
  for (int64_t number : numbers) sum += number;
  return sum;
}

// The first spatial dim: its number of inputs, or 0 where there is no such case.
int64_t AddCutDim(const MatrixCase& c, ConvCase& conv) {
  const int64_t sum = Sum(c.cut), reach = c.dilation * (c.kernel - 1) + 1;
  const int64_t least = reach - 2 * c.padding;  // outputs of one input, transposed; inputs of one output
  int64_t n = sum, output_padding = 0;
  if (c.of_output && conv.transposed) {
    const int64_t steps = sum - least;
    output_padding = ((steps % c.stride) + c.stride) % c.stride;
    n = (steps - output_padding) / c.stride + 1;
  } else if (c.of_output) {
    n = (sum - 1) * c.stride + least;
  }
  conv.AddDim(c.kernel, c.stride, c.dilation, c.padding, c.padding, output_padding);
  return n >= 1 && conv.OutputSize(0, n) >= 1 ? n : 0;
}

std::string FieldText(const std::string& name, at::IntArrayRef shape) {
  return absl::StrCat(" field { name: \"", name, "\" shape: ", ListText(shape.slice(1).vec()), " idx { path: \"", name,
                      "\" } }");
}

std::string JobOf(const MatrixCase& c, const ConvCase& conv, const at::Tensor& x, const at::Tensor& y) {
  const int64_t parts = static_cast<int64_t>(c.cut.size()), twice = c.second == Second::kNothing ? 1 : 2;
  std::vector<int64_t> partition(x.dim(), 1);
  partition[2] = parts;
  if (c.second == Second::kBatch) partition[0] = 2;
  if (c.second == Second::kChannels) partition[1] = 2;
  if (c.second == Second::kSpatial) partition[3] = 2;
  const std::string even = absl::StrCat("partition: ", ListText(partition));
  const std::string cut = absl::StrCat(even, " cut { dim: 2 size: ", ListText(c.cut), " }");
  return absl::StrCat("name: \"case\" kind: TRAIN ranks: ", parts * twice,
                      " seed: 1 precision { compute: \"float64\" } layout { name: \"x\" ", c.of_output ? even : cut,
                      " } layout { name: \"y\" ", c.of_output ? cut : even,
                      " }\nlayer { name: \"y\" input: \"x\" x: \"x\" y: \"y\" ", conv.Text(),
                      " }\nloss { kind: \"mse\" input: \"y\" target: \"t\" reduction: \"sum\" }\n",
                      "dataset { name: \"data\"", FieldText("x", x.sizes()), FieldText("t", y.sizes()), " }\n",
                      "train { dataset: \"data\" batch: ", x.size(0), " steps: 1 optimizer { sgd { lr: 0.1 } } }\n");
}

// "" where all is equal, and where there is no such case; `count` counts those that there are.
std::string Compare(const MatrixCase& c, uint64_t seed, int64_t& count) {
  ConvCase conv;
  conv.transposed = c.form == "transposed";
  if (!conv.transposed) conv.boundary = c.form;
  conv.in = c.channels.in;
  conv.out = c.channels.out;
  conv.groups = c.channels.groups;
  const int64_t n = AddCutDim(c, conv);
  if (n == 0) return "";
  std::vector<int64_t> x_shape = {c.second == Second::kBatch ? 2 : 1, conv.in, n};
  if (c.second == Second::kSpatial) {
    conv.AddDim(2, 1, 1, 1, 0);
    x_shape.push_back(3);
  }
  ++count;
  RandomJobs random(seed);
  at::Tensor x = random.Normal(x_shape).requires_grad_();
  at::Tensor weight = random.Normal(conv.WeightShape()).requires_grad_();
  at::Tensor bias = random.Normal({conv.out}).requires_grad_();
  const at::Tensor y = conv.Serial(x, weight, bias);
  const at::Tensor target = random.Normal(y.sizes().vec());
  (y - target).square().sum().backward();

  const std::string job = JobOf(c, conv, x, y);
  absl::StatusOr<Plan> plan = PlanOf(job, {{"data", x.size(0)}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", job);
  MakeFieldsDifferentiable(*plan, "train");
  StepInput input;
  input.fields = {{"x", x.detach()}, {"t", target}};
  input.parameters = {{"y.weight", weight.detach()}, {"y.bias", bias.detach()}};
  input.transport = TransportKind::kInMemory;
  auto ranks = RunStep(*plan, input);
  if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n", job);
  const Expected expected = {
      {{"y", y.detach()}}, {{"x", x.grad()}}, {{"y.weight", weight.grad()}, {"y.bias", bias.grad()}}, {}};
  const std::string differences = Differences(*plan, "train", *ranks, expected, 1e-10);
  return differences.empty() ? "" : absl::StrCat(differences, job);
}

TEST(ConvMatrixTest, Sampled) {
  const uint64_t seed = TestSeed(1);
  std::vector<MatrixCase> all;
  for (int64_t kernel : kKernels) {
    for (const std::string& form : kForms) {
      for (MatrixCase& c : CasesOf(kernel, form)) all.push_back(std::move(c));
    }
  }
  RandomJobs random(seed);
  int64_t count = 0;
  while (count < 4000) {
    const int64_t at = random.Between(0, static_cast<int64_t>(all.size()) - 1);
    ASSERT_EQ(Compare(all[at], at, count), "") << "case " << at << ", ADJOIN_TEST_SEED=" << seed;
  }
  RecordProperty("cases_of_the_matrix", static_cast<int>(all.size()));
}

struct KernelAndForm {
  int64_t kernel;
  std::string form;
};

class WholeConvMatrixTest : public testing::TestWithParam<KernelAndForm> {};

TEST_P(WholeConvMatrixTest, EqualsSerial) {
  int64_t count = 0;
  uint64_t seed = 0;
  for (const MatrixCase& c : CasesOf(GetParam().kernel, GetParam().form)) {
    ASSERT_EQ(Compare(c, ++seed, count), "") << "case " << seed << " of kernel " << c.kernel << " " << c.form;
  }
  RecordProperty("cases", static_cast<int>(count));
  std::cout << count << " cases\n";
}

std::vector<KernelAndForm> Parts() {
  std::vector<KernelAndForm> parts;
  for (int64_t kernel : kKernels) {
    for (const std::string& form : kForms) parts.push_back({kernel, form});
  }
  return parts;
}

INSTANTIATE_TEST_SUITE_P(Kernels, WholeConvMatrixTest, testing::ValuesIn(Parts()),
                         [](const auto& info) { return absl::StrCat(info.param.form, info.param.kernel); });

}  // namespace
}  // namespace adjoin
