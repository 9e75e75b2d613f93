// What is not one call of torch::nn: paddings that differ at the two ends, against loops; targets that losses accept.
#include "layers/serial_functions.h"
#include "layers/builtin/builtin_serial_functions.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

#include "layers/loss/serial_loss.h"

namespace adjoin {
namespace {

at::Tensor Apply(const std::string& layer, const at::Tensor& x, SerialParameters* parameters) {
  Layer spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("name: \"l\" " + layer, &spec)) << layer;
  const std::string kind = spec.GetDescriptor()->FindFieldByNumber(spec.op_case())->name();
  SerialCall call(spec, {x}, parameters, /*tape=*/nullptr);
  const SerialFunctions functions = BuiltinSerialFunctions();
  return (*functions.Find(kind))(call);
}

SerialParameters NoParameters() { return SerialParameters(at::make_generator<at::CPUGeneratorImpl>(7)); }

at::Tensor Apply(const std::string& layer, const at::Tensor& x) {
  SerialParameters parameters = NoParameters();
  return Apply(layer, x, &parameters);
}

struct Pooling {
  int64_t kernel, stride, dilation, lo, hi;
  bool ceil_mode;
  std::string Text() const {
    return "window { kernel: " + std::to_string(kernel) + " stride: " + std::to_string(stride) +
           " dilation: " + std::to_string(dilation) + " pad_lo: " + std::to_string(lo) +
           " pad_hi: " + std::to_string(hi) + " } ceil_mode: " + (ceil_mode ? "true" : "false");
  }
};

// One channel of one dim, by loops.
std::vector<double> PooledByLoops(const std::vector<double>& x, const Pooling& p, const std::string& mode,
                                  bool include) {
  const int64_t n = static_cast<int64_t>(x.size());
  const int64_t reach = p.dilation * (p.kernel - 1) + 1;
  std::vector<double> y;
  for (int64_t start = -p.lo;; start += p.stride) {
    const bool fits = start + reach <= n + p.hi;
    if (!fits && !(p.ceil_mode && start < n && start + reach < n + p.hi + p.stride)) break;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, where = -1;
    int64_t count = 0;
    for (int64_t i = start; i < start + reach; i += p.dilation) {
      const bool inside = i >= 0 && i < n;
      count += inside || (include && i < n + p.hi);
      if (!inside) continue;
      sum += x[i];
      if (x[i] > largest) where = static_cast<double>(i);
      largest = std::max(largest, x[i]);
    }
    y.push_back(mode == "max" ? largest : mode == "indices" ? where : sum / static_cast<double>(count));
  }
  return y;
}

TEST(SerialPoolTest, PaddingsThatDiffer) {
  const at::Tensor x = at::randn({2, 3, 11}, at::kDouble);
  for (int64_t bits = 0; bits < 4 * 3 * 3 * 3 * 2; ++bits) {
    int64_t rest = bits;
    const auto next = [&rest](int64_t n) {
      const int64_t v = rest % n;
      rest /= n;
      return v;
    };
    Pooling p;
    p.kernel = 1 + next(4);
    p.stride = 1 + next(3);
    p.lo = next(3);
    p.hi = next(3);
    p.ceil_mode = next(2) == 1;
    p.dilation = 1;
    if (2 * std::max(p.lo, p.hi) > p.kernel) continue;
    for (const char* what : {"max", "indices", "avg", "avg_inside"}) {
      const bool average = what[0] == 'a', inside = std::string(what) == "avg_inside";
      std::string text = "pool { " + p.Text() + " mode: \"" + (average ? "avg" : "max") + "\" ";
      if (inside) text += "count_include_pad: false ";
      if (std::string(what) == "indices") text += "return_indices: true ";
      const at::Tensor y = Apply(text + "}", x);
      for (int64_t row = 0; row < 6; ++row) {
        const at::Tensor of = x.view({6, 11})[row];
        const std::vector<double> expected = PooledByLoops(
            std::vector<double>(of.data_ptr<double>(), of.data_ptr<double>() + 11), p, average ? "avg" : what, !inside);
        const at::Tensor got = y.reshape({6, -1})[row].to(at::kDouble).contiguous();
        ASSERT_EQ(got.numel(), static_cast<int64_t>(expected.size())) << text;
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(got.data_ptr<double>()[i], expected[i], 1e-12) << what << " " << text << " at " << i;
        }
      }
    }
  }
}

