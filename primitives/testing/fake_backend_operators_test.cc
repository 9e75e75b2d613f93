// Operators on the fake device, each with the bits that it has on the CPU: results, and gradients where there are any.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "absl/time/time.h"
#include "base/testing/test_seed.h"
#include "primitives/device/fake_device.h"
#include "primitives/testing/fake_backend.h"

namespace adjoin {
namespace {

using Tensors = std::vector<at::Tensor>;

// Draws the same numbers on each device.
class Draw {
 public:
  Draw(uint64_t seed, at::Device device)
      : device_(device), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  at::Tensor Normal(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::randn(sizes, generator_).to(type).to(device_);
  }
  at::Tensor Positive(at::IntArrayRef sizes) { return (at::rand(sizes, generator_) + 0.1).to(device_); }
  at::Tensor Below(int64_t high, at::IntArrayRef sizes) { return at::randint(high, sizes, generator_).to(device_); }
  at::Tensor Mask(at::IntArrayRef sizes) { return (at::rand(sizes, generator_) < 0.5).to(device_); }
  // A parameter.
  at::Tensor Leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    leaves_.push_back(Normal(sizes, type).requires_grad_(true));
    return leaves_.back();
  }

  const Tensors& leaves() const { return leaves_; }
  at::Device device() const { return device_; }

 private:
  const at::Device device_;
  at::Generator generator_;
  Tensors leaves_;
};

struct Case {
  std::string name;
  std::function<Tensors(Draw&)> run;
  int gradients = 1;  // how often to differentiate
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Results {
  Tensors exact;   // the results, then the gradients of the sum of their squares
  Tensors higher;  // the gradients of the sum of the squares of those, and so on
};

Results ResultsOf(const Case& c, uint64_t seed, at::Device device) {
  at::manual_seed(seed);
  Draw draw(seed, device);
  Results results{c.run(draw), {}};
  Tensors last = results.exact;
  for (int i = 0; i < c.gradients && !draw.leaves().empty(); ++i) {
    at::Tensor sum;
    for (const at::Tensor& result : last) {
      if (!result.defined() || !result.requires_grad()) continue;
      const at::Tensor squares = (result * result).sum();
      sum = sum.defined() ? sum + squares : squares;
    }
    if (!sum.defined()) break;
    last = torch::autograd::grad({sum}, draw.leaves(), {}, true, i + 1 < c.gradients, true);
    Tensors& gradients = i == 0 ? results.exact : results.higher;
    gradients.insert(gradients.end(), last.begin(), last.end());
  }
  return results;
}

void ExpectSameBits(const at::Tensor& expected, const at::Tensor& on_device) {
  ASSERT_EQ(expected.defined(), on_device.defined());
  if (!expected.defined()) return;
  EXPECT_EQ(on_device.device().type(), at::kPrivateUse1);
  ASSERT_EQ(expected.scalar_type(), on_device.scalar_type());
  ASSERT_EQ(expected.sizes(), on_device.sizes());
  const at::Tensor want = expected.detach().contiguous();
  const at::Tensor have = on_device.detach().cpu().contiguous();
  EXPECT_EQ(std::memcmp(want.data_ptr(), have.data_ptr(), want.nbytes()), 0) << want << "\n" << have;
}

// LibTorch numbers the nodes of its graphs by thread and adds gradients in the order of these numbers. A backward pass
// on a device has a thread of its own, so sums of three gradients and more may round differently in the next one.
void ExpectClose(const at::Tensor& expected, const at::Tensor& on_device) {
  ASSERT_EQ(expected.defined(), on_device.defined());
  if (!expected.defined() || expected.numel() == 0) return;
  const at::Tensor difference = (expected.detach() - on_device.detach().cpu()).abs().max();
  EXPECT_LE(difference.item<double>(), 1e-5 * expected.detach().abs().max().item<double>());
}

class OperatorTest : public testing::TestWithParam<Case> {};

TEST_P(OperatorTest, HasTheBitsOfTheCpu) {
  RegisterFakeBackend();
  at::init_num_threads();  // or a thread's first convolution has another number of them, and rounds differently
  const uint64_t seed = TestSeed();
  FakeDevice::Get(2).SetDelays(seed, absl::Microseconds(50));
  const Results expected = ResultsOf(GetParam(), seed, at::kCPU);
  const Results on_device = ResultsOf(GetParam(), seed, at::Device(at::kPrivateUse1, 2));
  ASSERT_EQ(expected.exact.size(), on_device.exact.size());
  for (std::size_t i = 0; i < expected.exact.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "tensor " << i);
    ExpectSameBits(expected.exact[i], on_device.exact[i]);
  }
  ASSERT_EQ(expected.higher.size(), on_device.higher.size());
  for (std::size_t i = 0; i < expected.higher.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "higher gradient " << i);
    ExpectClose(expected.higher[i], on_device.higher[i]);
  }
  FakeDevice::Get(2).SetDelays(seed, absl::ZeroDuration());
}

