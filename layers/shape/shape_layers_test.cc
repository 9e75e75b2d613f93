// Reshape, flatten, permute, expand, pixel shuffles and products of tensors in random layouts equal LibTorch's on one
// rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/second_derivative.h"

namespace adjoin {
namespace {

using at::Tensor;
using Shape64 = std::vector<int64_t>;

// Where a layer says that it reads and writes, if it does.
std::string RandomEnds(RandomJobs& random, const Shape64& x, const Shape64& y, JobParts& job) {
  std::string ends;
  if (random.OneIn(4)) {
    job.layouts += random.AnyLayout("first", x, job.ranks, /*copies=*/true);
    ends = " x: \"first\"";
  }
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", y, job.ranks, /*copies=*/true);
    ends += " y: \"y\"";
  }
  return ends;
}

// A job whose last layer, "y", is `op` on the field x of `shape`.
JobParts RandomJob(RandomJobs& random, const std::string& op, const Shape64& shape, const Shape64& y) {
  JobParts job;
  job.ranks = random.Of<int64_t>({1, 2, 3, 4, 6});
  job.last_dims = static_cast<int>(y.size());
  AddRandomInput(random, "x", shape, job);
  const std::string ends = RandomEnds(random, shape, y, job);
  absl::StrAppend(&job.layers, "layer { name: \"y\"", ends, random.OneIn(4) ? " recompute: true " : " ", op, " }\n");
  return job;
}

template <typename CompareFn>
void ForSeeds(uint64_t first, int count, const CompareFn& compare) {
  const uint64_t seed = TestSeed(first);
  for (int i = 0; i < count; ++i) {
    const TransportKind transport = i % 100 == 99 ? TransportKind::kUcxSharedMemory : TransportKind::kInMemoryDelayed;
    ASSERT_EQ(compare(seed + i, transport), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The factors in groups, with ones between.
Shape64 Grouped(RandomJobs& random, int64_t batch, const Shape64& factors) {
  Shape64 shape = {batch};
  for (int64_t factor : factors) {
    if (random.OneIn(6)) shape.push_back(1);
    if (shape.size() == 1 || random.OneIn(2)) {
      shape.push_back(factor);
    } else {
      shape.back() *= factor;
    }
  }
  if (shape.size() == 1) shape.push_back(1);
  return shape;
}

// What moves is the layer's own affair. Where it refuses the layout that x names, it reads in the one that it advises.
std::string CompareMoved(JobParts job, RandomJobs& random, const std::string& op, const Tensor& x, const Tensor& y,
                         TransportKind transport, int* moved) {
  const std::string ends = RandomEnds(random, x.sizes().vec(), y.sizes().vec(), job);
  absl::StrAppend(&job.layers, "layer { name: \"y\"", ends, " ", op, " }\n");
  auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  if (!plan.ok()) {
    const std::string message(plan.status().message());
    const std::string words = "let it name a layout such as ", named = "x: \"first\"";
    const size_t advice = message.find(words), at = job.layers.rfind(named);
    if (advice == std::string::npos || at == std::string::npos) return message;
    absl::StrAppend(&job.layouts, "layout { name: \"advice\" ", message.substr(advice + words.size()), " }\n");
    job.layers.replace(at, named.size(), "x: \"advice\"");
    plan = PlanOf(JobText(job), {{"data", job.batch}});
    if (!plan.ok()) return std::string(plan.status().message());
  }
  for (const OperatorPlan& op_plan : plan->program(0).op())
    *moved += op_plan.name() == "y.x" && ends.find(" x:") == std::string::npos;
  return CompareLayer(job, random, x, {}, y, transport);
}

std::string CompareReshape(uint64_t seed, TransportKind transport, int* moved) {
  RandomJobs random(seed);
  Shape64 factors(random.Between(0, 4));
  for (int64_t& factor : factors) factor = random.Between(2, 3);
  const Shape64 shape = Grouped(random, random.Between(1, 4), factors);
  if (random.OneIn(4)) std::reverse(factors.begin(), factors.end());
  const Shape64 y = Grouped(random, shape[0], factors);
  Shape64 arguments(y.begin() + 1, y.end());
  if (random.OneIn(3)) arguments[random.Between(0, static_cast<int64_t>(arguments.size()) - 1)] = -1;
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(y.size());
  AddRandomInput(random, "x", shape, job);
  const Tensor x = random.Normal(shape).requires_grad_();
  return CompareMoved(job, random, absl::StrCat("reshape { arg: ", ListText(arguments), " }"), x, x.reshape(y),
                      transport, moved);
}

TEST(ReshapeLayerTest, EqualsSerial) {
  int moved = 0;
  ForSeeds(1000, 400, [&](uint64_t seed, TransportKind transport) { return CompareReshape(seed, transport, &moved); });
  EXPECT_GT(moved, 10);
}

std::string CompareFlatten(uint64_t seed, TransportKind transport, int* moved) {
  RandomJobs random(seed);
  Shape64 shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 5);
  const int dims = static_cast<int>(shape.size());
  const int64_t first = random.Between(1, dims - 1), last = random.Between(first, dims - 1);
  const Tensor x = random.Normal(shape).requires_grad_();
  const Tensor y = x.flatten(first, last);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(y.dim());
  AddRandomInput(random, "x", shape, job);
  const std::string op = absl::StrCat("flatten { arg: [", first, ", ", random.OneIn(2) ? last : last - dims, "] }");
  return CompareMoved(job, random, op, x, y, transport, moved);
}

TEST(FlattenLayerTest, EqualsSerial) {
  int moved = 0;
  ForSeeds(1700, 300, [&](uint64_t seed, TransportKind transport) { return CompareFlatten(seed, transport, &moved); });
  EXPECT_GT(moved, 10);
}

// The batch, merged with other dims, is no batch any more: nothing but this layer reads it.
TEST(FlattenLayerTest, MergesTheBatch) {
  ForSeeds(1900, 60, [](uint64_t seed, TransportKind transport) {
    RandomJobs random(seed);
    const Shape64 shape = {random.Between(1, 5), random.Between(1, 4), random.Between(1, 4)};
    const Tensor x = random.Normal(shape).requires_grad_();
    const int64_t last = random.Between(0, 2);
    JobParts job;
    job.ranks = random.Between(1, 6);
    job.last_dims = 3;
    AddRandomInput(random, "x", shape, job);
    absl::StrAppend(&job.layers, "layer { name: \"z\" flatten { arg: [0, ", last,
                    "] } }\nlayer { name: \"y\" input: \"in_x\" activation { fn: \"tanh\" } }\n");
    return CompareLayer(job, random, Tensors{{"x", x}}, {}, Tensors{{"y", at::tanh(x)}, {"z", x.flatten(0, last)}},
                        transport);
  });
}

std::string ComparePermute(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  Shape64 shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 5);
  const int dims = static_cast<int>(shape.size());
  const auto order = [&](const std::vector<int>& of) { return Shape64(of.begin(), of.end()); };
  Shape64 first = order(random.Ranks(dims, dims)), second(dims);
  const Tensor x = random.Normal(shape).requires_grad_();
  const Tensor z = x.permute(first);
  // The batch comes first again.
  second = order(random.Ranks(dims, dims));
  const auto batch = std::find(first.begin(), first.end(), 0) - first.begin();
  std::swap(second[0], *std::find(second.begin(), second.end(), batch));
  const Tensor y = z.permute(second);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = dims;
  AddRandomInput(random, "x", shape, job);
  if (random.OneIn(3)) {
    for (int64_t& dim : first) dim -= dims;
  }
  absl::StrAppend(&job.layers, "layer { name: \"z\" permute { arg: ", ListText(first), " } }\n");
  const std::string ends = RandomEnds(random, z.sizes().vec(), y.sizes().vec(), job);
  absl::StrAppend(&job.layers, "layer { name: \"y\"", ends, " permute { arg: ", ListText(second), " } }\n");
  return CompareLayer(job, random, Tensors{{"x", x}}, {}, Tensors{{"y", y}, {"z", z}}, transport);
}

TEST(PermuteLayerTest, EqualsSerial) { ForSeeds(2000, 200, ComparePermute); }

std::string CompareExpand(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  Shape64 shape = {random.Between(1, 4)}, sizes = {-1}, y = shape;
  for (int64_t dims = random.Between(1, 4); dims > 0; --dims) {
    shape.push_back(random.OneIn(2) ? 1 : random.Between(2, 4));
    y.push_back(shape.back() == 1 ? random.Between(1, 5) : shape.back());
    sizes.push_back(shape.back() > 1 && random.OneIn(2) ? -1 : y.back());
  }
  const Tensor x = random.Normal(shape).requires_grad_();
  if (!random.OneIn(3)) {
    const JobParts job = RandomJob(random, absl::StrCat("expand { arg: ", ListText(sizes), " }"), shape, y);
    return CompareLayer(job, random, x, {}, x.expand(y), transport);
  }
  // New dims in front of the batch.
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(shape.size());
  AddRandomInput(random, "x", shape, job);
  for (int64_t dims = random.Between(1, 2); dims > 0; --dims) {
    sizes.insert(sizes.begin(), random.Between(1, 4));
    y.insert(y.begin(), sizes[0]);
  }
  const std::string ends = RandomEnds(random, shape, y, job);
  absl::StrAppend(&job.layers, "layer { name: \"z\"", ends, " expand { arg: ", ListText(sizes),
                  " } }\nlayer { name: \"y\" input: \"in_x\" activation { fn: \"tanh\" } }\n");
  return CompareLayer(job, random, Tensors{{"x", x}}, {}, Tensors{{"y", at::tanh(x)}, {"z", x.expand(y)}}, transport);
}

TEST(ExpandLayerTest, EqualsSerial) { ForSeeds(3000, 400, CompareExpand); }

// By its definition: pixel (h r + i, w r + j) of channel c comes from channel (c r + i) r + j.
Tensor ShuffledByLoops(const Tensor& x, int64_t factor) {
  const int64_t spatial = x.dim() - 2;
  Shape64 shape = x.sizes().vec();
  for (int64_t dim = 2; dim < x.dim(); ++dim) {
    shape[1] /= factor;
    shape[dim] *= factor;
  }
  Shape64 from;  // which element of x each element is
  for (int64_t place = 0; place < VolumeOf(shape); ++place) {
    Shape64 at(shape.size());
    int64_t rest = place;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim]) at[dim] = rest % shape[dim];
    for (int64_t dim = 2; dim < 2 + spatial; ++dim) {
      at[1] = at[1] * factor + at[dim] % factor;
      at[dim] /= factor;
    }
    int64_t source = 0;
    for (size_t dim = 0; dim < at.size(); ++dim) source = source * x.size(dim) + at[dim];
    from.push_back(source);
  }
  return x.flatten().index_select(0, at::tensor(from, at::kLong)).reshape(shape);
}

