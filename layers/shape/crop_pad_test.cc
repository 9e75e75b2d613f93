// Padding and cropping over random dims, cuts and ranks equal torch.nn.functional.pad on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

// Last dim first, for the last `dims` dims; some of them negative, and something is left of each dim.
std::vector<int64_t> RandomPadding(RandomJobs& random, const std::vector<int64_t>& shape, int64_t dims) {
  std::vector<int64_t> padding;
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t extent = shape[shape.size() - 1 - i];
    while (true) {
      const int64_t lo = random.Between(-std::min<int64_t>(extent, 4), 3);
      const int64_t hi = random.Between(-std::min<int64_t>(extent, 4), 3);
      if (extent + lo + hi < 1) continue;
      padding.push_back(random.OneIn(4) ? 0 : lo);
      padding.push_back(extent + padding.back() + hi < 1 ? 0 : hi);
      break;
    }
  }
  return padding;
}

std::string Op(RandomJobs& random, std::vector<int64_t> padding) {
  if (random.OneIn(2)) return absl::StrCat("pad { arg: ", ListText(padding), " }");
  for (int64_t& pad : padding) pad = -pad;
  return absl::StrCat("crop { arg: ", ListText(padding), " }");
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const int64_t dims = random.Between(2, 5);
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < dims; ++i) shape.push_back(random.Between(1, dims < 4 ? 9 : 4));
  const at::Tensor x = random.Normal(shape).requires_grad_();
  // The batch stays: the labels are as many.
  const std::vector<int64_t> padding = RandomPadding(random, shape, random.Between(1, dims - 1));
  const at::Tensor y = at::constant_pad_nd(x, padding, 0);
  const JobParts job =
      RandomLayerJob(random, Op(random, padding), random.Of<int64_t>({1, 2, 3, 4, 6}), shape, y.sizes().vec());
  return CompareLayer(job, random, x, {}, y, transport);
}

TEST(CropPadTest, EqualsSerial) {
  const uint64_t seed = TestSeed(4000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(CropPadTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// All dims, the batch too; the second layer makes as many samples again.
std::string CompareAllDims(uint64_t seed) {
  RandomJobs random(seed);
  const int64_t ranks = random.Of<int64_t>({1, 2, 3, 4});
  const std::vector<int64_t> shape = {random.Between(1, 4), random.Between(1, 3), random.Between(1, 6)};
  const at::Tensor x = random.Normal(shape).requires_grad_();
  const std::vector<int64_t> first = RandomPadding(random, shape, 3), second = {0, 0, 1, 0, -first[4], -first[5]};
  const at::Tensor y = at::constant_pad_nd(at::constant_pad_nd(x, first, 0), second, 0);
  JobParts job;
  job.ranks = ranks;
  job.batch = shape[0];
  job.x_shape.assign(shape.begin() + 1, shape.end());
  job.last_dims = 3;
  const auto add_layout = [&](const std::string& name, const std::vector<int64_t>& of) {
    const std::vector<int64_t> partition = random.Partition(3, -1, ranks);
    job.layouts += LayoutText(name, partition, random.Ranks(VolumeOf(partition), ranks), random.Cuts(of, partition));
  };
  add_layout("x", shape);
  add_layout("y", y.sizes().vec());
  job.layers = absl::StrCat("layer { name: \"first\" input: \"x\" x: \"x\" ", Op(random, first),
                            " }\nlayer { name: \"y\" ", random.OneIn(2) ? "y: \"y\" " : "", Op(random, second), " }\n");
  return CompareLayer(job, random, x, {}, y, TransportKind::kInMemoryDelayed);
}

TEST(CropPadTest, AllDimsTheBatchToo) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 80; ++i) ASSERT_EQ(CompareAllDims(seed + i), "") << "ADJOIN_TEST_SEED=" << seed + i;
}

}  // namespace
}  // namespace adjoin