std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// One operator or a few per line, however long.
// clang-format off
const Case kElementwise[] = {
    {"arithmetic", [](Draw& d) { const at::Tensor x = d.Leaf({3, 4}), y = d.Leaf({4}); return Tensors{x + y, x - y, x * y, x / y, x + 1, 2 - x, -x}; }, 2},
    {"broadcast", [](Draw& d) { return Tensors{d.Leaf({3, 1, 2}) * d.Leaf({4, 1}) + d.Leaf({})}; }},
    {"unary", [](Draw& d) { const at::Tensor x = d.Leaf({5, 3}); return Tensors{x.exp(), x.abs(), x.sin(), x.cos(), x.erf(), x.floor(), x.sign(), x.square(), x.neg(), x.sigmoid(), x.tanh()}; }},
    {"positive", [](Draw& d) { const at::Tensor x = d.Leaf({5, 3}).square() + 0.1; return Tensors{x.log(), x.sqrt(), x.rsqrt(), x.pow(1.7), x.pow(2), x.reciprocal(), x.log1p()}; }},
    {"compare", [](Draw& d) { const at::Tensor x = d.Normal({6}), y = d.Normal({6}); return Tensors{x < y, x.eq(y), x.ge(0), at::maximum(x, y), at::minimum(x, y), at::isfinite(x), at::isinf(x), x.isnan()}; }},
    {"where", [](Draw& d) { return Tensors{at::where(d.Mask({4, 4}), d.Leaf({4, 4}), d.Leaf({4, 4})), d.Leaf({4, 4}).masked_fill(d.Mask({4, 4}), 3.0)}; }},
    {"clamp", [](Draw& d) { return Tensors{d.Leaf({9}).clamp(-0.5, 0.5), d.Leaf({9}).clamp_min(0), at::nan_to_num(d.Leaf({9}))}; }},
    {"remainder", [](Draw& d) { return Tensors{d.Below(100, {9}).remainder(7), at::div(d.Normal({9}), 0.3, "floor"), d.Normal({9}).fmod(0.7)}; }},
    {"in_place", [](Draw& d) { at::Tensor x = d.Normal({4, 4}); const at::Tensor y = d.Normal({4}); x.add_(y).mul_(2).sub_(x).addcmul_(y, y, 0.5).addcdiv_(y, y + 10).add_(x.t().clone(), 0.5); x.t().mul_(y); x.select(0, 1).fill_(3); x.slice(1, 0, 4, 2).zero_(); x.mul_(x); return Tensors{x}; }},
    {"out", [](Draw& d) { const at::Tensor x = d.Normal({4, 4}), y = d.Normal({4, 4}); at::Tensor a = at::empty({0}, x.options()), b = at::empty({8, 4}, x.options()), t = at::empty({4, 4}, x.options()).t(); at::add_out(a, x, y); at::Tensor half = b.slice(0, 4, 8); at::mul_out(half, x, y); at::maximum_out(t, x, y); b.slice(0, 0, 4).zero_(); at::Tensor c = at::empty({0}, x.options()); at::cat_out(c, {x, y}); at::Tensor m = at::empty({0}, x.options()); at::mm_out(m, x, y); at::sum_out(m, x, {0}); return Tensors{a, b, t, c, m}; }},
    {"types", [](Draw& d) { const at::Tensor x = d.Leaf({7, 3}); return Tensors{x.to(at::kDouble), x.to(at::kHalf), x.to(at::kBFloat16), x.to(at::kLong), x.to(at::kBool), d.Below(9, {3}).to(at::kInt) + x.detach(), x.t().to(at::kDouble)}; }},
    {"bfloat16", [](Draw& d) { const at::Tensor x = d.Leaf({4, 8}, at::kBFloat16), w = d.Leaf({5, 8}, at::kBFloat16); return Tensors{at::linear(x, w), x.sum(0), x.softmax(1), at::gelu(x), x + 1}; }},
    {"double", [](Draw& d) { return Tensors{at::matmul(d.Leaf({3, 4}, at::kDouble), d.Leaf({4, 5}, at::kDouble)).tanh()}; }, 2},
    {"integers", [](Draw& d) { const at::Tensor x = d.Below(50, {3, 5}); return Tensors{x + 1, x * x, x.sum(), x.argmax(1), x.bitwise_and(7), x.cumsum(1)}; }},
    {"scalars", [](Draw& d) { const at::Tensor x = d.Leaf({4}); return Tensors{x * at::scalar_tensor(2.0), at::scalar_tensor(3.0, d.device()) * x, x + at::ones({}, at::kDouble)}; }},
};

