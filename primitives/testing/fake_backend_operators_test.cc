// Operators on elements, shapes and indices on the fake device.
#include <vector>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "primitives/testing/fake_operator_cases.h"

namespace adjoin {
namespace {

using Tensors = std::vector<at::Tensor>;

const FakeOperatorCase kElementwise[] = {
    {"arithmetic",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({3, 4}), y = d.Leaf({4});
       return Tensors{x + y, x - y, x * y, x / y, x + 1, 2 - x, -x};
     },
     2},
    {"broadcast",
     [](OperatorDraw& d) {
       return Tensors{d.Leaf({3, 1, 2}) * d.Leaf({4, 1}) + d.Leaf({})};
     }},
    {"unary",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 3});
       return Tensors{x.exp(),  x.abs(),    x.sin(), x.cos(),     x.erf(), x.floor(),
                      x.sign(), x.square(), x.neg(), x.sigmoid(), x.tanh()};
     }},
    {"positive",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 3}).square() + 0.1;
       return Tensors{x.log(), x.sqrt(), x.rsqrt(), x.pow(1.7), x.pow(2), x.reciprocal(), x.log1p()};
     }},
    {"compare",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Normal({6}), y = d.Normal({6});
       return Tensors{x < y,           x.eq(y),      x.ge(0),  at::maximum(x, y), at::minimum(x, y),
                      at::isfinite(x), at::isinf(x), x.isnan()};
     }},
    {"where",
     [](OperatorDraw& d) {
       return Tensors{at::where(d.Mask({4, 4}), d.Leaf({4, 4}), d.Leaf({4, 4})),
                      d.Leaf({4, 4}).masked_fill(d.Mask({4, 4}), 3.0)};
     }},
    {"clamp",
     [](OperatorDraw& d) {
       return Tensors{d.Leaf({9}).clamp(-0.5, 0.5), d.Leaf({9}).clamp_min(0), at::nan_to_num(d.Leaf({9}))};
     }},
    {"remainder",
     [](OperatorDraw& d) {
       return Tensors{d.Below(100, {9}).remainder(7), at::div(d.Normal({9}), 0.3, "floor"), d.Normal({9}).fmod(0.7)};
     }},
    {"in_place",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({4, 4});
       const at::Tensor y = d.Normal({4});
       x.add_(y).mul_(2).sub_(x).addcmul_(y, y, 0.5).addcdiv_(y, y + 10).add_(x.t().clone(), 0.5);
       x.t().mul_(y);
       x.select(0, 1).fill_(3);
       x.slice(1, 0, 4, 2).zero_();
       x.mul_(x);
       return Tensors{x};
     }},
    {"out",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Normal({4, 4}), y = d.Normal({4, 4});
       at::Tensor a = at::empty({0}, x.options()), b = at::empty({8, 4}, x.options()),
                  t = at::empty({4, 4}, x.options()).t();
       at::add_out(a, x, y);
       at::Tensor half = b.slice(0, 4, 8);
       at::mul_out(half, x, y);
       at::maximum_out(t, x, y);
       b.slice(0, 0, 4).zero_();
       at::Tensor c = at::empty({0}, x.options());
       at::cat_out(c, {x, y});
       at::Tensor m = at::empty({0}, x.options());
       at::mm_out(m, x, y);
       at::sum_out(m, x, {0});
       return Tensors{a, b, t, c, m};
     }},
    {"types",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({7, 3});
       return Tensors{x.to(at::kDouble),    x.to(at::kHalf), x.to(at::kBFloat16),
                      x.to(at::kLong),      x.to(at::kBool), d.Below(9, {3}).to(at::kInt) + x.detach(),
                      x.t().to(at::kDouble)};
     }},
    {"bfloat16",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({4, 8}, at::kBFloat16), w = d.Leaf({5, 8}, at::kBFloat16);
       return Tensors{at::linear(x, w), x.sum(0), x.softmax(1), at::gelu(x), x + 1};
     }},
    {"double",
     [](OperatorDraw& d) {
       return Tensors{at::matmul(d.Leaf({3, 4}, at::kDouble), d.Leaf({4, 5}, at::kDouble)).tanh()};
     },
     2},
    {"integers",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Below(50, {3, 5});
       return Tensors{x + 1, x * x, x.sum(), x.argmax(1), x.bitwise_and(7), x.cumsum(1)};
     }},
    {"scalars",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({4});
       return Tensors{x * at::scalar_tensor(2.0), at::scalar_tensor(3.0, d.device()) * x,
                      x + at::ones({}, at::kDouble)};
     }},
};

