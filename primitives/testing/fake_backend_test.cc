#include "primitives/testing/fake_backend.h"

#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/testing/test_seed.h"
#include "primitives/device/device.h"
#include "primitives/device/fake_device.h"

namespace adjoin {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Device On(int index) { return at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(index)); }

c10::impl::VirtualGuardImpl Guard() { return c10::impl::VirtualGuardImpl(at::kPrivateUse1); }

class FakeBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    RegisterFakeBackend();
    at::init_num_threads();  // or a thread's first convolution has another number of them, and rounds differently
    seed_ = TestSeed();
    at::manual_seed(seed_);
  }
  void TearDown() override {
    for (int i = 0; i < FakeDevice::kCount; ++i) FakeDevice::Get(i).SetDelays(0, absl::ZeroDuration());
  }
  void Delay(int index, absl::Duration longest) { FakeDevice::Get(index).SetDelays(seed_, longest); }
  static int64_t Synchronizations(int index) { return FakeDevice::Get(index).synchronizations(); }

  uint64_t seed_ = 0;
};

void ExpectSame(const Tensors& expected, const Tensors& on_device) {
  ASSERT_EQ(expected.size(), on_device.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(expected[i], on_device[i].cpu())) << "tensor " << i;
  }
}

// Networks

Tensors Parameters(const Tensors& values, at::Device device) {
  Tensors parameters;
  for (const at::Tensor& value : values) parameters.push_back(value.clone().to(device).requires_grad_(true));
  return parameters;
}

at::Tensor SmallCnn(const Tensors& p, const at::Tensor& x, at::Tensor& mean, at::Tensor& variance) {
  at::Tensor y = at::conv2d(x, p[0], p[1], 1, 1);
  y = at::relu(at::batch_norm(y, p[2], p[3], mean, variance, true, 0.1, 1e-5, true));
  y = at::max_pool2d(y, 2);
  y = at::relu(at::conv2d(y, p[4], p[5]));
  return at::linear(at::adaptive_avg_pool2d(y, {2, 2}).flatten(1), p[6], p[7]);
}

// Stochastic gradient descent with momentum.
Tensors TrainCnn(const Tensors& values, const Tensors& batches, const Tensors& labels, at::Device device) {
  Tensors p = Parameters(values, device);
  Tensors momenta;
  for (const at::Tensor& parameter : p) momenta.push_back(at::zeros_like(parameter));
  at::Tensor mean = at::zeros({6}, device), variance = at::ones({6}, device);
  Tensors losses;
  for (std::size_t step = 0; step < batches.size(); ++step) {
    const at::Tensor logits = SmallCnn(p, batches[step].to(device), mean, variance);
    const at::Tensor loss = at::cross_entropy_loss(logits, labels[step].to(device));
    loss.backward();
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < p.size(); ++i) {
      momenta[i].mul_(0.9).add_(p[i].grad());
      p[i].add_(momenta[i], -0.05);
      p[i].grad().zero_();
    }
    losses.push_back(loss.detach());
  }
  p.insert(p.end(), losses.begin(), losses.end());
  p.push_back(mean);
  p.push_back(variance);
  return p;
}

TEST_F(FakeBackendTest, ASmallCnnTrainsAsOnTheCpu) {
  Delay(1, absl::Microseconds(200));
  const Tensors values = {at::randn({6, 3, 3, 3}), at::randn({6}), at::ones({6}),      at::zeros({6}),
                          at::randn({8, 6, 3, 3}), at::randn({8}), at::randn({5, 32}), at::randn({5})};
  Tensors batches, labels;
  for (int i = 0; i < 5; ++i) {
    batches.push_back(at::randn({4, 3, 12, 12}));
    labels.push_back(at::randint(5, {4}));
  }
  const Tensors expected = TrainCnn(values, batches, labels, at::kCPU);
  const int64_t before = Synchronizations(1);
  const Tensors trained = TrainCnn(values, batches, labels, On(1));
  EXPECT_EQ(Synchronizations(1), before);
  ExpectSame(expected, trained);
}