const Case kInPlace[] = {
    {"functions", [](Draw& d) { at::Tensor x = d.Normal({4, 5}); x.exp_().round_().tanh_().masked_fill_(d.Mask({4, 5}), 0.5).clamp_(0, 0.9).sqrt_().div_(3).neg_(); return Tensors{x, x.round(), x.logical_and(x > 0), x.logical_or(x > 0)}; }},
    {"products", [](Draw& d) { at::Tensor x = d.Normal({2, 3, 5}); x.baddbmm_(d.Normal({2, 3, 4}), d.Normal({2, 4, 5})); at::Tensor y = d.Normal({3, 5}); y.addmm_(d.Normal({3, 4}), d.Normal({4, 5})); return Tensors{x, y, at::inner(x, y)}; }},
    {"lists", [](Draw& d) { Tensors x{d.Normal({3}), d.Normal({2, 2})}; at::_foreach_mul_(x, 2.0); at::_foreach_add_(x, x); return x; }},
    {"differentiated", [](Draw& d) { at::Tensor x = d.Leaf({4, 5}) * 1; x.slice(0, 1, 3).copy_(d.Leaf({2, 5})); x.select(1, 0).mul_(d.Leaf({4})); x.t().add_(d.Leaf({4})); return Tensors{x}; }},
    {"likes", [](Draw& d) { const at::Tensor x = d.Normal({4, 5}); return Tensors{at::rand_like(x), at::randn_like(x), x.new_empty({3}).zero_(), x.view_as(x), x.data()}; }},
};