const FakeOperatorCase kInPlace[] = {
    {"functions",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({4, 5});
       x.exp_().round_().tanh_().masked_fill_(d.Mask({4, 5}), 0.5).clamp_(0, 0.9).sqrt_().div_(3).neg_();
       return Tensors{x, x.round(), x.logical_and(x > 0), x.logical_or(x > 0)};
     }},
    {"products",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({2, 3, 5});
       x.baddbmm_(d.Normal({2, 3, 4}), d.Normal({2, 4, 5}));
       at::Tensor y = d.Normal({3, 5});
       y.addmm_(d.Normal({3, 4}), d.Normal({4, 5}));
       return Tensors{x, y, at::inner(x, y)};
     }},
    {"lists",
     [](OperatorDraw& d) {
       Tensors x{d.Normal({3}), d.Normal({2, 2})};
       at::_foreach_mul_(x, 2.0);
       at::_foreach_add_(x, x);
       return x;
     }},
    {"differentiated",
     [](OperatorDraw& d) {
       at::Tensor x = d.Leaf({4, 5}) * 1;
       x.slice(0, 1, 3).copy_(d.Leaf({2, 5}));
       x.select(1, 0).mul_(d.Leaf({4}));
       x.t().add_(d.Leaf({4}));
       return Tensors{x};
     }},
    {"likes",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Normal({4, 5});
       return Tensors{at::rand_like(x), at::randn_like(x), x.new_empty({3}).zero_(), x.view_as(x), x.data()};
     }},
};

const FakeOperatorCase kShapes[] = {
    {"factories",
     [](OperatorDraw& d) {
       const at::TensorOptions o = at::TensorOptions().device(d.device());
       return Tensors{at::zeros({2, 3}, o),
                      at::ones({2}, o),
                      at::full({3}, 1.5, o),
                      at::arange(7, o),
                      at::arange(1, 9, 2, o.dtype(at::kFloat)),
                      at::eye(3, o),
                      at::linspace(0, 1, 5, o),
                      at::zeros({0}, o),
                      at::full({2, 2}, 7, o.dtype(at::kLong)),
                      at::tensor({1, 2, 3}, o)};
     }},
    {"like",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Normal({2, 3}).t();
       return Tensors{at::zeros_like(x), at::ones_like(x), at::full_like(x, 2), at::empty_like(x).copy_(x),
                      x.new_zeros({4}),  x.clone(),        x.contiguous()};
     }},
    {"random",
     [](OperatorDraw& d) {
       const at::TensorOptions o = at::TensorOptions().device(d.device());
       at::Tensor x = at::empty({5}, o);
       x.uniform_();
       return Tensors{x, at::randn({3, 3}, o), at::rand({4}, o), at::randint(9, {4}, o), at::randperm(8, o)};
     }},
    {"views",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({4, 6});
       return Tensors{x.view({2, 12}),
                      x.t(),
                      x.slice(1, 1, 6, 2),
                      x.select(0, 2),
                      x.unsqueeze(1).expand({4, 3, 6}),
                      x.reshape({3, 8}),
                      x.t().reshape({3, 8}),
                      x.permute({1, 0}).contiguous(),
                      x.narrow(0, 1, 2).flatten(),
                      x.unfold(1, 3, 2),
                      x.diagonal(),
                      x.transpose(0, 1).unsqueeze(0).squeeze(0),
                      x.as_strided({2, 2}, {6, 2}, 1),
                      x.movedim(0, 1),
                      x.unflatten(1, {2, 3})};
     }},
    {"write_views",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({4, 6});
       x.slice(1, 1, 5, 2).copy_(d.Normal({4, 2}));
       x.t().select(0, 0).add_(1);
       x.select(1, 3).copy_(d.Normal({}));
       x.narrow(0, 0, 2).copy_(d.Normal({2, 6}, at::kDouble));
       x.view({24}).slice(0, 20, 24).copy_(at::full({1}, 2.5));
       return Tensors{x};
     }},
    {"join",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({2, 3}), y = d.Leaf({2, 3});
       return Tensors{at::cat({x, y}, 1), at::stack({x, y}), at::cat({x.t(), y.t()})};
     }},
    {"split",
     [](OperatorDraw& d) {
       Tensors parts = d.Leaf({6, 4}).split(4);
       for (const at::Tensor& part : d.Leaf({4, 6}).chunk(3, 1)) parts.push_back(part.contiguous());
       return parts;
     }},
    {"pad",
     [](OperatorDraw& d) {
       return Tensors{at::constant_pad_nd(d.Leaf({2, 3, 4}), {1, 2, 0, 1}, 0.5),
                      at::reflection_pad1d(d.Leaf({1, 2, 5}), {2, 1}), at::constant_pad_nd(d.Leaf({5}), {-1, -1})};
     }},
    {"flip_roll",
     [](OperatorDraw& d) {
       return Tensors{at::flip(d.Leaf({3, 4}), {0, 1}), at::roll(d.Leaf({3, 4}), {1, 2}, {0, 1}),
                      at::tril(d.Leaf({4, 4})), at::triu(d.Leaf({4, 4}), 1), d.Leaf({2}).repeat({3, 2})};
     }},
    {"resize",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({2, 3});
       x.resize_({2, 2});
       at::Tensor y = d.Normal({4});
       y.resize_({2, 4});
       y.view({8}).slice(0, 4, 8).fill_(1);
       at::Tensor z = d.Normal({1});
       z.set_(x);
       return Tensors{x, y, z};
     }},
    {"shuffle",
     [](OperatorDraw& d) {
       return Tensors{at::pixel_shuffle(d.Leaf({1, 8, 2, 2}), 2), at::pixel_unshuffle(d.Leaf({1, 2, 4, 4}), 2)};
     }},
    {"meshgrid",
     [](OperatorDraw& d) {
       return at::meshgrid({d.Normal({2}), d.Normal({3})}, "ij");
     }},
    {"one_hot", [](OperatorDraw& d) { return Tensors{at::one_hot(d.Below(5, {4}), 5)}; }},
};