std::string ComparePixelShuffle(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const int64_t spatial = random.Between(1, 3), factor = random.Between(1, spatial == 3 ? 2 : 3);
  Shape64 coarse = {random.Between(1, 3), random.Between(1, spatial == 3 ? 2 : 4)};
  for (int64_t dim = 0; dim < spatial; ++dim) {
    coarse.push_back(random.Between(1, spatial == 3 ? 3 : 5));
    coarse[1] *= factor;
  }
  Tensor x = random.Normal(coarse);
  const Tensor fine = ShuffledByLoops(x, factor);
  if (spatial == 2 && !at::equal(fine, at::pixel_shuffle(x, factor))) return "the loops are not pixel_shuffle";
  const bool shuffle = random.OneIn(2);
  x = (shuffle ? x : fine).clone().requires_grad_();
  Tensor y;
  if (shuffle) {
    y = ShuffledByLoops(x, factor);
  } else if (spatial == 2) {
    y = at::pixel_unshuffle(x, factor);
  } else {
    // The inverse: element i of the shuffled one is element order[i].
    const Tensor places = at::arange(x.numel(), at::kLong).reshape(coarse);
    y = x.flatten().index_select(0, at::argsort(ShuffledByLoops(places, factor).flatten())).reshape(coarse);
  }
  const std::string op = absl::StrCat(shuffle ? "pixel_shuffle" : "pixel_unshuffle", " { arg: ", factor, " }");
  const JobParts job = RandomJob(random, op, x.sizes().vec(), y.sizes().vec());
  return CompareLayer(job, random, x, {}, y, transport);
}