const Case kShapes[] = {
    {"factories", [](Draw& d) { const at::TensorOptions o = at::TensorOptions().device(d.device()); return Tensors{at::zeros({2, 3}, o), at::ones({2}, o), at::full({3}, 1.5, o), at::arange(7, o), at::arange(1, 9, 2, o.dtype(at::kFloat)), at::eye(3, o), at::linspace(0, 1, 5, o), at::zeros({0}, o), at::full({2, 2}, 7, o.dtype(at::kLong)), at::tensor({1, 2, 3}, o)}; }},
    {"like", [](Draw& d) { const at::Tensor x = d.Normal({2, 3}).t(); return Tensors{at::zeros_like(x), at::ones_like(x), at::full_like(x, 2), at::empty_like(x).copy_(x), x.new_zeros({4}), x.clone(), x.contiguous()}; }},
    {"random", [](Draw& d) { const at::TensorOptions o = at::TensorOptions().device(d.device()); at::Tensor x = at::empty({5}, o); x.uniform_(); return Tensors{x, at::randn({3, 3}, o), at::rand({4}, o), at::randint(9, {4}, o), at::randperm(8, o)}; }},
    {"views", [](Draw& d) { const at::Tensor x = d.Leaf({4, 6}); return Tensors{x.view({2, 12}), x.t(), x.slice(1, 1, 6, 2), x.select(0, 2), x.unsqueeze(1).expand({4, 3, 6}), x.reshape({3, 8}), x.t().reshape({3, 8}), x.permute({1, 0}).contiguous(), x.narrow(0, 1, 2).flatten(), x.unfold(1, 3, 2), x.diagonal(), x.transpose(0, 1).unsqueeze(0).squeeze(0), x.as_strided({2, 2}, {6, 2}, 1), x.movedim(0, 1), x.unflatten(1, {2, 3})}; }},
    {"write_views", [](Draw& d) { at::Tensor x = d.Normal({4, 6}); x.slice(1, 1, 5, 2).copy_(d.Normal({4, 2})); x.t().select(0, 0).add_(1); x.select(1, 3).copy_(d.Normal({})); x.narrow(0, 0, 2).copy_(d.Normal({2, 6}, at::kDouble)); x.view({24}).slice(0, 20, 24).copy_(at::full({1}, 2.5)); return Tensors{x}; }},
    {"join", [](Draw& d) { const at::Tensor x = d.Leaf({2, 3}), y = d.Leaf({2, 3}); return Tensors{at::cat({x, y}, 1), at::stack({x, y}), at::cat({x.t(), y.t()})}; }},
    {"split", [](Draw& d) { Tensors parts = d.Leaf({6, 4}).split(4); for (const at::Tensor& part : d.Leaf({4, 6}).chunk(3, 1)) parts.push_back(part.contiguous()); return parts; }},
    {"pad", [](Draw& d) { return Tensors{at::constant_pad_nd(d.Leaf({2, 3, 4}), {1, 2, 0, 1}, 0.5), at::reflection_pad1d(d.Leaf({1, 2, 5}), {2, 1}), at::constant_pad_nd(d.Leaf({5}), {-1, -1})}; }},
    {"flip_roll", [](Draw& d) { return Tensors{at::flip(d.Leaf({3, 4}), {0, 1}), at::roll(d.Leaf({3, 4}), {1, 2}, {0, 1}), at::tril(d.Leaf({4, 4})), at::triu(d.Leaf({4, 4}), 1), d.Leaf({2}).repeat({3, 2})}; }},
    {"resize", [](Draw& d) { at::Tensor x = d.Normal({2, 3}); x.resize_({2, 2}); at::Tensor y = d.Normal({4}); y.resize_({2, 4}); y.view({8}).slice(0, 4, 8).fill_(1); at::Tensor z = d.Normal({1}); z.set_(x); return Tensors{x, y, z}; }},
    {"shuffle", [](Draw& d) { return Tensors{at::pixel_shuffle(d.Leaf({1, 8, 2, 2}), 2), at::pixel_unshuffle(d.Leaf({1, 2, 4, 4}), 2)}; }},
    {"meshgrid", [](Draw& d) { return at::meshgrid({d.Normal({2}), d.Normal({3})}, "ij"); }},
    {"one_hot", [](Draw& d) { return Tensors{at::one_hot(d.Below(5, {4}), 5)}; }},
};

