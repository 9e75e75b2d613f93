// Operators that layers are made of on the fake device.
#include <vector>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "primitives/testing/fake_operator_cases.h"

namespace adjoin {
namespace {

using Tensors = std::vector<at::Tensor>;

const FakeOperatorCase kLinear[] = {
    {"matmul",
     [](OperatorDraw& d) {
       const at::Tensor a = d.Leaf({3, 4}), b = d.Leaf({4, 5});
       return Tensors{at::matmul(a, b),
                      at::mm(b.t(), a.t()),
                      at::mv(a, d.Leaf({4})),
                      at::matmul(d.Leaf({2, 3, 4}), b),
                      at::bmm(d.Leaf({2, 3, 4}), d.Leaf({2, 4, 2})),
                      at::dot(d.Leaf({9}), d.Leaf({9})),
                      at::matmul(d.Leaf({2, 1, 3, 4}), d.Leaf({2, 4, 3}))};
     },
     3},
    {"linear",
     [](OperatorDraw& d) {
       return Tensors{at::linear(d.Leaf({3, 4}), d.Leaf({5, 4}), d.Leaf({5})),
                      at::linear(d.Leaf({2, 3, 4}), d.Leaf({5, 4})),
                      at::addmm(d.Leaf({5}), d.Leaf({3, 4}), d.Leaf({4, 5})),
                      at::baddbmm(d.Leaf({2, 3, 5}), d.Leaf({2, 3, 4}), d.Leaf({2, 4, 5})),
                      at::einsum("bij,bjk->bik", {d.Leaf({2, 3, 4}), d.Leaf({2, 4, 5})})};
     },
     2},
    {"large_matmul",
     [](OperatorDraw& d) {
       return Tensors{at::matmul(d.Leaf({129, 257}), d.Leaf({257, 65}))};
     }},
};

const FakeOperatorCase kConvolutions[] = {
    {"conv1d",
     [](OperatorDraw& d) {
       return Tensors{at::conv1d(d.Leaf({2, 3, 9}), d.Leaf({4, 3, 3}), d.Leaf({4}), 2, 1)};
     },
     3},
    {"conv2d",
     [](OperatorDraw& d) {
       return Tensors{at::conv2d(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 2}), d.Leaf({4}), 1, 1)};
     },
     3},
    {"conv2d_no_bias",
     [](OperatorDraw& d) {
       return Tensors{at::conv2d(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 3}))};
     },
     2},
    {"conv2d_groups",
     [](OperatorDraw& d) {
       return Tensors{at::conv2d(d.Leaf({2, 4, 9, 8}), d.Leaf({8, 2, 3, 3}), d.Leaf({8}), at::IntArrayRef{2, 1},
                                 at::IntArrayRef{0, 2}, at::IntArrayRef{1, 2}, 2)};
     },
     2},
    {"conv2d_double",
     [](OperatorDraw& d) {
       return Tensors{at::conv2d(d.Leaf({2, 3, 6, 6}, at::kDouble), d.Leaf({4, 3, 3, 3}, at::kDouble),
                                 d.Leaf({4}, at::kDouble), 1, 1)};
     },
     3},
    {"conv3d",
     [](OperatorDraw& d) {
       return Tensors{at::conv3d(d.Leaf({1, 2, 5, 6, 4}), d.Leaf({3, 2, 3, 3, 2}), d.Leaf({3}), 1, 1)};
     },
     2},
    {"conv_transpose",
     [](OperatorDraw& d) {
       return Tensors{at::conv_transpose1d(d.Leaf({1, 2, 5}), d.Leaf({2, 3, 3}), d.Leaf({3}), 2),
                      at::conv_transpose2d(d.Leaf({1, 2, 5, 4}), d.Leaf({2, 3, 2, 2}), d.Leaf({3}), 2),
                      at::conv_transpose3d(d.Leaf({1, 2, 3, 4, 3}), d.Leaf({2, 3, 2, 2, 2}), d.Leaf({3}), 2)};
     },
     2},
    {"convolution",
     [](OperatorDraw& d) {
       return Tensors{at::convolution(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 2}), d.Leaf({4}), {1, 1}, {1, 1}, {1, 1},
                                      false, {0, 0}, 1)};
     },
     2},
    {"convolution_backward",
     [](OperatorDraw& d) {
       const auto [x, w, b] =
           at::convolution_backward(d.Normal({2, 4, 7, 7}), d.Normal({2, 3, 9, 9}), d.Normal({4, 3, 3, 3}),
                                    at::IntArrayRef{4}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, {false, true, true});
       return Tensors{x, w, b};
     }},
    {"channels_last",
     [](OperatorDraw& d) {
       return Tensors{
           at::conv2d(d.Leaf({2, 3, 9, 8}).contiguous(at::MemoryFormat::ChannelsLast), d.Leaf({4, 3, 3, 2}))};
     }},
};

