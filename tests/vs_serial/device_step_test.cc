// A step on a device: the numbers of the same step in the host's memory, and no wait of the host in its two passes.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "primitives/device/fake_device.h"
#include "primitives/testing/fake_backend.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

// Padding that a pool meets, sums over ranks, edges beside the interior, random numbers, a run that is computed again.
constexpr char kNetwork[] = R"(name: "unet" kind: TRAIN ranks: 4 seed: 1
layout { name: "cut" partition: [1, 1, 2, 2] }
layer { name: "a1" input: "image" x: "cut" MARK conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n1" MARK norm { kind: "batch" } }
layer { name: "r1" MARK activation { fn: "relu" } }
layer { name: "p1" pool { mode: "max" window { kernel: 3 stride: 2 pad_lo: 1 } } }
layer { name: "a3" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "n3" norm { kind: "group" groups: 2 } }
layer { name: "up" conv { out_channels: 8 transposed: true window { kernel: 2 stride: 2 } } }
layer { name: "skip" input: ["r1", "up"] concat { arg: 1 } }
layer { name: "d4" dropout { p: 0.25 } }
layer { name: "head" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "mse" input: "head" target: "image2" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 24, 20] }
  field { name: "image2" idx { path: "l" } shape: [2, 24, 20] } }
train { dataset: "data" batch: 4 steps: 2 optimizer { sgd { lr: 0.1 } } }
precision { compute: "float64" }
)";

class DeviceStepTest : public testing::TestWithParam<TransportKind> {};

TEST_P(DeviceStepTest, HasTheNumbersOfTheHostAndWaitsForNothing) {
  RegisterFakeBackend();
  const uint64_t seed = TestSeed();
  at::manual_seed(seed);
  for (const char* mark : {"", "recompute: true"}) {
    const auto plan = PlanOf(absl::StrReplaceAll(kNetwork, {{"MARK", mark}}), {{"data", 4}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    StepInput input;
    input.fields = {{"image", at::randn({4, 2, 24, 20}, at::kDouble)},
                    {"image2", at::randn({4, 2, 24, 20}, at::kDouble)}};
    input.seed = seed;
    const auto host = RunStep(*plan, input);
    ASSERT_TRUE(host.ok()) << host.status();
    input.transport = GetParam();
    const auto device = RunStep(*plan, input);
    ASSERT_TRUE(device.ok()) << device.status();
    for (size_t rank = 0; rank < host->size(); ++rank) {
      const RankResult &a = (*host)[rank], &b = (*device)[rank];
      EXPECT_NEAR(a.loss, b.loss, 1e-12 * a.loss) << "rank " << rank;
      ASSERT_EQ(a.parameter_grad.size(), b.parameter_grad.size());
      for (size_t i = 0; i < a.parameter_grad.size(); ++i) {
        ASSERT_EQ(a.parameter_grad[i].defined(), b.parameter_grad[i].defined());
        if (!a.parameter_grad[i].defined()) continue;  // a buffer
        // Norms' statistics are other operators on a device, also in float64.
        EXPECT_TRUE(at::allclose(a.parameter_grad[i], b.parameter_grad[i], 1e-11, 1e-13))
            << "rank " << rank << ", " << plan->parameter(static_cast<int>(i)).name() << " " << mark;
      }
      EXPECT_EQ(b.synchronizations, 0) << "rank " << rank << mark;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceStepTest,
                         testing::Values(TransportKind::kDeviceDirect, TransportKind::kDeviceStaged),
                         [](const auto& info) { return ToString(info.param); });

// What counts them: a read of a value is one.
TEST(DeviceStepTest, AReadOfAValueIsAWait) {
  RegisterFakeBackend();
  const int64_t before = FakeDevice::Get(3).synchronizations();
  EXPECT_EQ(at::ones({}, at::Device(at::kPrivateUse1, 3)).item<float>(), 1);
  EXPECT_EQ(FakeDevice::Get(3).synchronizations(), before + 1);
}

}  // namespace
}  // namespace adjoin
