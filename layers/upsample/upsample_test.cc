// Upsampling over random sizes, scales, modes, cuts and ranks equals LibTorch's interpolate on one rank.
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional.h>
#include <torch/types.h>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/layer.h"
#include "layers/role_movements.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "layers/upsample/upsample_rule.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/layout.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildUpsample(LayerContext context);

namespace {

namespace F = torch::nn::functional;

struct UpsampleCase {
  std::string mode;
  std::vector<int64_t> extent, size;  // of the spatial dims
  std::vector<double> scale;          // empty: by size
  bool align_corners = false;

  std::string Text() const {
    return absl::StrCat("upsample { mode: \"", mode, "\" ",
                        scale.empty() ? absl::StrCat("size: ", ListText(size))
                                      : absl::StrCat("scale: [", absl::StrJoin(scale, ", "), "]"),
                        align_corners ? " align_corners: true }" : " }");
  }
};

torch::Tensor Interpolate(const torch::Tensor& x, const UpsampleCase& c) {
  auto options = F::InterpolateFuncOptions();
  if (c.scale.empty()) {
    options.size(c.size);
  } else {
    options.scale_factor(c.scale);
  }
  if (c.mode == "nearest") return F::interpolate(x, options.mode(torch::kNearest));
  if (c.mode == "nearest-exact") return F::interpolate(x, options.mode(torch::kNearestExact));
  if (c.mode == "area") return F::interpolate(x, options.mode(torch::kArea));
  options.align_corners(c.align_corners);
  if (c.mode == "linear") return F::interpolate(x, options.mode(torch::kLinear));
  if (c.mode == "bilinear") return F::interpolate(x, options.mode(torch::kBilinear));
  if (c.mode == "trilinear") return F::interpolate(x, options.mode(torch::kTrilinear));
  return F::interpolate(x, options.mode(torch::kBicubic));
}

// LibTorch's own gradient, unless it is not the adjoint of its forward pass: nearest in float64, and nearest and
// bicubic with some scales, take other cells backward than forward. There the forward pass, a linear map, is written
// out as a matrix, whose gradient is right.
torch::Tensor SerialUpsample(const torch::Tensor& x, const UpsampleCase& c, RandomJobs& random, int* by_matrix) {
  const torch::Tensor y = Interpolate(x, c);
  const torch::Tensor direction = random.Normal(x.sizes().vec()), cotangent = random.Normal(y.sizes().vec());
  const torch::Tensor there = (Interpolate(direction, c) * cotangent).sum();
  const torch::Tensor back = (direction * torch::autograd::grad({y}, {x}, {cotangent}, /*retain_graph=*/true)[0]).sum();
  if (std::abs((there - back).item<double>()) < 1e-9) return y;
  ++*by_matrix;
  // A single channel is read by other rules than several.
  std::vector<int64_t> basis = {VolumeOf(c.extent), 1};
  basis.insert(basis.end(), c.extent.begin(), c.extent.end());
  torch::Tensor units = torch::eye(basis[0], torch::kFloat64).reshape(basis);
  if (x.size(1) > 1) units = torch::cat({units, units}, 1);
  const torch::Tensor matrix = Interpolate(units, c).select(1, 0).reshape({basis[0], -1});
  const torch::Tensor product = torch::matmul(x.flatten(2), matrix).reshape(y.sizes());
  EXPECT_TRUE(torch::allclose(product, y, 1e-12, 1e-12)) << c.Text();
  return product;
}

UpsampleCase RandomUpsample(RandomJobs& random, int spatial, bool area = true) {
  UpsampleCase c;
  const std::vector<std::string> modes[] = {{"linear", "linear"}, {"bilinear", "bicubic"}, {"trilinear", "trilinear"}};
  c.mode = random.Of<std::string>({"nearest", "nearest-exact", area ? "area" : "", "", "", ""});
  if (c.mode.empty()) {
    c.mode = random.Of(modes[spatial - 1]);
    c.align_corners = random.OneIn(2);
  }
  const bool by_scale = random.OneIn(2);
  const int64_t most = spatial == 1 ? 24 : spatial == 2 ? 9 : 5;
  while (static_cast<int>(c.extent.size()) < spatial) {
    const int64_t extent = random.Between(1, most);
    const double scale = random.OneIn(3) ? static_cast<double>(random.Between(1, 3))
                                         : static_cast<double>(random.Between(10, 350)) / 100;
    const double outputs = std::floor(static_cast<double>(extent) * scale);
    if (by_scale && outputs < 1) continue;
    c.extent.push_back(extent);
    if (by_scale) c.scale.push_back(scale);
    c.size.push_back(by_scale ? static_cast<int64_t>(outputs) : random.OneIn(5) ? extent : random.Between(1, 2 * most));
  }
  return c;
}

std::string Compare(uint64_t seed, int spatial, int64_t ranks, TransportKind transport, int* by_matrix) {
  RandomJobs random(seed);
  const UpsampleCase c = RandomUpsample(random, spatial);
  std::vector<int64_t> x_shape = {random.Between(1, 3), random.Between(1, 4)}, y_shape = x_shape;
  x_shape.insert(x_shape.end(), c.extent.begin(), c.extent.end());
  y_shape.insert(y_shape.end(), c.size.begin(), c.size.end());
  const torch::Tensor x = random.Normal(x_shape).requires_grad_();
  const torch::Tensor y = SerialUpsample(x, c, random, by_matrix);
  if (y.sizes() != torch::IntArrayRef(y_shape)) return absl::StrCat("the test's own sizes: ", c.Text());
  const JobParts job = RandomLayerJob(random, c.Text(), ranks, x_shape, y_shape);
  return CompareLayer(job, random, x, {}, y, transport);
}

class UpsampleTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(UpsampleTest, EqualsSerial) {
  const auto [spatial, ranks] = GetParam();
  const uint64_t seed = TestSeed(7000);
  int by_matrix = 0;
  constexpr int kCases = 80;
  for (uint64_t i = 0; i < kCases; ++i) {
    ASSERT_EQ(Compare(seed + i, spatial, ranks, TransportKind::kInMemoryDelayed, &by_matrix), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
  // LibTorch's own gradient is the reference nearly always.
  EXPECT_LT(by_matrix, kCases / 4);
}

INSTANTIATE_TEST_SUITE_P(SpatialDimsAndRanks, UpsampleTest,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2, 3, 4, 6)));

TEST(UpsampleTransportTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  int by_matrix = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(Compare(seed + i, 1 + static_cast<int>(i % 3), 3, TransportKind::kUcxSharedMemory, &by_matrix), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// One rank's layer alone, without a job around it: `c` on an input of one sample, of which Forward cuts out the box
// that it reads.
struct LayerAlone {
  std::unique_ptr<LayerModule> layer;
  std::map<int, Interpolation> interpolations;

  torch::Tensor Forward(torch::Tensor x) const {
    for (const auto& [dim, interpolation] : interpolations) {
      const Interval reads = interpolation.Reads({0, interpolation.options().outputs});
      x = x.narrow(dim, reads.lo, reads.size());
    }
    Tape tape;
    return layer->Forward({x}, tape);
  }
};

LayerAlone MakeLayerAlone(const UpsampleCase& c, DType dtype, int64_t channels = 1) {
  LayerContext context;
  Upsample* spec = context.plan.mutable_spec()->mutable_upsample();
  spec->set_mode(c.mode);
  spec->set_align_corners(c.align_corners);
  if (c.scale.empty()) spec->mutable_size()->Add(c.size.begin(), c.size.end());
  spec->mutable_scale()->Add(c.scale.begin(), c.scale.end());
  std::vector<int64_t> x_shape = {1, channels};
  context.compute_shape = {1, channels};
  x_shape.insert(x_shape.end(), c.extent.begin(), c.extent.end());
  context.compute_shape.insert(context.compute_shape.end(), c.size.begin(), c.size.end());
  context.input_shapes = {x_shape};
  context.roles = std::make_shared<RoleMovements>("the layer");
  context.roles->Add(kRoleInput);
  context.roles->Add(kRoleOutput);
  *context.plan.mutable_compute() = ToProto(Layout::Owner(context.compute_shape, dtype, 0));
  auto interpolations = InterpolationsOf(*spec, x_shape, dtype).value();
  auto layer = BuiltinLayers().Build(std::move(context));
  EXPECT_TRUE(layer.ok()) << layer.status();
  return {*std::move(layer), std::move(interpolations)};
}

// Every pair of extents up to 64, in spatial dim `at` of so many: the layer reads the cells that LibTorch's own kernel
// reads, which are others for one channel, for few, and for many outputs in the other dims; and the halo has them.
void ExpectNearestAsLibTorch(int spatial, int at, torch::ScalarType type, int64_t channels, int64_t others) {
  const DType dtype = type == torch::kFloat32 ? DType::kFloat32 : DType::kFloat64;
  for (const char* mode : {"nearest", "nearest-exact"}) {
    for (int64_t inputs = 1; inputs <= 64; ++inputs) {
      std::vector<int64_t> extent(spatial, 1), size(spatial, others), shape = {1, channels}, lone(2 + spatial, 1);
      extent[at] = lone[2 + at] = inputs;
      shape.insert(shape.end(), extent.begin(), extent.end());
      const torch::Tensor cells = torch::arange(inputs, type).reshape(lone).expand(shape).contiguous();
      for (int64_t outputs = 1; outputs <= 64; ++outputs) {
        size[at] = outputs;
        const UpsampleCase c{mode, extent, size, {}, false};
        ASSERT_TRUE(MakeLayerAlone(c, dtype, channels).Forward(cells).equal(Interpolate(cells, c)))
            << c.Text() << " from " << inputs << ", channels " << channels;
      }
    }
  }
}

class NearestCellsTest : public testing::TestWithParam<torch::ScalarType> {};

TEST_P(NearestCellsTest, AllPairsOfExtentsUpTo64) {
  for (int64_t channels : {1, 2}) ExpectNearestAsLibTorch(1, 0, GetParam(), channels, 1);
  for (int64_t channels : {1, 2, 5}) ExpectNearestAsLibTorch(2, channels % 2, GetParam(), channels, 2);
  for (int64_t channels : {1, 5}) ExpectNearestAsLibTorch(2, channels / 5, GetParam(), channels, 130);
  for (int64_t channels : {1, 2, 5})
    ExpectNearestAsLibTorch(3, static_cast<int>(channels / 2), GetParam(), channels, 2);
}

// Two dims with their own extents and scales, many of them equal or doubled, which some kernels take for what they are.
TEST_P(NearestCellsTest, ScalesOfTheirOwnInTwoDims) {
  const DType dtype = GetParam() == torch::kFloat32 ? DType::kFloat32 : DType::kFloat64;
  const uint64_t seed = TestSeed(500);
  RandomJobs random(seed);
  for (int i = 0; i < 600; ++i) {
    UpsampleCase c;
    c.mode = random.Of<std::string>({"nearest", "nearest-exact"});
    for (int dim = 0; dim < 2; ++dim) {
      const int64_t extent = random.Between(1, 40);
      const double least = random.Of<double>({1, 2, 0.5, 1.4}), most = least + 1.0 / static_cast<double>(extent);
      const double scale = least + (most - least) * static_cast<double>(random.Between(0, 99)) / 100;
      const double outputs = std::floor(static_cast<double>(extent) * scale);
      c.extent.push_back(extent);
      c.scale.push_back(outputs < 1 ? 1 : scale);
      c.size.push_back(outputs < 1 ? extent : static_cast<int64_t>(outputs));
    }
    const int64_t channels = random.Of<int64_t>({1, 3, 6});
    const torch::Tensor x = random.Normal({1, channels, c.extent[0], c.extent[1]}).to(GetParam());
    ASSERT_TRUE(MakeLayerAlone(c, dtype, channels).Forward(x).equal(Interpolate(x, c)))
        << c.Text() << " from " << ListText(c.extent) << ", channels " << channels << ", ADJOIN_TEST_SEED=" << seed;
  }
}

// More outputs and cells than float32 can number: the layer's, and the halo of a rank that begins or ends at any
// output.
TEST_P(NearestCellsTest, ManyCells) {
  const DType dtype = GetParam() == torch::kFloat32 ? DType::kFloat32 : DType::kFloat64;
  constexpr int64_t kMany = (1 << 24) + 6;
  for (const auto& [inputs, outputs] : {std::pair<int64_t, int64_t>{kMany, kMany / 2}, {kMany / 3, kMany}}) {
    for (const char* mode : {"nearest", "nearest-exact"}) {
      const UpsampleCase c{mode, {inputs}, {outputs}, {}, false};
      const torch::Tensor number = torch::arange(inputs, torch::kLong).reshape({1, 1, -1});
      const torch::Tensor low = number.remainder(4096).to(GetParam()), high = number.div(4096, "floor").to(GetParam());
      const torch::Tensor low_read = Interpolate(low, c);
      const LayerAlone layer = MakeLayerAlone(c, dtype);
      EXPECT_TRUE(layer.Forward(low).equal(low_read)) << c.Text();
      const torch::Tensor cells =
          (low_read.to(torch::kLong) + Interpolate(high, c).to(torch::kLong) * 4096).reshape(-1).contiguous();
      for (int64_t output = outputs - 100000; output < outputs; ++output) {
        const Interval reads = layer.interpolations.at(2).Reads({output, output + 1});
        const int64_t cell = cells.data_ptr<int64_t>()[output];
        ASSERT_TRUE(reads.lo <= cell && cell < reads.hi) << c.Text() << " output " << output;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NearestCellsTest, testing::Values(torch::kFloat32, torch::kFloat64));

TEST(UpsampleKernelTest, TwiceDifferentiable) {
  for (int seed = 0; seed < 20; ++seed) {
    RandomJobs random(TestSeed(seed));
    const UpsampleCase c = RandomUpsample(random, 1 + seed % 3, /*area=*/false);
    const LayerAlone layer = MakeLayerAlone(c, DType::kFloat64);
    std::vector<int64_t> shape = {1, 1};
    shape.insert(shape.end(), c.extent.begin(), c.extent.end());
    const torch::Tensor x = random.Normal(shape).requires_grad_();
    const torch::Tensor y = layer.Forward(x * x * x);
    const torch::Tensor once = torch::autograd::grad({y.pow(2).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    const torch::Tensor twice = torch::autograd::grad({once.pow(2).sum()}, {x})[0];
    // The same with the layer's matrix, taken from its own forward pass.
    std::vector<torch::Tensor> columns;
    for (int64_t i = 0; i < x.numel(); ++i) {
      torch::Tensor unit = torch::zeros(x.numel(), torch::kFloat64);
      unit[i] = 1;
      columns.push_back(layer.Forward(unit.reshape(shape)).reshape({-1}));
    }
    const torch::Tensor matrix = torch::stack(columns, 1), flat = (x * x * x).reshape({-1});
    const torch::Tensor z = torch::mv(matrix, flat);
    const torch::Tensor expected_once = torch::autograd::grad({z.pow(2).sum()}, {x}, {}, true, true)[0];
    const torch::Tensor expected = torch::autograd::grad({expected_once.pow(2).sum()}, {x})[0];
    EXPECT_TRUE(torch::allclose(once, expected_once, 1e-10, 1e-10)) << c.Text() << " seed " << seed;
    EXPECT_TRUE(torch::allclose(twice, expected, 1e-10, 1e-10)) << c.Text() << " seed " << seed;
  }
}

TEST(UpsampleKernelTest, Float32AsLibTorchs) {
  for (int seed = 0; seed < 60; ++seed) {
    RandomJobs random(TestSeed(seed));
    const UpsampleCase c = RandomUpsample(random, 1 + seed % 3, /*area=*/false);
    const LayerAlone layer = MakeLayerAlone(c, DType::kFloat32);
    std::vector<int64_t> shape = {1, 1};
    shape.insert(shape.end(), c.extent.begin(), c.extent.end());
    const torch::Tensor x = random.Normal(shape).to(torch::kFloat32);
    const torch::Tensor y = layer.Forward(x), expected = Interpolate(x, c);
    ASSERT_EQ(y.scalar_type(), torch::kFloat32);
    if (c.mode == "nearest" || c.mode == "nearest-exact") {
      EXPECT_TRUE(y.equal(expected)) << c.Text() << " seed " << seed;
    } else {
      EXPECT_TRUE(torch::allclose(y, expected, 1e-5, 1e-5))
          << c.Text() << " of " << ListText(c.extent) << " seed " << seed << "\n"
          << (y - expected).abs().max();
    }
  }
}

}  // namespace
}  // namespace adjoin
