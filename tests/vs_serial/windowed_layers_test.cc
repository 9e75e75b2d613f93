// Convolution and max pooling over random windows, cuts, ranks and homes equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

struct WindowCase {
  std::vector<int64_t> kernel, stride, dilation, pad_lo, pad_hi, extent;
  bool ceil_mode = false;

  std::string Text() const {
    return absl::StrCat("window { kernel: ", ListText(kernel), " stride: ", ListText(stride), " dilation: ",
                        ListText(dilation), " pad_lo: ", ListText(pad_lo), " pad_hi: ", ListText(pad_hi), " }");
  }
  // For torch::constant_pad_nd: last dim first.
  std::vector<int64_t> Padding() const {
    std::vector<int64_t> padding;
    for (int i = static_cast<int>(kernel.size()) - 1; i >= 0; --i) {
      padding.push_back(pad_lo[i]);
      padding.push_back(pad_hi[i]);
    }
    return padding;
  }
};

// One spatial dim at a time, until the dilated kernel fits into the padded input.
void AddDim(RandomJobs& random, int64_t most, bool pooling, WindowCase& window) {
  while (true) {
    const int64_t kernel = random.Of<int64_t>({1, 2, 3, 4, 5, 7}), dilation = random.Between(1, 3);
    const int64_t most_padding = pooling ? kernel / 2 : kernel;
    const int64_t lo = random.Between(0, most_padding);
    // LibTorch's own pooling, the reference for ceil_mode, pads alike on both sides.
    const int64_t hi = window.ceil_mode || random.OneIn(2) ? lo : random.Between(0, most_padding);
    const int64_t extent = random.Between(1, most);
    if (dilation * (kernel - 1) + 1 > extent + lo + hi) continue;
    window.kernel.push_back(kernel);
    window.stride.push_back(random.Between(1, 4));
    window.dilation.push_back(dilation);
    window.pad_lo.push_back(lo);
    window.pad_hi.push_back(hi);
    window.extent.push_back(extent);
    return;
  }
}

// Everything random about one layer of one job.
struct Case {
  WindowCase window;
  std::vector<int64_t> x_shape;
  std::vector<int64_t> partition;
  int64_t copies = 0;      // of each part; 0: a partition
  std::vector<int> ranks;  // of a partition
  JobParts job;
};

Case RandomCase(RandomJobs& random, int spatial, bool pooling) {
  Case result;
  result.window.ceil_mode = pooling && random.OneIn(3);
  const int64_t most = spatial == 1 ? 24 : spatial == 2 ? 12 : 7;
  for (int i = 0; i < spatial; ++i) AddDim(random, most, pooling, result.window);
  result.x_shape = {random.Between(1, 4), random.Between(1, 3)};
  result.x_shape.insert(result.x_shape.end(), result.window.extent.begin(), result.window.extent.end());

  result.partition = random.Partition(spatial + 2, /*whole=*/1, 6);
  int64_t parts = 1;
  for (int64_t p : result.partition) parts *= p;
  if (random.OneIn(4)) result.copies = random.Between(1, 6 / parts);
  JobParts& job = result.job;
  job.ranks = std::min<int64_t>(6, parts * std::max<int64_t>(1, result.copies) + random.Between(0, 1));
  job.batch = result.x_shape[0];
  job.x_shape.assign(result.x_shape.begin() + 1, result.x_shape.end());
  result.ranks = random.Ranks(parts, job.ranks);
  job.layouts = result.copies > 0
                    ? random.MeshLayout("x", result.x_shape, result.partition, result.copies, job.ranks)
                    : LayoutText("x", result.partition, result.ranks, random.Cuts(result.x_shape, result.partition));
  job.last_dims = spatial + 2;
  return result;
}

// Layer "y" with `op`, which reads the field in layout "x" or, moved there, in another one; its result is cut as its
// rule says, at other places, or in another way altogether.
void AddLayers(RandomJobs& random, const std::vector<int64_t>& y_shape, const std::string& home, const std::string& op,
               Case& c) {
  const int dims = static_cast<int>(c.x_shape.size());
  std::string head = "name: \"y\" input: \"x\"", y;
  // A field with copies would have partial gradients, and the comparison is with whole ones.
  if (c.copies > 0 || random.OneIn(3)) {
    const int64_t parts = random.Between(1, c.job.ranks);
    std::vector<int64_t> partition(dims, 1);
    partition[random.Between(0, dims - 1)] = parts;
    c.job.layouts +=
        LayoutText("other", partition, random.Ranks(parts, c.job.ranks), random.Cuts(c.x_shape, partition));
    c.job.layers = "layer { name: \"before\" input: \"x\" x: \"other\" y: \"other\" repartition {} }\n";
    head = "name: \"y\"";
  }
  if (random.OneIn(3)) {
    const bool same_mesh = c.copies == 0 && random.OneIn(2);
    const std::vector<int64_t> partition = same_mesh ? c.partition : random.Partition(dims, 1, c.job.ranks);
    int64_t parts = 1;
    for (int64_t p : partition) parts *= p;
    const int64_t copies = !same_mesh && random.OneIn(3) ? random.Between(1, c.job.ranks / parts) : 0;
    c.job.layouts += copies > 0 ? random.MeshLayout("y", y_shape, partition, copies, c.job.ranks)
                                : LayoutText("y", partition, same_mesh ? c.ranks : random.Ranks(parts, c.job.ranks),
                                             random.Cuts(y_shape, partition));
    y = "y: \"y\"";
  }
  absl::StrAppend(&c.job.layers, "layer { ", head, " x: \"x\" ", y, " ", home, " ", op, " }\n");
}

