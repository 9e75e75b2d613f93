// Every element-wise function over random layouts equals LibTorch's on one rank.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/pointwise/activation_functions.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/activation_inputs.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;
using Arguments = std::vector<double>;

struct SerialFunction {
  std::function<Tensor(const Tensor& x, const Arguments& a)> apply;
  Arguments defaults = {};  // PyTorch's
  std::function<Arguments(RandomJobs& random)> others = {};
};

double Hundredths(RandomJobs& random, int64_t lo, int64_t hi) {
  return static_cast<double>(random.Between(lo, hi)) / 100;
}

Arguments OnePositive(RandomJobs& random) { return {Hundredths(random, 1, 200)}; }
Arguments One(RandomJobs& random) { return {Hundredths(random, -200, 200)}; }

// As torch.nn.functional has them; prelu has a test of its own.
const std::map<std::string, SerialFunction>& SerialFunctions() {
  static const auto* functions = new std::map<std::string, SerialFunction>{
      {"abs", {[](const Tensor& x, const Arguments&) { return x.abs(); }}},
      {"add", {[](const Tensor& x, const Arguments& a) { return x + a[0]; }, {}, One}},
      {"celu",
       {[](const Tensor& x, const Arguments& a) { return F::celu(x, F::CELUFuncOptions().alpha(a[0])); },
        {1.0},
        OnePositive}},
      {"clamp",
       {[](const Tensor& x, const Arguments& a) {
          return torch::where(x < a[0], torch::full_like(x, a[0]),
                              torch::where(x > a[1], torch::full_like(x, a[1]), x));
        },
        {},
        [](RandomJobs& random) {
          const double min = random.Of<double>({-1, -0.5, 0, 0.31});
          return Arguments{min, min + random.Of<double>({0, 0.5, 1.5})};
        }}},
      {"clamp_max",
       {[](const Tensor& x, const Arguments& a) { return torch::where(x > a[0], torch::full_like(x, a[0]), x); },
        {},
        OnePositive}},
      {"clamp_min",
       {[](const Tensor& x, const Arguments& a) { return torch::where(x < a[0], torch::full_like(x, a[0]), x); },
        {},
        One}},
      {"acos", {[](const Tensor& x, const Arguments&) { return torch::atan2((1 - x * x).sqrt(), x); }}},
      {"acosh", {[](const Tensor& x, const Arguments&) { return (x + (x * x - 1).sqrt()).log(); }}},
      {"asin", {[](const Tensor& x, const Arguments&) { return torch::atan2(x, (1 - x * x).sqrt()); }}},
      {"asinh", {[](const Tensor& x, const Arguments&) { return (x + (x * x + 1).sqrt()).log(); }}},
      {"atan", {[](const Tensor& x, const Arguments&) { return (x / (x * x + 1).sqrt()).asin(); }}},
      {"atanh", {[](const Tensor& x, const Arguments&) { return ((1 + x) / (1 - x)).log() / 2; }}},
      {"cos", {[](const Tensor& x, const Arguments&) { return x.cos(); }}},
      {"cosh", {[](const Tensor& x, const Arguments&) { return (x.exp() + (-x).exp()) / 2; }}},
      // LibTorch's trigamma, its derivative, has nine digits, so that no other formula has the same.
      {"digamma", {[](const Tensor& x, const Arguments&) { return x.digamma(); }}},
      {"elu",
       {[](const Tensor& x, const Arguments& a) { return F::elu(x, F::ELUFuncOptions().alpha(a[0])); },
        {1.0},
        OnePositive}},
      {"erf", {[](const Tensor& x, const Arguments&) { return x.erf(); }}},
      {"erfc", {[](const Tensor& x, const Arguments&) { return 1 - x.erf(); }}},
      {"erfinv",
       {[](const Tensor& x, const Arguments&) { return torch::special::ndtri((x + 1) / 2) / std::sqrt(2.0); }}},
      {"exp2", {[](const Tensor& x, const Arguments&) { return (x * std::log(2.0)).exp(); }}},
      {"expm1", {[](const Tensor& x, const Arguments&) { return x.exp() - 1; }}},
      {"frac", {[](const Tensor& x, const Arguments&) { return x - x.detach().trunc(); }}},
      {"mul", {[](const Tensor& x, const Arguments& a) { return x * a[0]; }, {}, One}},
      {"neg", {[](const Tensor& x, const Arguments&) { return 0 - x; }}},
      {"rsub", {[](const Tensor& x, const Arguments& a) { return a[0] - x; }, {}, One}},
      {"sin", {[](const Tensor& x, const Arguments&) { return x.sin(); }}},
      {"exp", {[](const Tensor& x, const Arguments&) { return x.exp(); }}},
      {"gelu", {[](const Tensor& x, const Arguments&) { return F::gelu(x); }}},
      {"gelu_tanh",
       {[](const Tensor& x, const Arguments&) { return F::gelu(x, F::GELUFuncOptions().approximate("tanh")); }}},
      {"hardshrink", {[](const Tensor& x, const Arguments& a) { return F::hardshrink(x, a[0]); }, {0.5}, OnePositive}},
      {"hardsigmoid", {[](const Tensor& x, const Arguments&) { return torch::hardsigmoid(x); }}},
      {"hardswish", {[](const Tensor& x, const Arguments&) { return torch::hardswish(x); }}},
      {"hardtanh",
       {[](const Tensor& x, const Arguments& a) {
          return F::hardtanh(x, F::HardtanhFuncOptions().min_val(a[0]).max_val(a[1]));
        },
        {-1.0, 1.0},
        [](RandomJobs& random) {
          return Arguments{Hundredths(random, -200, 0), Hundredths(random, 1, 200)};
        }}},
      {"leaky_relu",
       {[](const Tensor& x, const Arguments& a) {
          return F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(a[0]));
        },
        {0.01},
        OnePositive}},
      {"lgamma", {[](const Tensor& x, const Arguments&) { return (x + 1).lgamma() - x.log(); }}},
      {"log", {[](const Tensor& x, const Arguments&) { return x.log2() * std::log(2.0); }}},
      {"log10", {[](const Tensor& x, const Arguments&) { return x.log() / std::log(10.0); }}},
      {"log1p", {[](const Tensor& x, const Arguments&) { return (1 + x).log(); }}},
      {"log2", {[](const Tensor& x, const Arguments&) { return x.log() / std::log(2.0); }}},
      {"log_sigmoid", {[](const Tensor& x, const Arguments&) { return F::logsigmoid(x); }}},
      {"logit", {[](const Tensor& x, const Arguments&) { return (x / (1 - x)).log(); }}},
      {"mish", {[](const Tensor& x, const Arguments&) { return F::mish(x); }}},
      {"pow",
       {[](const Tensor& x, const Arguments& a) { return (x.log() * a[0]).exp(); },
        {},
        [](RandomJobs& random) {
          return Arguments{random.Of<double>({-2, -1, -0.5, 0, 0.5, 1, 1.7, 2, 3})};
        }}},
      {"reciprocal", {[](const Tensor& x, const Arguments&) { return 1 / x; }}},
      {"relu", {[](const Tensor& x, const Arguments&) { return F::relu(x); }}},
      {"relu6", {[](const Tensor& x, const Arguments&) { return F::relu6(x); }}},
      {"root", {[](const Tensor& x, const Arguments&) { return (x.log() / 2).exp(); }}},
      {"rsqrt", {[](const Tensor& x, const Arguments&) { return (x.log() / -2).exp(); }}},
      {"selu", {[](const Tensor& x, const Arguments&) { return F::selu(x); }}},
      {"sigmoid", {[](const Tensor& x, const Arguments&) { return torch::sigmoid(x); }}},
      {"silu", {[](const Tensor& x, const Arguments&) { return F::silu(x); }}},
      {"sinc", {[](const Tensor& x, const Arguments&) {
         const Tensor angle = torch::where(x == 0, torch::ones_like(x), x * M_PI);
         // At 0 the first terms of its series, for the derivatives.
         return torch::where(x == 0, 1 - (x * M_PI).square() / 6, angle.sin() / angle);
       }}},
      {"sinh", {[](const Tensor& x, const Arguments&) { return (x.exp() - (-x).exp()) / 2; }}},
      {"softplus",
       {[](const Tensor& x, const Arguments& a) {
          return F::softplus(x, F::SoftplusFuncOptions().beta(a[0]).threshold(a[1]));
        },
        {1.0, 20.0},
        [](RandomJobs& random) {
          return Arguments{Hundredths(random, 50, 300), Hundredths(random, 100, 500)};
        }}},
      {"softshrink", {[](const Tensor& x, const Arguments& a) { return F::softshrink(x, a[0]); }, {0.5}, OnePositive}},
      {"softsign", {[](const Tensor& x, const Arguments&) { return F::softsign(x); }}},
      {"sqrt", {[](const Tensor& x, const Arguments&) { return (x.log() / 2).exp(); }}},
      {"square", {[](const Tensor& x, const Arguments&) { return x * x; }}},
      {"tan", {[](const Tensor& x, const Arguments&) { return x.sin() / x.cos(); }}},
      {"tanh", {[](const Tensor& x, const Arguments&) { return torch::tanh(x); }}},
      {"tanhshrink", {[](const Tensor& x, const Arguments&) { return F::tanhshrink(x); }}},
      {"threshold",
       {[](const Tensor& x, const Arguments& a) { return F::threshold(x, F::ThresholdFuncOptions(a[0], a[1])); },
        {},
        [](RandomJobs& random) {
          return Arguments{Hundredths(random, -100, 100), Hundredths(random, -300, 300)};
        }}},
  };
  return *functions;
}