TEST(PixelShuffleLayerTest, EqualsSerial) { ForSeeds(4000, 400, ComparePixelShuffle); }

// Concatenates up to three fields, some read twice.
std::string CompareMultiply(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  Shape64 shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 4);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(shape.size());
  Tensors fields;
  Tensor y;
  std::string names;
  for (int64_t i = 0, count = random.Between(2, 3); i < count; ++i) {
    const std::string name = i == 0 ? "x" : absl::StrCat("x", i);
    AddRandomInput(random, name, shape, job);
    fields[name] = random.Normal(shape).requires_grad_();
    for (int64_t times = random.OneIn(4) ? 2 : 1; times > 0; --times) {
      y = y.defined() ? y * fields[name] : fields[name];
      absl::StrAppend(&names, " input: \"in_", name, "\"");
    }
  }
  const std::string ends = RandomEnds(random, shape, shape, job);
  absl::StrAppend(&job.layers, "layer { name: \"y\"", names, ends, " multiply {} }\n");
  return CompareLayer(job, random, fields, {}, {{"y", y}}, transport);
}

TEST(MultiplyLayerTest, EqualsSerial) { ForSeeds(5000, 200, CompareMultiply); }

// The second derivative of x times x, with the cotangent u: 2 u x, whose product with v has the gradient 2 u v.
TEST(MultiplyLayerTest, TwiceDifferentiable) {
  const uint64_t seed = TestSeed(7000);
  for (uint64_t i = 0; i < 30; ++i) {
    RandomJobs random(seed + i);
    const Shape64 shape = {random.Between(1, 4), random.Between(1, 7), random.Between(1, 4)};
    JobParts job;
    job.ranks = random.Between(1, 6);
    job.batch = shape[0];
    job.x_shape = {shape[1], shape[2]};
    job.last_dims = 3;
    job.layouts = random.AnyLayout("x", shape, job.ranks, /*copies=*/false);
    job.layers = "layer { name: \"y\" input: \"x\" input: \"x\" x: \"x\" x: \"x\" multiply {} }\n";
    auto plan = PlanOf(JobText(job), {{"data", job.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    MakeFieldsDifferentiable(*plan, "train");
    const Tensor x = random.Normal(shape), u = random.Normal(shape), v = random.Normal(shape);
    const auto parts = SecondDerivative(*plan, {x, u, v}, seed + i);
    ASSERT_TRUE(parts.ok()) << parts.status();
    const Layout layout = *LayoutFromProto(plan->program(0).value(0).layout());
    for (int rank = 0; rank < job.ranks; ++rank) {
      EXPECT_TRUE(at::allclose((*parts)[rank], PartOf(2 * u * v, layout, rank), 1e-10, 1e-10))
          << "rank " << rank << " ADJOIN_TEST_SEED=" << seed + i;
    }
  }
}

// Whole numbers have no gradient, but places.
TEST(ShapeLayersTest, WholeNumbers) {
  const uint64_t seed = TestSeed(6000);
  for (uint64_t i = 0; i < 60; ++i) {
    RandomJobs random(seed + i);
    const Shape64 shape = {3, 1, 4, 6};
    const Tensor k = at::arange(72).reshape(shape);
    const std::vector<std::pair<std::string, Tensor>> cases = {
        {"roll { arg: [2, 1, -1, -2] }", at::roll(k, {1, -2}, {2, 3})},
        {"flip { arg: [3, 0] }", at::flip(k, {3, 0})},
        {"repeat { arg: [1, 2, 3, 1] }", k.repeat({1, 2, 3, 1})},
        {"index_select { arg: [2, 3, 0, 0] }", at::index_select(k, 2, at::tensor({3, 0, 0}))},
        {"permute { arg: [0, 3, 1, 2] }", k.permute({0, 3, 1, 2})},
        {"expand { arg: [-1, 5, -1, 6] }", k.expand({-1, 5, -1, 6})},
        {"pixel_unshuffle { arg: 2 }", at::pixel_unshuffle(k, 2)},
    };
    const auto& [op, expected] = cases[i % cases.size()];
    JobParts job;
    job.ranks = random.Between(1, 6);
    AddRandomInput(random, "x", {3, 4}, job);
    job.more_fields.push_back({"k", {shape.begin() + 1, shape.end()}});
    job.layouts += random.AnyLayout("field_k", shape, job.ranks, /*copies=*/true);
    absl::StrAppend(&job.layers, "layer { name: \"z\" input: \"k\" x: \"field_k\" ", op,
                    " }\nlayer { name: \"y\" input: \"in_x\" activation { fn: \"tanh\" } }\n");
    std::string text = JobText(job);
    const std::string field = "field { name: \"k\"";
    text.insert(text.find(field) + field.size(), " dtype: \"int64\"");
    const auto plan = PlanOf(text, {{"data", 3}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    StepInput input;
    input.fields = {{"x", random.Normal({3, 4})}, {"k", k}, {"label", random.Labels(3, 3)}};
    const auto ranks = RunStep(*plan, input);
    ASSERT_TRUE(ranks.ok()) << ranks.status() << text;
    for (const ValuePlan& value : plan->program(0).value()) {
      if (value.name() != "z") continue;
      const Layout layout = *LayoutFromProto(value.layout());
      for (int rank = 0; rank < job.ranks; ++rank) {
        ASSERT_TRUE(at::equal((*ranks)[rank].values.at("z"), PartOf(expected, layout, rank)))
            << "rank " << rank << " ADJOIN_TEST_SEED=" << seed + i << "\n"
            << text;
      }
    }
  }
}

}  // namespace
}  // namespace adjoin