// One block before a mean of squares: norm, attention of two heads, norm, feed-forward.
at::Tensor AttentionLoss(const Tensors& p, const at::Tensor& ids) {
  at::Tensor x = at::embedding(p[0], ids);  // batch, length, 16
  const auto heads = [](const at::Tensor& t) { return t.view({t.size(0), t.size(1), 2, 8}).transpose(1, 2); };
  const Tensors qkv = at::linear(at::layer_norm(x, {16}, p[1], p[2]), p[3], p[4]).chunk(3, -1);
  const at::Tensor scores = at::matmul(heads(qkv[0]), heads(qkv[1]).transpose(-2, -1)) / std::sqrt(8.0);
  const at::Tensor mask = at::ones({ids.size(1), ids.size(1)}, scores.options()).triu(1).to(at::kBool);
  const at::Tensor weights = at::softmax(scores.masked_fill(mask, -1e9), -1);
  x = x + at::linear(at::matmul(weights, heads(qkv[2])).transpose(1, 2).reshape(x.sizes()), p[5]);
  x = x + at::linear(at::gelu(at::linear(at::layer_norm(x, {16}, p[1], p[2]), p[6])), p[7]);
  return (x * x).mean();
}

// Adam.
Tensors TrainAttention(const Tensors& values, const at::Tensor& ids, at::Device device) {
  Tensors p = Parameters(values, device);
  Tensors first, second;
  for (const at::Tensor& parameter : p) {
    first.push_back(at::zeros_like(parameter));
    second.push_back(at::zeros_like(parameter));
  }
  for (int step = 1; step <= 5; ++step) {
    const at::Tensor loss = AttentionLoss(p, ids.to(device));
    const Tensors gradients = torch::autograd::grad({loss}, p);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < p.size(); ++i) {
      first[i].mul_(0.9).add_(gradients[i], 0.1);
      second[i].mul_(0.999).addcmul_(gradients[i], gradients[i], 0.001);
      const at::Tensor denominator = (second[i].sqrt() / std::sqrt(1 - std::pow(0.999, step))).add_(1e-8);
      p[i].addcdiv_(first[i], denominator, -0.01 / (1 - std::pow(0.9, step)));
    }
  }
  p.insert(p.end(), second.begin(), second.end());
  return p;
}

TEST_F(FakeBackendTest, AnAttentionBlockTrainsAsOnTheCpu) {
  Delay(1, absl::Microseconds(200));
  const Tensors values = {at::randn({11, 16}), at::ones({16}),      at::zeros({16}),     at::randn({48, 16}),
                          at::randn({48}),     at::randn({16, 16}), at::randn({32, 16}), at::randn({16, 32})};
  const at::Tensor ids = at::randint(11, {3, 7});
  const Tensors expected = TrainAttention(values, ids, at::kCPU);
  const int64_t before = Synchronizations(1);
  const Tensors trained = TrainAttention(values, ids, On(1));
  EXPECT_EQ(Synchronizations(1), before);
  ExpectSame(expected, trained);
}