const Case kReductions[] = {
    {"sums", [](Draw& d) { const at::Tensor x = d.Leaf({5, 700}); return Tensors{x.sum(), x.sum(0), x.sum(at::IntArrayRef{0, 1}, true), x.mean(), x.mean(1), x.t().sum(1), x.sum(at::kDouble), x.prod(0)}; }},
    {"large_sum", [](Draw& d) { const at::Tensor x = d.Leaf({300, 500}); return Tensors{x.sum(), x.sum(0), x.sum(1), x.norm()}; }},
    {"extremes", [](Draw& d) { const at::Tensor x = d.Leaf({5, 7}); const auto [values, indices] = x.max(1); return Tensors{x.max(), x.min(), values, indices, x.amax(0), x.amin(1), x.argmax(), x.argmin(0)}; }},
    {"norms", [](Draw& d) { const at::Tensor x = d.Leaf({5, 7}); return Tensors{x.norm(), x.norm(2, 1), x.var(0), x.std(), x.logsumexp(1)}; }},
    {"scans", [](Draw& d) { const at::Tensor x = d.Leaf({5, 7}); return Tensors{x.cumsum(1), x.cumprod(0)}; }},
    {"sorts", [](Draw& d) { const at::Tensor x = d.Leaf({5, 7}); const auto [s, i] = x.sort(1); const auto [k, j] = x.topk(3, 1); return Tensors{s, i, k, j, x.argsort(int64_t{0})}; }},
    {"logic", [](Draw& d) { const at::Tensor x = d.Mask({5, 7}); return Tensors{x.all(), x.any(), x.all(1), x.logical_not(), x.sum()}; }},
};

const Case kIndices[] = {
    {"index_select", [](Draw& d) { return Tensors{d.Leaf({6, 4}).index_select(0, d.Below(6, {9})), at::index_select(d.Leaf({6, 4}), 1, d.Below(4, {2}))}; }},
    {"index", [](Draw& d) { const at::Tensor x = d.Leaf({6, 4}); return Tensors{x.index({d.Below(6, {5})}), x.index({d.Below(6, {5}), d.Below(4, {5})}), x.index({at::indexing::Slice(), d.Below(4, {2})}), x.index({d.Mask({6, 4})})}; }},
    {"index_put", [](Draw& d) { at::Tensor x = d.Normal({6, 4}); x.index_put_({d.Below(6, {5})}, d.Normal({5, 4}), true); x.index_put_({d.Mask({6, 4})}, d.Normal({})); return Tensors{x}; }},
    {"gather_scatter", [](Draw& d) { at::Tensor x = d.Normal({4, 5}); const at::Tensor i = d.Below(4, {4, 5}); return Tensors{d.Leaf({4, 5}).gather(0, i), x.scatter_add(0, i, d.Leaf({4, 5})), at::zeros_like(x).scatter_add_(0, i, x), at::zeros_like(x).scatter_(1, i.slice(1, 0, 1), 1.0)}; }},
    {"index_add", [](Draw& d) { at::Tensor x = d.Normal({4, 5}); x.index_add_(0, d.Below(4, {7}), d.Normal({7, 5})); x.index_fill_(1, d.Below(5, {2}), 9.0); x.index_copy_(0, at::tensor({1, 3}, at::kLong).to(d.device()), d.Normal({2, 5})); return Tensors{x}; }},
    {"masks", [](Draw& d) { return Tensors{d.Leaf({4, 5}).masked_select(d.Mask({4, 5})), d.Mask({4, 5}).nonzero()}; }},
    {"embedding", [](Draw& d) { return Tensors{at::embedding(d.Leaf({10, 4}), d.Below(10, {3, 5})), at::embedding(d.Leaf({10, 4}), d.Below(10, {7}), 2)}; }},
    {"bucket", [](Draw& d) { return Tensors{at::bincount(d.Below(6, {20})), std::get<0>(at::_unique(d.Below(6, {20})))}; }},
};

