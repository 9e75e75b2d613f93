// Rows of attention whose scores are all far below 0, as a large finite bias makes them, equal LibTorch's softmax in
// float32, forward and backward.
#include "layers/attention/block_attention.h"

#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>

namespace adjoin {
namespace {

using torch::Tensor;

TEST(BlockAttentionTest, RowsThatALargeBiasMasksWholeHaveTheirOwnWeights) {
  torch::manual_seed(3);
  const auto leaf = [](at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); };
  const int64_t keys = 300;  // more than a tile has
  const Tensor q = leaf({2, 2, 5, 4}), k = leaf({2, 2, keys, 4}), v = leaf({2, 2, keys, 3});
  Tensor bias = torch::zeros({2, 1, 5, keys});
  bias[0][0][1].fill_(-1e9);  // all keys
  bias[1][0][2].narrow(0, 10, keys - 10).fill_(-1e9);
  bias[1][0][3].fill_(-3e38);
  bias.requires_grad_();
  const Tensor scores = torch::matmul(q, k.transpose(2, 3)) + bias;
  const Tensor expected = torch::matmul(torch::softmax(scores, -1), v);
  const Tensor gradient = torch::randn_like(expected);
  expected.backward(gradient);

  torch::NoGradGuard no_grad;
  const BlockAttention blocks({});
  SoftmaxSums sums = blocks.Start(q, 3);
  for (int64_t first : {0, 100}) {
    const int64_t count = first == 0 ? 100 : keys - 100;
    blocks.Add(q, k.narrow(2, first, count), v.narrow(2, first, count), first, bias, sums);
  }
  const AttendedRows rows = blocks.Finish(sums, {2, 2, 5, 3}, keys);
  EXPECT_LE((rows.values - expected).abs().max().item<float>(), 1e-5);
  const auto zeros = [](const Tensor& x) { return torch::zeros(x.sizes()); };
  const BlockGradients found{zeros(q), zeros(k), zeros(v), zeros(bias)};
  const Tensor delta = BlockAttention::Delta(gradient, rows.values);
  blocks.AddGradients({q, gradient, rows.largest, rows.log_sums, delta, bias}, k, v, 0, found);
  for (const auto& [own, of] : {std::pair(found.q, q), {found.k, k}, {found.v, v}, {found.bias, bias}}) {
    EXPECT_LE((own - of.grad()).abs().max().item<float>(), 1e-5);
  }
}

}  // namespace
}  // namespace adjoin
