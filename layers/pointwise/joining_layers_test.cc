// Sums, products and concatenations of tensors in random layouts, also in residual networks, equal LibTorch's on one
// rank.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using at::Tensor;

std::vector<int64_t> RandomShape(RandomJobs& random) {
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 4);
  return shape;
}

// The fields of a case and how the layer under test names what it reads.
struct Inputs {
  Tensors fields;
  std::vector<Tensor> values;
  std::string names;  // "input: ... input: ..."
};

// `shapes`: of the fields, "x", "x1", ... The layer reads each in a random layout, some twice.
Inputs AddInputs(RandomJobs& random, const std::vector<std::vector<int64_t>>& shapes, JobParts& job) {
  Inputs inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = i == 0 ? "x" : absl::StrCat("x", i);
    AddRandomInput(random, name, shapes[i], job);
    const Tensor value = random.Normal(shapes[i]).requires_grad_();
    inputs.fields[name] = value;
    for (int64_t times = random.OneIn(4) ? 2 : 1; times > 0; --times) {
      inputs.values.push_back(value);
      absl::StrAppend(&inputs.names, " input: \"in_", name, "\"");
    }
  }
  return inputs;
}

// The layouts in which the layer reads and writes, where it names any.
std::string RandomEnds(RandomJobs& random, const std::vector<int64_t>& x_shape, const std::vector<int64_t>& y_shape,
                       JobParts& job) {
  std::string ends;
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("first", x_shape, job.ranks, /*copies=*/true);
    ends = " x: \"first\"";
  }
  if (random.OneIn(3)) {
    job.layouts += random.AnyLayout("y", y_shape, job.ranks, /*copies=*/true);
    ends += " y: \"y\"";
  }
  return ends;
}

// Some of the inputs have extents of 1 where others have more: every dim is whole in one of them at least.
std::string CompareAdd(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = RandomShape(random);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(shape.size());
  std::vector<std::vector<int64_t>> shapes(random.Between(1, 3), shape);
  const bool broadcasts = random.OneIn(2);
  for (size_t dim = 1; dim < shape.size() && broadcasts; ++dim) {
    const int64_t whole = random.Between(0, static_cast<int64_t>(shapes.size()) - 1);
    for (int64_t i = 0; i < static_cast<int64_t>(shapes.size()); ++i) {
      if (i != whole && random.OneIn(2)) shapes[i][dim] = 1;
    }
  }
  Inputs inputs = AddInputs(random, shapes, job);
  if (inputs.values.size() == 1) {
    inputs.values.push_back(inputs.values[0]);
    inputs.names += " input: \"in_x\"";
  }
  const bool product = random.OneIn(2);
  absl::StrAppend(&job.layers, "layer { name: \"y\"", inputs.names, RandomEnds(random, shapes[0], shape, job),
                  product ? " multiply {} }\n" : " add {} }\n");
  Tensor y = inputs.values[0];
  for (size_t i = 1; i < inputs.values.size(); ++i) y = product ? y * inputs.values[i] : y + inputs.values[i];
  return CompareLayer(job, random, inputs.fields, {}, {{"y", y}}, transport);
}

// Concatenates tensors that differ in `dim`, which may be the batch: the network then ends with the sum of two samples.
std::string CompareConcat(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> shape = RandomShape(random);
  const int dims = static_cast<int>(shape.size());
  const int dim = static_cast<int>(random.Between(0, dims - 1));
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = dims;
  std::vector<std::vector<int64_t>> shapes(random.Between(2, 3), shape);
  for (auto& of_input : shapes) of_input[dim] = dim == 0 ? shape[0] : random.Between(1, 5);
  const Inputs inputs = AddInputs(random, shapes, job);
  const Tensor z = at::cat(inputs.values, dim);
  absl::StrAppend(&job.layers, "layer { name: \"z\"", inputs.names, RandomEnds(random, shapes[0], z.sizes().vec(), job),
                  " concat { arg: ", random.OneIn(2) ? dim : dim - dims, " } }\n");
  if (dim > 0) {
    job.layers += "layer { name: \"y\" activation { fn: \"tanh\" } }\n";
    return CompareLayer(job, random, inputs.fields, {}, {{"y", at::tanh(z)}, {"z", z}}, transport);
  }
  job.layers += "layer { name: \"y\" input: \"in_x\" activation { fn: \"tanh\" } }\n";
  return CompareLayer(job, random, inputs.fields, {}, {{"y", at::tanh(inputs.fields.at("x"))}, {"z", z}}, transport);
}

