// Roll, flip, repeat and index_select along any dims, cut or not, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

using at::Tensor;

std::vector<int64_t> RandomShape(RandomJobs& random) {
  const int64_t dims = random.Between(2, 5);
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < dims; ++i) shape.push_back(random.Between(1, dims < 4 ? 9 : 4));
  return shape;
}

// The text of a random layer and what it makes of x. The number of samples stays.
struct Selected {
  std::string op;
  Tensor y;
};

// A dim, counted from the first or from the last.
int64_t Written(RandomJobs& random, int64_t dim, const Tensor& x) { return random.OneIn(3) ? dim - x.dim() : dim; }

Selected Roll(RandomJobs& random, const Tensor& x) {
  std::vector<int64_t> arguments, shifts, dims;
  for (int64_t pairs = random.Between(1, 3); pairs > 0; --pairs) {
    dims.push_back(random.Between(0, x.dim() - 1));
    shifts.push_back(random.Between(-12, 12));
    arguments.push_back(Written(random, dims.back(), x));
    arguments.push_back(shifts.back());
  }
  return {absl::StrCat("roll { arg: ", ListText(arguments), " }"), at::roll(x, shifts, dims)};
}

Selected Flip(RandomJobs& random, const Tensor& x) {
  std::vector<int64_t> arguments, dims;
  for (int dim : random.Ranks(random.Between(1, x.dim()), x.dim())) {
    dims.push_back(dim);
    arguments.push_back(Written(random, dim, x));
  }
  return {absl::StrCat("flip { arg: ", ListText(arguments), " }"), at::flip(x, dims)};
}

Selected Repeat(RandomJobs& random, const Tensor& x) {
  std::vector<int64_t> times = {1};
  for (int64_t dim = 1; dim < x.dim(); ++dim) times.push_back(random.Between(1, 3));
  return {absl::StrCat("repeat { arg: ", ListText(times), " }"), x.repeat(times)};
}

Selected IndexSelect(RandomJobs& random, const Tensor& x) {
  const int64_t dim = random.Between(0, x.dim() - 1);
  std::vector<int64_t> indices;
  for (int64_t i = dim == 0 ? x.size(0) : random.Between(1, 9); i > 0; --i) {
    indices.push_back(random.Between(0, x.size(dim) - 1));
  }
  std::vector<int64_t> arguments = indices;
  arguments.insert(arguments.begin(), Written(random, dim, x));
  return {absl::StrCat("index_select { arg: ", ListText(arguments), " }"),
          at::index_select(x, dim, at::tensor(indices, at::kLong))};
}

Selected RandomSelection(RandomJobs& random, const Tensor& x) {
  switch (random.Between(0, 3)) {
    case 0: return Roll(random, x);
    case 1: return Flip(random, x);
    case 2: return Repeat(random, x);
    default: return IndexSelect(random, x);
  }
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  // Where it needs no gradient, a field is read from the file in the order in which the layer wants it.
  const Tensor x = random.Normal(RandomShape(random)).requires_grad_(!random.OneIn(4));
  const Selected selected = RandomSelection(random, x);
  const JobParts job = RandomLayerJob(random, selected.op, random.Of<int64_t>({1, 2, 3, 4, 6}), x.sizes().vec(),
                                      selected.y.sizes().vec());
  return CompareLayer(job, random, x, {}, selected.y, transport);
}

TEST(SelectionLayersTest, EqualsSerial) {
  const uint64_t seed = TestSeed(4000);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(SelectionLayersTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// Samples are repeated, some of them picked, and all of it twice in a row, within a run that is computed again.
TEST(SelectionLayersTest, TheBatchToo) {
  const uint64_t seed = TestSeed(6000);
  for (uint64_t i = 0; i < 80; ++i) {
    RandomJobs random(seed + i);
    const Tensor x = random.Normal(RandomShape(random)).requires_grad_();
    JobParts job;
    job.ranks = random.Between(1, 6);
    job.last_dims = static_cast<int>(x.dim());
    AddRandomInput(random, "x", x.sizes().vec(), job);
    std::vector<int64_t> times(x.dim(), 1), rows = {0};
    times[0] = random.Between(2, 3);
    const Tensor repeated = x.repeat(times);
    std::string y;
    if (random.OneIn(2)) {
      job.layouts += random.AnyLayout("z", repeated.sizes().vec(), job.ranks, /*copies=*/true);
      y = " y: \"z\"";
    }
    const std::string again = random.OneIn(2) ? " recompute: true" : "";
    for (int64_t n = 0; n < x.size(0); ++n) rows.push_back(random.Between(0, repeated.size(0) - 1));
    absl::StrAppend(&job.layers, "layer { name: \"z\"", y, again, " repeat { arg: ", ListText(times),
                    " } }\nlayer { name: \"y\"", again, " index_select { arg: ", ListText(rows), " } }\n");
    rows.erase(rows.begin());
    const Tensor picked = at::index_select(repeated, 0, at::tensor(rows, at::kLong));
    ASSERT_EQ(CompareLayer(job, random, x, {}, picked, TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

}  // namespace
}  // namespace adjoin