std::vector<int64_t> RandomShape(RandomJobs& random) {
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 4);
  return shape;
}

// Some of the numbers at which functions have a kink by default, and others.
Tensor RandomValues(RandomJobs& random, const std::vector<int64_t>& shape, bool with_kinks) {
  const Tensor kinks = torch::tensor({0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0}, torch::kFloat64);
  const Tensor values = random.Normal(shape) * 2;
  const Tensor chosen = kinks.index_select(0, random.Labels(values.numel(), kinks.size(0))).reshape(shape);
  return torch::where((random.Normal(shape) > 1) & with_kinks, chosen, values).requires_grad_();
}

// A job whose layer "y" applies `text` to the field "x".
JobParts RandomJob(RandomJobs& random, const std::vector<int64_t>& shape, const std::string& text) {
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(shape.size());
  AddRandomInput(random, "x", shape, job);
  std::string y;
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", shape, job.ranks, /*copies=*/true);
    y = " y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { name: \"y\"", y, " ", text, " }\n");
  return job;
}

std::string Compare(uint64_t seed, const std::string& name, const SerialFunction& function) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = RandomShape(random);
  const bool by_default = function.others == nullptr || (!function.defaults.empty() && random.OneIn(2));
  const Arguments arguments = by_default ? function.defaults : function.others(random);
  const std::string text =
      absl::StrCat("activation { fn: \"", name, "\"",
                   by_default ? "" : absl::StrCat(" arg: [", absl::StrJoin(arguments, ", "), "]"), " }");
  const JobParts job = RandomJob(random, shape, text);
  // LibTorch 1.13's gradient of hardswish at 3 is 1 in its vectorised kernel and 1.5 in the other one, and which of
  // them computes an element depends on its address.
  Tensor x = RandomValues(random, shape, /*with_kinks=*/name != "hardswish");
  // Its poles are elsewhere.
  const ActivationDomain domain = name == "tan" ? ActivationDomain::kWithinOne : DomainOf(name);
  x = Within(domain, x.detach()).requires_grad_();
  return CompareLayer(job, random, x, {}, function.apply(x, arguments), TransportKind::kInMemoryDelayed);
}

