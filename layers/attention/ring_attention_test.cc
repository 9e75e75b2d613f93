// Attention of one rank with a bias of the scores, of any widths: its first and second derivatives are those of the
// plain formula, for all inputs.
#include "layers/attention/ring_attention.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "layers/attention/block_attention.h"
#include "primitives/tape.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using torch::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Inputs {
  Tensor q, k, v, bias;
  bool causal = false;

  std::vector<Tensor> leaves() const { return {q, k, v, bias}; }
};

Inputs RandomInputs(RandomJobs& random) {
  const int64_t n = random.Between(1, 3), heads = random.Between(1, 3), queries = random.Between(1, 5);
  const int64_t keys = random.Between(1, 5), width = random.Between(1, 3), value_width = random.Between(1, 3);
  const auto one_or = [&](int64_t extent) { return random.OneIn(3) ? 1 : extent; };
  const std::vector<int64_t> shape = {one_or(n), one_or(heads), one_or(queries), one_or(keys)};
  Tensor bias = random.Normal(shape);
  if (random.OneIn(2)) bias = bias.masked_fill(random.Normal(shape) > 0.5, kMinusInfinity);
  if (random.OneIn(2)) bias = bias.masked_fill(random.Normal({shape[0], shape[1], shape[2], 1}) > 0.7, kMinusInfinity);
  return {random.Normal({n, heads, queries, width}).requires_grad_(),
          random.Normal({n, heads, keys, width}).requires_grad_(),
          random.Normal({n, heads, keys, value_width}).requires_grad_(), bias.requires_grad_(), random.OneIn(3)};
}

Tensor Ours(const Inputs& in, Tape& tape) {
  BlockAttention::Options options;
  options.causal = in.causal;
  auto ring = std::make_shared<RingAttention>(
      RingAttention{{nullptr}, {nullptr}, {nullptr}, {0, in.k.size(2)}, 0, BlockAttention(std::move(options))});
  const bool alike = in.k.size(3) == in.v.size(3);
  if (!alike) ring->key_width = in.k.size(3);
  const Tensor packed = alike ? torch::stack({in.k, in.v}) : torch::cat({in.k, in.v}, -1).unsqueeze(0);
  return Attend(ring, in.q, packed.unsqueeze(0), in.bias, tape);
}

Tensor Plain(const Inputs& in) {
  Tensor scores = torch::matmul(in.q, in.k.transpose(2, 3)) + in.bias;
  if (in.causal) {
    scores = scores.masked_fill(torch::ones({in.q.size(2), in.k.size(2)}, torch::kBool).triu(1), kMinusInfinity);
  }
  const Tensor none = (scores == kMinusInfinity).all(-1, /*keepdim=*/true);
  return torch::matmul(torch::softmax(scores.masked_fill(none, 0), -1).masked_fill(none, 0), in.v);
}

// The gradients of <y, u>, and those of these gradients' product with `directions`.
std::vector<Tensor> Derivatives(const Inputs& in, const Tensor& y, const Tensor& u,
                                const std::vector<Tensor>& directions) {
  std::vector<Tensor> found = torch::autograd::grad({y}, in.leaves(), {u}, true, /*create_graph=*/true);
  Tensor product = torch::zeros({}, torch::kFloat64);
  for (size_t i = 0; i < directions.size(); ++i) product = product + (found[i] * directions[i]).sum();
  for (const Tensor& twice : torch::autograd::grad({product}, in.leaves(), {}, false, false, /*allow_unused=*/true)) {
    found.push_back(twice);
  }
  return found;
}

std::string Difference(uint64_t seed) {
  RandomJobs random(seed);
  const Inputs in = RandomInputs(random);
  Tape tape(at::kCPU);
  const Tensor ours = Ours(in, tape), plain = Plain(in);
  if (!torch::allclose(ours, plain, 1e-11, 1e-11)) return "y";
  const Tensor u = random.Normal(plain.sizes().vec());
  std::vector<Tensor> directions;
  for (const Tensor& leaf : in.leaves()) directions.push_back(random.Normal(leaf.sizes().vec()));
  const std::vector<Tensor> once = torch::autograd::grad({ours}, in.leaves(), {u}, /*retain_graph=*/true);
  const std::vector<Tensor> expected = Derivatives(in, plain, u, directions);
  const std::vector<Tensor> found = Derivatives(in, ours, u, directions);
  for (size_t i = 0; i < once.size(); ++i) {
    if (!torch::allclose(once[i], expected[i], 1e-11, 1e-11)) return absl::StrCat("gradient ", i);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool zero = !expected[i].defined() || !found[i].defined();
    if (zero ? expected[i].defined() != found[i].defined() : !torch::allclose(found[i], expected[i], 1e-10, 1e-10)) {
      return absl::StrCat("derivative ", i);
    }
  }
  return "";
}

TEST(RingAttentionTest, DerivativesWithABiasAreThoseOfTheFormula) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(Difference(seed + i), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// PyTorch 2.5 and later: no weights, and no gradients that are not numbers.
TEST(RingAttentionTest, ARowThatIsMaskedWholeIsZero) {
  RandomJobs random(3);
  Inputs in = {random.Normal({1, 2, 3, 2}).requires_grad_(), random.Normal({1, 2, 4, 2}).requires_grad_(),
               random.Normal({1, 2, 4, 2}).requires_grad_(), torch::zeros({1, 1, 3, 4}, torch::kFloat64)};
  in.bias[0][0][1].fill_(kMinusInfinity);
  in.bias.requires_grad_();
  Tape tape(at::kCPU);
  const Tensor y = Ours(in, tape);
  EXPECT_EQ(y.select(2, 1).abs().sum().item<double>(), 0);
  EXPECT_GT(y.select(2, 0).abs().sum().item<double>(), 0);
  for (const Tensor& gradient : torch::autograd::grad({y.sum()}, in.leaves())) {
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    EXPECT_GT(gradient.abs().sum().item<double>(), 0);
  }
}

}  // namespace
}  // namespace adjoin