const Case kLinear[] = {
    {"matmul", [](Draw& d) { const at::Tensor a = d.Leaf({3, 4}), b = d.Leaf({4, 5}); return Tensors{at::matmul(a, b), at::mm(b.t(), a.t()), at::mv(a, d.Leaf({4})), at::matmul(d.Leaf({2, 3, 4}), b), at::bmm(d.Leaf({2, 3, 4}), d.Leaf({2, 4, 2})), at::dot(d.Leaf({9}), d.Leaf({9})), at::matmul(d.Leaf({2, 1, 3, 4}), d.Leaf({2, 4, 3}))}; }, 3},
    {"linear", [](Draw& d) { return Tensors{at::linear(d.Leaf({3, 4}), d.Leaf({5, 4}), d.Leaf({5})), at::linear(d.Leaf({2, 3, 4}), d.Leaf({5, 4})), at::addmm(d.Leaf({5}), d.Leaf({3, 4}), d.Leaf({4, 5})), at::baddbmm(d.Leaf({2, 3, 5}), d.Leaf({2, 3, 4}), d.Leaf({2, 4, 5})), at::einsum("bij,bjk->bik", {d.Leaf({2, 3, 4}), d.Leaf({2, 4, 5})})}; }, 2},
    {"large_matmul", [](Draw& d) { return Tensors{at::matmul(d.Leaf({129, 257}), d.Leaf({257, 65}))}; }},
};

const Case kConvolutions[] = {
    {"conv1d", [](Draw& d) { return Tensors{at::conv1d(d.Leaf({2, 3, 9}), d.Leaf({4, 3, 3}), d.Leaf({4}), 2, 1)}; }, 3},
    {"conv2d", [](Draw& d) { return Tensors{at::conv2d(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 2}), d.Leaf({4}), 1, 1)}; }, 3},
    {"conv2d_no_bias", [](Draw& d) { return Tensors{at::conv2d(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 3}))}; }, 2},
    {"conv2d_groups", [](Draw& d) { return Tensors{at::conv2d(d.Leaf({2, 4, 9, 8}), d.Leaf({8, 2, 3, 3}), d.Leaf({8}), at::IntArrayRef{2, 1}, at::IntArrayRef{0, 2}, at::IntArrayRef{1, 2}, 2)}; }, 2},
    {"conv2d_double", [](Draw& d) { return Tensors{at::conv2d(d.Leaf({2, 3, 6, 6}, at::kDouble), d.Leaf({4, 3, 3, 3}, at::kDouble), d.Leaf({4}, at::kDouble), 1, 1)}; }, 3},
    {"conv3d", [](Draw& d) { return Tensors{at::conv3d(d.Leaf({1, 2, 5, 6, 4}), d.Leaf({3, 2, 3, 3, 2}), d.Leaf({3}), 1, 1)}; }, 2},
    {"conv_transpose", [](Draw& d) { return Tensors{at::conv_transpose1d(d.Leaf({1, 2, 5}), d.Leaf({2, 3, 3}), d.Leaf({3}), 2), at::conv_transpose2d(d.Leaf({1, 2, 5, 4}), d.Leaf({2, 3, 2, 2}), d.Leaf({3}), 2), at::conv_transpose3d(d.Leaf({1, 2, 3, 4, 3}), d.Leaf({2, 3, 2, 2, 2}), d.Leaf({3}), 2)}; }, 2},
    {"convolution", [](Draw& d) { return Tensors{at::convolution(d.Leaf({2, 3, 9, 8}), d.Leaf({4, 3, 3, 2}), d.Leaf({4}), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1)}; }, 2},
    {"convolution_backward", [](Draw& d) { const auto [x, w, b] = at::convolution_backward(d.Normal({2, 4, 7, 7}), d.Normal({2, 3, 9, 9}), d.Normal({4, 3, 3, 3}), at::IntArrayRef{4}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, {false, true, true}); return Tensors{x, w, b}; }},
    {"channels_last", [](Draw& d) { return Tensors{at::conv2d(d.Leaf({2, 3, 9, 8}).contiguous(at::MemoryFormat::ChannelsLast), d.Leaf({4, 3, 3, 2}))}; }},
};