const FakeOperatorCase kReductions[] = {
    {"sums",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 700});
       return Tensors{x.sum(),
                      x.sum(0),
                      x.sum(at::IntArrayRef{0, 1}, true),
                      x.mean(),
                      x.mean(1),
                      x.t().sum(1),
                      x.sum(at::kDouble),
                      x.prod(0)};
     }},
    {"large_sum",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({300, 500});
       return Tensors{x.sum(), x.sum(0), x.sum(1), x.norm()};
     }},
    {"extremes",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 7});
       const auto [values, indices] = x.max(1);
       return Tensors{x.max(), x.min(), values, indices, x.amax(0), x.amin(1), x.argmax(), x.argmin(0)};
     }},
    {"norms",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 7});
       return Tensors{x.norm(), x.norm(2, 1), x.var(0), x.std(), x.logsumexp(1)};
     }},
    {"scans",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 7});
       return Tensors{x.cumsum(1), x.cumprod(0)};
     }},
    {"sorts",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({5, 7});
       const auto [s, i] = x.sort(1);
       const auto [k, j] = x.topk(3, 1);
       return Tensors{s, i, k, j, x.argsort(int64_t{0})};
     }},
    {"logic",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Mask({5, 7});
       return Tensors{x.all(), x.any(), x.all(1), x.logical_not(), x.sum()};
     }},
};

const FakeOperatorCase kIndices[] = {
    {"index_select",
     [](OperatorDraw& d) {
       return Tensors{d.Leaf({6, 4}).index_select(0, d.Below(6, {9})),
                      at::index_select(d.Leaf({6, 4}), 1, d.Below(4, {2}))};
     }},
    {"index",
     [](OperatorDraw& d) {
       const at::Tensor x = d.Leaf({6, 4});
       return Tensors{x.index({d.Below(6, {5})}), x.index({d.Below(6, {5}), d.Below(4, {5})}),
                      x.index({at::indexing::Slice(), d.Below(4, {2})}), x.index({d.Mask({6, 4})})};
     }},
    {"index_put",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({6, 4});
       x.index_put_({d.Below(6, {5})}, d.Normal({5, 4}), true);
       x.index_put_({d.Mask({6, 4})}, d.Normal({}));
       return Tensors{x};
     }},
    {"gather_scatter",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({4, 5});
       const at::Tensor i = d.Below(4, {4, 5});
       return Tensors{d.Leaf({4, 5}).gather(0, i), x.scatter_add(0, i, d.Leaf({4, 5})),
                      at::zeros_like(x).scatter_add_(0, i, x), at::zeros_like(x).scatter_(1, i.slice(1, 0, 1), 1.0)};
     }},
    {"index_add",
     [](OperatorDraw& d) {
       at::Tensor x = d.Normal({4, 5});
       x.index_add_(0, d.Below(4, {7}), d.Normal({7, 5}));
       x.index_fill_(1, d.Below(5, {2}), 9.0);
       x.index_copy_(0, at::tensor({1, 3}, at::kLong).to(d.device()), d.Normal({2, 5}));
       return Tensors{x};
     }},
    {"masks",
     [](OperatorDraw& d) {
       return Tensors{d.Leaf({4, 5}).masked_select(d.Mask({4, 5})), d.Mask({4, 5}).nonzero()};
     }},
    {"embedding",
     [](OperatorDraw& d) {
       return Tensors{at::embedding(d.Leaf({10, 4}), d.Below(10, {3, 5})),
                      at::embedding(d.Leaf({10, 4}), d.Below(10, {7}), 2)};
     }},
    {"bucket",
     [](OperatorDraw& d) {
       return Tensors{at::bincount(d.Below(6, {20})), std::get<0>(at::_unique(d.Below(6, {20})))};
     }},
};

INSTANTIATE_TEST_SUITE_P(Elementwise, OperatorTest, testing::ValuesIn(kElementwise), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(InPlace, OperatorTest, testing::ValuesIn(kInPlace), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Shapes, OperatorTest, testing::ValuesIn(kShapes), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Reductions, OperatorTest, testing::ValuesIn(kReductions), OperatorCaseName);
INSTANTIATE_TEST_SUITE_P(Indices, OperatorTest, testing::ValuesIn(kIndices), OperatorCaseName);

}  // namespace
}  // namespace adjoin
