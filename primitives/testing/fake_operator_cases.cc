#include "primitives/testing/fake_operator_cases.h"

#include <cstddef>
#include <cstring>

#include <ATen/Parallel.h>

#include "absl/time/time.h"
#include "base/testing/test_seed.h"
#include "primitives/device/fake_device.h"
#include "primitives/testing/fake_backend.h"

namespace adjoin {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Results {
  Tensors exact;   // the results, then the gradients of the sum of their squares
  Tensors higher;  // the gradients of the sum of the squares of those, and so on
};

Results ResultsOf(const FakeOperatorCase& c, uint64_t seed, at::Device device) {
  at::manual_seed(seed);
  OperatorDraw draw(seed, device);
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

}  // namespace
}  // namespace adjoin