TEST(ActivationTest, EqualsSerial) {
  const uint64_t seed = TestSeed(2000);
  for (const ActivationFunction& function : ActivationFunctions()) {
    const std::string name = function.name;
    if (name == "prelu") continue;
    ASSERT_EQ(SerialFunctions().count(name), 1u) << name;
    for (uint64_t i = 0; i < 12; ++i) {
      ASSERT_EQ(Compare(seed + i, name, SerialFunctions().at(name)), "") << name << " ADJOIN_TEST_SEED=" << seed + i;
    }
  }
}

std::string ComparePrelu(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = RandomShape(random);
  const int64_t count = random.OneIn(2) ? 1 : shape[1];
  const bool frozen = random.OneIn(5);
  const std::string home = random.Of<std::string>({"", "home: OWNER", "home: REPLICATED", "home: SHARDED"});
  const std::string arguments = count == 1 && random.OneIn(2) ? "" : absl::StrCat(" arg: ", count);
  const JobParts job = RandomJob(
      random, shape, absl::StrCat(home, frozen ? " frozen: true" : "", " activation { fn: \"prelu\"", arguments, " }"));
  const Tensor x = RandomValues(random, shape, /*with_kinks=*/true);
  // What a plan initialises stays where the parameter is frozen.
  Tensor weight = frozen ? torch::full({count}, 0.25, torch::kFloat64) : random.Normal({count}).requires_grad_();
  Tensors parameters;
  if (!frozen) parameters["y.weight"] = weight;
  return CompareLayer(job, random, x, parameters, torch::prelu(x, weight), transport);
}

TEST(PreluTest, EqualsSerial) {
  const uint64_t seed = TestSeed(4000);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(ComparePrelu(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(ComparePrelu(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

}  // namespace
}  // namespace adjoin