torch::Tensor SerialConv(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         const WindowCase& window, int64_t groups) {
  const torch::Tensor padded = torch::constant_pad_nd(x, window.Padding(), 0);
  const std::vector<int64_t> none(window.kernel.size(), 0);
  switch (window.kernel.size()) {
    case 1: return torch::conv1d(padded, weight, bias, window.stride, none, window.dilation, groups);
    case 2: return torch::conv2d(padded, weight, bias, window.stride, none, window.dilation, groups);
    default: return torch::conv3d(padded, weight, bias, window.stride, none, window.dilation, groups);
  }
}

torch::Tensor SerialMaxPool(torch::Tensor x, const WindowCase& window) {
  std::vector<int64_t> padding = window.pad_lo;
  if (!window.ceil_mode) {
    x = torch::constant_pad_nd(x, window.Padding(), -std::numeric_limits<double>::infinity());
    padding.assign(padding.size(), 0);
  }
  switch (window.kernel.size()) {
    case 1: return torch::max_pool1d(x, window.kernel, window.stride, padding, window.dilation, window.ceil_mode);
    case 2: return torch::max_pool2d(x, window.kernel, window.stride, padding, window.dilation, window.ceil_mode);
    default: return torch::max_pool3d(x, window.kernel, window.stride, padding, window.dilation, window.ceil_mode);
  }
}

std::string CompareConv(uint64_t seed, int spatial, TransportKind transport) {
  RandomJobs random(seed);
  Case c = RandomCase(random, spatial, /*pooling=*/false);
  const int64_t groups = random.OneIn(3) ? c.x_shape[1] : 1;
  const int64_t out_channels = groups * random.Between(1, 3);
  const bool has_bias = !random.OneIn(4);
  std::vector<int64_t> weight_shape = {out_channels, c.x_shape[1] / groups};
  weight_shape.insert(weight_shape.end(), c.window.kernel.begin(), c.window.kernel.end());
  torch::Tensor x = random.Normal(c.x_shape).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal(weight_shape).requires_grad_()}};
  torch::Tensor bias;
  if (has_bias) bias = parameters["y.bias"] = random.Normal({out_channels}).requires_grad_();
  const torch::Tensor y = SerialConv(x, parameters["y.weight"], bias, c.window, groups);
  const std::string home = random.Of<std::string>({"", "home: OWNER", "home: REPLICATED", "home: SHARDED"});
  AddLayers(random, y.sizes().vec(), home,
            absl::StrCat("conv { out_channels: ", out_channels, " groups: ", groups, " bias: ",
                         has_bias ? "true " : "false ", c.window.Text(), " }"),
            c);
  return CompareLayer(c.job, random, x, parameters, y, transport);
}

std::string ComparePool(uint64_t seed, int spatial, TransportKind transport) {
  RandomJobs random(seed);
  Case c = RandomCase(random, spatial, /*pooling=*/true);
  torch::Tensor x = random.Normal(c.x_shape).requires_grad_();
  const torch::Tensor y = SerialMaxPool(x, c.window);
  // A dilated window may hit padding only; its minus infinity has no loss to compare.
  if (torch::isinf(y).any().item<bool>()) return "";
  AddLayers(random, y.sizes().vec(), "",
            absl::StrCat("pool { mode: \"max\" ceil_mode: ", c.window.ceil_mode ? "true " : "false ",
                         c.window.Text(), " }"),
            c);
  return CompareLayer(c.job, random, x, {}, y, transport);
}

class WindowedLayersTest : public testing::TestWithParam<int> {};

TEST_P(WindowedLayersTest, ConvolutionEqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(CompareConv(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(WindowedLayersTest, MaxPoolingEqualsSerial) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(ComparePool(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(WindowedLayersTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(CompareConv(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
    ASSERT_EQ(ComparePool(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(SpatialDims, WindowedLayersTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace adjoin