// Inputs with fewer dims, and such whose batch is repeated: they come from one sample of another field.
std::string CompareFewerDims(uint64_t seed) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = RandomShape(random);
  std::vector<int64_t> fewer(shape.begin() + random.Between(0, static_cast<int64_t>(shape.size()) - 2), shape.end());
  fewer[0] = shape[0];
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(shape.size());
  Inputs inputs = AddInputs(random, {shape, fewer}, job);
  fewer[0] = 1;
  job.layouts += random.AnyLayout("one", fewer, job.ranks, /*copies=*/true);
  const int64_t sample = random.Between(0, shape[0] - 1);
  absl::StrAppend(&job.layers, "layer { name: \"one\" input: \"in_x1\" y: \"one\" index_select { arg: [0, ", sample,
                  "] } }\nlayer { name: \"y\" input: \"",
                  random.OneIn(2) ? "one\" input: \"in_x" : "in_x\" input: \"one", "\" multiply {} }\n");
  const Tensor x = inputs.fields.at("x"), one = inputs.fields.at("x1").narrow(0, sample, 1);
  return CompareLayer(job, random, inputs.fields, {}, {{"one", one}, {"y", x * one}}, TransportKind::kInMemoryDelayed);
}

TEST(MultiplyTest, OfFewerDimsEqualsSerial) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(CompareFewerDims(seed + i), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(AddTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 600; ++i) {
    ASSERT_EQ(CompareAdd(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(ConcatTest, EqualsSerial) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 400; ++i) {
    ASSERT_EQ(CompareConcat(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(JoiningLayersTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(CompareAdd(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
    ASSERT_EQ(CompareConcat(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// x -> a -> relu -> b -> add(b, a) -> concat with a -> head: every one in a layout of its own, "a" read by three layers
// in others. As jobs run it: no gradients of fields.
std::string CompareResidual(uint64_t seed, bool fields) {
  RandomJobs random(seed);
  const std::vector<int64_t> x_shape = {random.Between(1, 4), 2, random.Between(3, 7)};
  const std::vector<int64_t> shape = {x_shape[0], 3, x_shape[2]};
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = 3;
  job.batch = x_shape[0];
  job.x_shape = {x_shape[1], x_shape[2]};
  const auto cut = [&](const char* name, const std::vector<int64_t>& of) {
    std::vector<int64_t> partition = random.Partition(3, /*whole=*/1, job.ranks);
    const int64_t parts = partition[0] * partition[2];
    job.layouts += LayoutText(name, partition, random.Ranks(parts, job.ranks), random.Cuts(of, partition));
  };
  cut("x", x_shape);
  cut("b", shape);
  job.layouts += random.AnyLayout("relu", shape, job.ranks, true) + random.AnyLayout("sum", shape, job.ranks, true) +
                 random.AnyLayout("y", {shape[0], 6, shape[2]}, job.ranks, true);
  job.layers =
      "layer { name: \"a\" input: \"x\" x: \"x\" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }\n"
      "layer { name: \"relu\" x: \"relu\" activation { fn: \"relu\" } }\n"
      "layer { name: \"b\" x: \"b\" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }\n"
      "layer { name: \"sum\" input: \"b\" input: \"a\" x: \"sum\" add {} }\n"
      "layer { name: \"y\" input: \"sum\" input: \"a\" y: \"y\" concat { arg: 1 } }\n";
  Tensor x = random.Normal(x_shape).requires_grad_();
  Tensors parameters = {{"a.weight", random.Normal({3, 2, 3}).requires_grad_()},
                        {"a.bias", random.Normal({3}).requires_grad_()},
                        {"b.weight", random.Normal({3, 3, 3}).requires_grad_()},
                        {"b.bias", random.Normal({3}).requires_grad_()}};
  const Tensor a = at::conv1d(x, parameters["a.weight"], parameters["a.bias"], 1, 1);
  const Tensor b = at::conv1d(at::relu(a), parameters["b.weight"], parameters["b.bias"], 1, 1);
  const Tensor sum = b + a;
  const Tensor y = at::cat({sum, a}, 1);
  const Tensors values = {{"a", a}, {"b", b}, {"sum", sum}, {"y", y}};
  return CompareLayer(job, random, fields ? Tensors{{"x", x}} : Tensors{{"x", x.detach()}}, parameters, values,
                      TransportKind::kInMemoryDelayed);
}

TEST(ResidualTest, AValueReadInSeveralLayoutsEqualsSerial) {
  const uint64_t seed = TestSeed(7000);
  for (uint64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(CompareResidual(seed + i, i % 2 == 0), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

}  // namespace
}  // namespace adjoin