TEST_F(FakeBackendTest, ThreadsTrainOnDevicesOfTheirOwn) {
  constexpr int kRanks = 4;
  const Tensors values = {at::randn({11, 16}), at::ones({16}),      at::zeros({16}),     at::randn({48, 16}),
                          at::randn({48}),     at::randn({16, 16}), at::randn({32, 16}), at::randn({16, 32})};
  const at::Tensor ids = at::randint(11, {3, 7});
  const Tensors expected = TrainAttention(values, ids, at::kCPU);
  std::vector<Tensors> trained(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    Delay(rank, absl::Microseconds(100));
    threads.emplace_back([&, rank] {
      at::init_num_threads();
      trained[rank] = TrainAttention(values, ids, On(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensors& rank : trained) ExpectSame(expected, rank);
}

// Streams and events

TEST_F(FakeBackendTest, ResultsAppearLater) {
  Delay(3, absl::Milliseconds(20));
  const at::Tensor x = at::ones({64}, On(3));
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor y = x + i;
    late += Guard().queryStream(Guard().getStream(On(3))) ? 0 : 1;
    EXPECT_EQ(y.sum().item<float>(), 64.0F * (1 + i));
  }
  EXPECT_GT(late, 0);
}

// Copies what one stream writes on another, and tells how often that was not there yet.
int WrongCopies(int index, bool wait) {
  const c10::Stream other = Guard().getStreamFromGlobalPool(On(index));
  at::Tensor x = at::zeros({256}, On(index));
  int wrong = 0;
  for (int i = 1; i <= 20; ++i) {
    x.fill_(i);
    c10::Event written(at::kPrivateUse1);
    written.record(Guard().getStream(On(index)));
    at::Tensor copy;
    {
      const c10::StreamGuard on_other(other);
      if (wait) written.block(other);
      copy = x.clone();
      const at::Tensor seen = copy.cpu();
      wrong += at::equal(seen, at::full({256}, static_cast<double>(i))) ? 0 : 1;
    }
    Guard().synchronizeStream(Guard().getStream(On(index)));
  }
  return wrong;
}

TEST_F(FakeBackendTest, AForgottenWaitShows) {
  Delay(4, absl::Milliseconds(10));
  EXPECT_GT(WrongCopies(4, false), 0);
  EXPECT_EQ(WrongCopies(4, true), 0);
}

TEST_F(FakeBackendTest, StreamsAreThoseOfTheThread) {
  const c10::Stream made = Guard().getStreamFromGlobalPool(On(5));
  EXPECT_NE(made.id(), 0);
  const c10::StreamGuard guard(made);
  EXPECT_EQ(Guard().getStream(On(5)), made);
  EXPECT_EQ(Guard().getStream(On(6)).id(), 0);
  EXPECT_EQ(&FakeStreamOf(Guard().getDefaultStream(On(5))), &FakeDevice::Get(5).default_stream());
  std::thread([] { EXPECT_EQ(Guard().getStream(On(5)).id(), 0); }).join();
}

TEST_F(FakeBackendTest, EventsTellWhenTheyAreDone) {
  Delay(5, absl::Milliseconds(5));
  const at::Tensor x = at::ones({4}, On(5));
  c10::Event event(at::kPrivateUse1);
  event.record(Guard().getStream(On(5)));
  Guard().synchronizeStream(Guard().getStream(On(5)));
  EXPECT_TRUE(event.query());
}

// Memory

TEST_F(FakeBackendTest, FreshMemoryIsNotZero) {
  const at::Tensor x = at::empty({1000}, On(6));
  EXPECT_FALSE(at::equal(x.cpu(), at::zeros({1000})));
}

TEST_F(FakeBackendTest, FreedMemoryIsUsedAgainAtOnceOnItsStreamOnly) {
  at::Tensor x = at::empty({12345}, On(6));
  const void* const memory = x.data_ptr();
  x.reset();
  {
    const c10::StreamGuard guard(Guard().getStreamFromGlobalPool(On(6)));
    EXPECT_NE(at::empty({12345}, On(6)).data_ptr(), memory);
  }
  EXPECT_EQ(at::empty({12345}, On(6)).data_ptr(), memory);
}

TEST_F(FakeBackendTest, MemoryThatAnotherStreamUsesIsUsedAgainAfterThat) {
  const c10::Stream other = Guard().getStreamFromGlobalPool(On(6));
  at::Tensor x = at::empty({23456}, On(6));
  const void* const memory = x.data_ptr();
  absl::Notification end_of_use;
  FakeStreamOf(other).Launch([&] { end_of_use.WaitForNotification(); });
  Guard().recordDataPtrOnStream(x.storage().data_ptr(), other);
  x.reset();
  const at::Tensor during = at::empty({23456}, On(6));
  EXPECT_NE(during.data_ptr(), memory);
  end_of_use.Notify();
  FakeStreamOf(other).Drain();
  EXPECT_EQ(at::empty({23456}, On(6)).data_ptr(), memory);
}

TEST_F(FakeBackendTest, TheHostCannotTouchTheMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const at::Tensor x = at::ones({8}, On(0));
        const float value = *static_cast<const volatile float*>(x.data_ptr());
        EXPECT_EQ(value, 1);
      },
      "");
}

TEST_F(FakeBackendTest, TensorsOfTwoDevicesAreRefused) {
  const at::Tensor x = at::ones({8}, On(0));
  EXPECT_THROW(x + at::ones({8}, On(1)), c10::Error);
  EXPECT_THROW(x + at::ones({8}), c10::Error);
  EXPECT_THROW(at::ones({8}, On(0)).add_(at::ones({8})), c10::Error);
  EXPECT_EQ((x + at::ones({})).sum().item<float>(), 16);
  EXPECT_THROW(at::ones({8}, at::Device(at::kPrivateUse1, FakeDevice::kCount)), c10::Error);
}

TEST_F(FakeBackendTest, ADeviceWithoutIndexIsTheCurrentOne) {
  const c10::DeviceGuard guard(On(7));
  EXPECT_EQ(at::zeros({2}, at::Device(at::kPrivateUse1)).device(), On(7));
  EXPECT_EQ(at::zeros({2}).to(at::Device(at::kPrivateUse1)).device(), On(7));
}

// Transfers and synchronizations

TEST_F(FakeBackendTest, CopiesToTheDeviceReadTheHostAtOnce) {
  Delay(8, absl::Milliseconds(5));
  for (int i = 0; i < 10; ++i) {
    at::Tensor x = at::full({100}, static_cast<double>(i));
    const at::Tensor y = x.to(On(8));
    const at::Tensor z = x.to(On(8), true);
    x.fill_(-1);
    EXPECT_TRUE(at::equal(y.cpu(), at::full({100}, static_cast<double>(i))));
    EXPECT_TRUE(at::equal(z.cpu(), at::full({100}, static_cast<double>(i))));
  }
}

TEST_F(FakeBackendTest, CopiesOfPinnedMemoryAreAsynchronous) {
  Delay(8, absl::Milliseconds(20));
  at::Tensor pinned = at::full({10, 10}, 3.0).t().pin_memory(On(8));
  EXPECT_TRUE(pinned.is_pinned(On(8)));
  EXPECT_FALSE(at::ones({3}).is_pinned(On(8)));
  const int64_t before = Synchronizations(8);
  const at::Tensor x = pinned.to(On(8), true);
  const at::Tensor back = at::zeros({10, 10}).pin_memory(On(8));
  back.copy_(x * 2, true);
  EXPECT_EQ(Synchronizations(8), before);
  FakeDevice::Get(8).default_stream().Drain();
  EXPECT_TRUE(at::equal(back, at::full({10, 10}, 6.0)));
}

TEST_F(FakeBackendTest, CopiesBetweenDevicesKeepTheOrderOfBoth) {
  Delay(8, absl::Milliseconds(5));
  Delay(9, absl::Milliseconds(5));
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::full({100}, 1.0, On(8)) + i;
    at::Tensor y = at::zeros({100}, On(9));
    y.copy_(x);
    EXPECT_EQ(y.add_(1).sum().item<float>(), 100.0F * (2 + i));
  }
}