const FakeOperatorCase kPools[] = {
    {"max_pool",
     [](OperatorDraw& d) {
       return Tensors{at::max_pool1d(d.Leaf({2, 3, 9}), 2), at::max_pool2d(d.Leaf({2, 3, 8, 8}), 3, 2, 1),
                      at::max_pool3d(d.Leaf({1, 2, 4, 4, 6}), 2)};
     }},
    {"max_pool_with_indices",
     [](OperatorDraw& d) {
       const auto [x, i] = at::max_pool1d_with_indices(d.Leaf({2, 3, 9}), 2);
       const auto [y, j] = at::max_pool2d_with_indices(d.Leaf({2, 3, 8, 8}), 2);
       const auto [z, k] = at::max_pool3d_with_indices(d.Leaf({1, 2, 4, 4, 6}), 2);
       return Tensors{x, i, y, j, z, k};
     }},
    {"avg_pool",
     [](OperatorDraw& d) {
       return Tensors{at::avg_pool1d(d.Leaf({2, 3, 9}), 2), at::avg_pool2d(d.Leaf({2, 3, 8, 8}), 3, 2, 1),
                      at::avg_pool3d(d.Leaf({1, 2, 4, 4, 6}), 2)};
     },
     2},
    {"adaptive",
     [](OperatorDraw& d) {
       return Tensors{at::adaptive_avg_pool1d(d.Leaf({2, 3, 9}), 2),
                      at::adaptive_avg_pool2d(d.Leaf({2, 3, 8, 8}), {3, 1}),
                      at::adaptive_avg_pool3d(d.Leaf({1, 2, 4, 4, 6}), {2, 3, 1}),
                      std::get<0>(at::adaptive_max_pool1d(d.Leaf({2, 3, 9}), 2)),
                      std::get<0>(at::adaptive_max_pool2d(d.Leaf({2, 3, 8, 8}), {3, 1})),
                      std::get<0>(at::adaptive_max_pool3d(d.Leaf({1, 2, 4, 4, 6}), {2, 3, 1}))};
     }},
    {"upsample",
     [](OperatorDraw& d) {
       return Tensors{at::upsample_nearest2d(d.Leaf({1, 2, 3, 4}), {6, 8}),
                      at::upsample_bilinear2d(d.Leaf({1, 2, 3, 4}), {6, 7}, false),
                      at::upsample_nearest1d(d.Leaf({1, 2, 3}), {6}),
                      at::upsample_trilinear3d(d.Leaf({1, 2, 3, 4, 2}), {6, 7, 4}, true)};
     }},
};

const FakeOperatorCase kNorms[] = {
    {"batch_norm",
     [](OperatorDraw& d) {
       at::Tensor mean = at::zeros({3}, d.device()), var = at::ones({3}, d.device());
       const at::Tensor y =
           at::batch_norm(d.Leaf({4, 3, 5, 5}), d.Leaf({3}), d.Leaf({3}), mean, var, true, 0.1, 1e-5, true);
       return Tensors{y, mean, var};
     },
     2},
    {"batch_norm_evaluation",
     [](OperatorDraw& d) {
       return Tensors{at::batch_norm(d.Leaf({4, 3, 5}), d.Leaf({3}), d.Leaf({3}), d.Normal({3}), d.Positive({3}), false,
                                     0.1, 1e-5, true)};
     }},
    {"batch_norm_no_statistics",
     [](OperatorDraw& d) {
       return Tensors{at::batch_norm(d.Leaf({4, 3, 5}), {}, {}, {}, {}, true, 0.1, 1e-5, true)};
     }},
    {"layer_norm",
     [](OperatorDraw& d) {
       return Tensors{at::layer_norm(d.Leaf({4, 3, 50}), {50}, d.Leaf({50}), d.Leaf({50})),
                      at::layer_norm(d.Leaf({4, 3, 5}), {3, 5})};
     },
     2},
    {"group_norm",
     [](OperatorDraw& d) {
       return Tensors{at::group_norm(d.Leaf({4, 6, 5, 2}), 3, d.Leaf({6}), d.Leaf({6}))};
     },
     2},
    {"instance_norm",
     [](OperatorDraw& d) {
       return Tensors{at::instance_norm(d.Leaf({4, 6, 5, 2}), d.Leaf({6}), d.Leaf({6}), {}, {}, true, 0.1, 1e-5, true)};
     }},
    {"softmax",
     [](OperatorDraw& d) {
       return Tensors{d.Leaf({4, 9}).softmax(1), d.Leaf({4, 9}).log_softmax(0),
                      at::softmax(d.Leaf({2, 3, 4}), 1, at::kDouble)};
     },
     2},
};