const Case kPools[] = {
    {"max_pool", [](Draw& d) { return Tensors{at::max_pool1d(d.Leaf({2, 3, 9}), 2), at::max_pool2d(d.Leaf({2, 3, 8, 8}), 3, 2, 1), at::max_pool3d(d.Leaf({1, 2, 4, 4, 6}), 2)}; }},
    {"max_pool_with_indices", [](Draw& d) { const auto [x, i] = at::max_pool1d_with_indices(d.Leaf({2, 3, 9}), 2); const auto [y, j] = at::max_pool2d_with_indices(d.Leaf({2, 3, 8, 8}), 2); const auto [z, k] = at::max_pool3d_with_indices(d.Leaf({1, 2, 4, 4, 6}), 2); return Tensors{x, i, y, j, z, k}; }},
    {"avg_pool", [](Draw& d) { return Tensors{at::avg_pool1d(d.Leaf({2, 3, 9}), 2), at::avg_pool2d(d.Leaf({2, 3, 8, 8}), 3, 2, 1), at::avg_pool3d(d.Leaf({1, 2, 4, 4, 6}), 2)}; }, 2},
    {"adaptive", [](Draw& d) { return Tensors{at::adaptive_avg_pool1d(d.Leaf({2, 3, 9}), 2), at::adaptive_avg_pool2d(d.Leaf({2, 3, 8, 8}), {3, 1}), at::adaptive_avg_pool3d(d.Leaf({1, 2, 4, 4, 6}), {2, 3, 1}), std::get<0>(at::adaptive_max_pool1d(d.Leaf({2, 3, 9}), 2)), std::get<0>(at::adaptive_max_pool2d(d.Leaf({2, 3, 8, 8}), {3, 1})), std::get<0>(at::adaptive_max_pool3d(d.Leaf({1, 2, 4, 4, 6}), {2, 3, 1}))}; }},
    {"upsample", [](Draw& d) { return Tensors{at::upsample_nearest2d(d.Leaf({1, 2, 3, 4}), {6, 8}), at::upsample_bilinear2d(d.Leaf({1, 2, 3, 4}), {6, 7}, false), at::upsample_nearest1d(d.Leaf({1, 2, 3}), {6}), at::upsample_trilinear3d(d.Leaf({1, 2, 3, 4, 2}), {6, 7, 4}, true)}; }},
};

const Case kNorms[] = {
    {"batch_norm", [](Draw& d) { at::Tensor mean = at::zeros({3}, d.device()), var = at::ones({3}, d.device()); const at::Tensor y = at::batch_norm(d.Leaf({4, 3, 5, 5}), d.Leaf({3}), d.Leaf({3}), mean, var, true, 0.1, 1e-5, true); return Tensors{y, mean, var}; }, 2},
    {"batch_norm_evaluation", [](Draw& d) { return Tensors{at::batch_norm(d.Leaf({4, 3, 5}), d.Leaf({3}), d.Leaf({3}), d.Normal({3}), d.Positive({3}), false, 0.1, 1e-5, true)}; }},
    {"batch_norm_no_statistics", [](Draw& d) { return Tensors{at::batch_norm(d.Leaf({4, 3, 5}), {}, {}, {}, {}, true, 0.1, 1e-5, true)}; }},
    {"layer_norm", [](Draw& d) { return Tensors{at::layer_norm(d.Leaf({4, 3, 50}), {50}, d.Leaf({50}), d.Leaf({50})), at::layer_norm(d.Leaf({4, 3, 5}), {3, 5})}; }, 2},
    {"group_norm", [](Draw& d) { return Tensors{at::group_norm(d.Leaf({4, 6, 5, 2}), 3, d.Leaf({6}), d.Leaf({6}))}; }, 2},
    {"instance_norm", [](Draw& d) { return Tensors{at::instance_norm(d.Leaf({4, 6, 5, 2}), d.Leaf({6}), d.Leaf({6}), {}, {}, true, 0.1, 1e-5, true)}; }},
    {"softmax", [](Draw& d) { return Tensors{d.Leaf({4, 9}).softmax(1), d.Leaf({4, 9}).log_softmax(0), at::softmax(d.Leaf({2, 3, 4}), 1, at::kDouble)}; }, 2},
};