TEST_F(FakeBackendTest, CopiesOfAnyStridesAndTypes) {
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::randn({4, 5, 6});
    const at::Tensor from = (i % 2 == 0 ? x : x.permute({2, 1, 0})).slice(1, i % 3, 5, 1 + i % 2);
    const at::ScalarType type = i % 3 == 0 ? at::kDouble : i % 3 == 1 ? at::kBFloat16 : at::kFloat;
    at::Tensor expected = at::zeros(from.sizes(), type).transpose(0, 2).contiguous().transpose(0, 2);
    at::Tensor to = expected.to(On(9));
    to.copy_(i % 5 == 0 ? from : from.to(On(9)));
    expected.copy_(from);
    EXPECT_TRUE(at::equal(expected, to.cpu()));
    at::Tensor back = at::zeros(from.sizes()).transpose(0, 1).contiguous().transpose(0, 1);
    EXPECT_TRUE(at::equal(back.copy_(to), expected.to(at::kFloat)));
  }
}

TEST_F(FakeBackendTest, SynchronizationsAreCounted) {
  const at::Tensor x = at::randn({6, 6}).to(On(10));
  int64_t last = Synchronizations(10);
  const auto counted = [&] { return Synchronizations(10) - std::exchange(last, Synchronizations(10)); };

  at::Tensor y = at::relu(at::matmul(x, x)) + x.sum();
  y.add_(x).t().mul_(2);
  y.index_select(0, at::arange(3, On(10)));
  at::cat({x, y}).to(at::kDouble).clone();
  at::randn({6, 6}).to(On(10));
  EXPECT_EQ(counted(), 0);

  y.sum().item<float>();
  EXPECT_EQ(counted(), 1);
  y.cpu();
  EXPECT_EQ(counted(), 1);
  at::equal(x, y);
  EXPECT_EQ(counted(), 1);
  x.masked_select(x > 0);
  EXPECT_EQ(counted(), 1);
  x.index({x > 0});
  EXPECT_EQ(counted(), 1);
  Guard().synchronizeStream(Guard().getStream(On(10)));
  EXPECT_EQ(counted(), 1);
}

}  // namespace
}  // namespace adjoin