const FakeOperatorCase kActivations[] = {
    {"relus",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({40});
       return Tensors{at::relu(x),
                      at::leaky_relu(x, 0.1),
                      at::elu(x),
                      at::celu(x),
                      at::selu(x),
                      at::hardtanh(x),
                      at::threshold(x, 0.2, 0.1),
                      at::prelu(x, d.Leaf({1})),
                      at::softshrink(x),
                      at::hardshrink(x),
                      at::relu6(x)};
     }},
    {"smooth",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({40});
       return Tensors{at::gelu(x),      at::gelu(x, "tanh"), at::silu(x),        at::mish(x),          at::softplus(x),
                      at::hardswish(x), at::hardsigmoid(x),  at::log_sigmoid(x), at::erfinv(x.tanh()), at::glu(x)};
     }},
    {"relu_in_place",
     [](OperatorDraw& d) {
       at::Tensor x = d.Leaf({40}) * 2;
       x.relu_();
       return Tensors{x};
     }},
    {"dropout", [](OperatorDraw& d) { return Tensors{at::dropout(d.Leaf({40}), 0.3, true)}; }},
    {"rrelu",
     [](OperatorDraw& d) {
       at::Tensor noise = at::zeros({40}, d.device());
       const at::Tensor y = at::rrelu_with_noise(d.Leaf({40}), noise, 0.1, 0.3, true);
       return Tensors{y, noise};
     }},
};

const FakeOperatorCase kLosses[] = {
    {"cross_entropy",
     [](OperatorDraw& d) {
       return Tensors{
           at::cross_entropy_loss(d.Leaf({6, 4}), d.Below(4, {6})),
           at::cross_entropy_loss(d.Leaf({6, 4}), d.Below(4, {6}), d.Positive({4}), at::Reduction::Sum, 1, 0.1),
           at::cross_entropy_loss(d.Leaf({2, 4, 3, 3}), d.Below(4, {2, 3, 3}))};
     }},
    {"regressions",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({6, 4}), y = d.Normal({6, 4});
       return Tensors{at::mse_loss(x, y),          at::l1_loss(x, y),
                      at::smooth_l1_loss(x, y),    at::huber_loss(x, y),
                      at::kl_div(x, y.softmax(1)), at::nll_loss(x.log_softmax(1), d.Below(4, {6}))};
     }},
    {"binary",
     [](OperatorDraw& d) {
       return Tensors{at::binary_cross_entropy(d.Leaf({6, 4}).sigmoid(), d.Mask({6, 4}).to(at::kFloat)),
                      at::binary_cross_entropy_with_logits(d.Leaf({6, 4}), d.Mask({6, 4}).to(at::kFloat))};
     }},
};

INSTANTIATE_TEST_SUITE_P(Linear, OperatorTest, testing::ValuesIn(kLinear), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Convolutions, OperatorTest, testing::ValuesIn(kConvolutions), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Pools, OperatorTest, testing::ValuesIn(kPools), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Norms, OperatorTest, testing::ValuesIn(kNorms), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Activations, OperatorTest, testing::ValuesIn(kActivations), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Losses, OperatorTest, testing::ValuesIn(kLosses), OperatorCaseName);

}  // namespace
}  // namespace adjoin