const Case kActivations[] = {
    {"relus", [](Draw& d) { const at::Tensor x = d.Leaf({40}); return Tensors{at::relu(x), at::leaky_relu(x, 0.1), at::elu(x), at::celu(x), at::selu(x), at::hardtanh(x), at::threshold(x, 0.2, 0.1), at::prelu(x, d.Leaf({1})), at::softshrink(x), at::hardshrink(x), at::relu6(x)}; }},
    {"smooth", [](Draw& d) { const at::Tensor x = d.Leaf({40}); return Tensors{at::gelu(x), at::gelu(x, "tanh"), at::silu(x), at::mish(x), at::softplus(x), at::hardswish(x), at::hardsigmoid(x), at::log_sigmoid(x), at::erfinv(x.tanh()), at::glu(x)}; }},
    {"relu_in_place", [](Draw& d) { at::Tensor x = d.Leaf({40}) * 2; x.relu_(); return Tensors{x}; }},
    {"dropout", [](Draw& d) { return Tensors{at::dropout(d.Leaf({40}), 0.3, true)}; }},
    {"rrelu", [](Draw& d) { at::Tensor noise = at::zeros({40}, d.device()); const at::Tensor y = at::rrelu_with_noise(d.Leaf({40}), noise, 0.1, 0.3, true); return Tensors{y, noise}; }},
};

const Case kLosses[] = {
    {"cross_entropy", [](Draw& d) { return Tensors{at::cross_entropy_loss(d.Leaf({6, 4}), d.Below(4, {6})), at::cross_entropy_loss(d.Leaf({6, 4}), d.Below(4, {6}), d.Positive({4}), at::Reduction::Sum, 1, 0.1), at::cross_entropy_loss(d.Leaf({2, 4, 3, 3}), d.Below(4, {2, 3, 3}))}; }},
    {"regressions", [](Draw& d) { const at::Tensor x = d.Leaf({6, 4}), y = d.Normal({6, 4}); return Tensors{at::mse_loss(x, y), at::l1_loss(x, y), at::smooth_l1_loss(x, y), at::huber_loss(x, y), at::kl_div(x, y.softmax(1)), at::nll_loss(x.log_softmax(1), d.Below(4, {6}))}; }},
    {"binary", [](Draw& d) { return Tensors{at::binary_cross_entropy(d.Leaf({6, 4}).sigmoid(), d.Mask({6, 4}).to(at::kFloat)), at::binary_cross_entropy_with_logits(d.Leaf({6, 4}), d.Mask({6, 4}).to(at::kFloat))}; }},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Elementwise, OperatorTest, testing::ValuesIn(kElementwise), NameOf);
INSTANTIATE_TEST_SUITE_P(InPlace, OperatorTest, testing::ValuesIn(kInPlace), NameOf);
INSTANTIATE_TEST_SUITE_P(Shapes, OperatorTest, testing::ValuesIn(kShapes), NameOf);
INSTANTIATE_TEST_SUITE_P(Reductions, OperatorTest, testing::ValuesIn(kReductions), NameOf);
INSTANTIATE_TEST_SUITE_P(Indices, OperatorTest, testing::ValuesIn(kIndices), NameOf);
INSTANTIATE_TEST_SUITE_P(Linear, OperatorTest, testing::ValuesIn(kLinear), NameOf);
INSTANTIATE_TEST_SUITE_P(Convolutions, OperatorTest, testing::ValuesIn(kConvolutions), NameOf);
INSTANTIATE_TEST_SUITE_P(Pools, OperatorTest, testing::ValuesIn(kPools), NameOf);
INSTANTIATE_TEST_SUITE_P(Norms, OperatorTest, testing::ValuesIn(kNorms), NameOf);
INSTANTIATE_TEST_SUITE_P(Activations, OperatorTest, testing::ValuesIn(kActivations), NameOf);
INSTANTIATE_TEST_SUITE_P(Losses, OperatorTest, testing::ValuesIn(kLosses), NameOf);

}  // namespace
}  // namespace adjoin