// LibTorch has them for two dims; here of one and of three.
TEST(SerialShapeTest, PixelShuffleByItsDefinition) {
  const at::Tensor row = at::randn({2, 6, 4}, at::kDouble);
  const at::Tensor long_row = Apply("pixel_shuffle { arg: 3 }", row);
  ASSERT_EQ(long_row.sizes(), at::IntArrayRef({2, 2, 12}));
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t w = 0; w < 12; ++w) {
      ASSERT_TRUE(at::equal(long_row.select(1, c).select(1, w), row.select(1, c * 3 + w % 3).select(1, w / 3)));
    }
  }
  const at::Tensor volume = at::randn({1, 16, 2, 3, 1}, at::kDouble);
  const at::Tensor fine = Apply("pixel_shuffle { arg: 2 }", volume);
  ASSERT_EQ(fine.sizes(), at::IntArrayRef({1, 2, 4, 6, 2}));
  for (int64_t place = 0; place < fine.numel(); ++place) {
    const int64_t w = place % 2, h = place / 2 % 6, d = place / 12 % 4, c = place / 48;
    const int64_t from = ((c * 2 + d % 2) * 2 + h % 2) * 2 + w % 2;
    ASSERT_EQ(fine[0][c][d][h][w].item<double>(), volume[0][from][d / 2][h / 2][w / 2].item<double>()) << place;
  }
  EXPECT_TRUE(at::equal(Apply("pixel_unshuffle { arg: 3 }", long_row), row));
  EXPECT_TRUE(at::equal(Apply("pixel_unshuffle { arg: 2 }", fine), volume));
}

TEST(SerialConvTest, TransposedWithPaddingsThatDiffer) {
  const at::Tensor x = at::randn({2, 4, 5, 6}, at::kDouble);
  SerialParameters parameters = NoParameters();
  const std::string head = "conv { transposed: true out_channels: 6 groups: 2 ";
  const at::Tensor whole = Apply(head + "window { kernel: [3, 4] stride: 2 } }", x, &parameters);
  // The same weights: they are kept under the layer's name.
  const at::Tensor cut =
      Apply(head + "window { kernel: [3, 4] stride: 2 pad_lo: [1, 0] pad_hi: [0, 2] } }", x, &parameters);
  EXPECT_TRUE(at::allclose(cut, whole.slice(2, 1).slice(3, 0, -2), 1e-12, 1e-12));
  // One way of paddings that are the same through LibTorch, and through the cut.
  const at::Tensor even =
      Apply(head + "window { kernel: [3, 4] stride: 2 pad_lo: 1 } output_padding: 1 }", x, &parameters);
  EXPECT_EQ(even.sizes(), at::IntArrayRef({2, 6, 10, 13}));
  EXPECT_TRUE(at::allclose(even, whole.slice(2, 1).slice(3, 1), 1e-12, 1e-12));
}

TEST(SerialUpsampleTest, GradientIsTheAdjoint) {
  for (const char* text : {"mode: \"nearest\" scale: 1.7", "mode: \"bicubic\" scale: [1.3, 2.6]",
                           "mode: \"bicubic\" size: [7, 3] align_corners: true", "mode: \"nearest\" size: [3, 11]"}) {
    for (int64_t channels : {1, 2}) {
      const at::Tensor x = at::randn({2, channels, 5, 7}, at::kDouble).requires_grad_();
      const at::Tensor y = Apply(std::string("upsample { ") + text + " }", x);
      EXPECT_TRUE(at::allclose(y, Apply(std::string("upsample { ") + text + " }", x.detach()), 1e-12, 1e-12)) << text;
      const at::Tensor cotangent = at::randn_like(y);
      const at::Tensor back = torch::autograd::grad({y}, {x}, {cotangent})[0];
      EXPECT_NEAR((y.detach() * cotangent).sum().item<double>(), (x.detach() * back).sum().item<double>(), 1e-10)
          << text;
    }
  }
}

TEST(SerialLossTest, TakesTheTargetsThatAreDrawn) {
  const at::Tensor prediction = at::rand({4, 3, 5}, at::kDouble);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  for (const char* text : {"cross_entropy", "nll", "mse", "l1", "huber", "smooth_l1", "bce", "bce_with_logits",
                           "poisson_nll", "gaussian_nll", "kl_div", "dice", "cosine"}) {
    Loss spec;
    spec.set_kind(text);
    Field field;
    const bool classes = spec.kind() == "cross_entropy" || spec.kind() == "nll";
    if (classes) {
      field.set_dtype("int64");
      spec.set_ignore_index(1);
    } else {
      field.add_shape(3);
    }
    field.add_shape(5);
    const at::Tensor target = DrawTarget(spec, field, prediction, generator);
    const at::Tensor variance = spec.kind() == "gaussian_nll" ? prediction + 0.5 : at::Tensor();
    EXPECT_TRUE(std::isfinite(SerialLoss(spec, prediction, target, variance).item<double>())) << text;
  }
}

}  // namespace
}  // namespace adjoin
