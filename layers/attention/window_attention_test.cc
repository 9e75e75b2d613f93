// Attention within windows, shifted or not, of 1 to 3 spatial dims in any layout, with the heads cut or not, equals
// torchvision's shifted window attention, written here by hand, on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/rounded_comparison.h"

namespace adjoin {
namespace {

using at::Tensor;

// One spatial shape and its windows.
struct Case {
  std::vector<int64_t> shape, window, shift;  // [batch, spatial ..., channels]; per spatial dim
  int64_t heads = 1;
  bool bias = true;
  JobParts job;
  Tensors parameters;

  int dims() const { return static_cast<int>(window.size()); }
  int64_t cells() const { return VolumeOf(window); }
};

std::vector<int64_t> At(int64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; index /= shape[dim]) at[dim] = index % shape[dim];
  return at;
}

int64_t IndexOf(const std::vector<int64_t>& at, const std::vector<int64_t>& shape) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + at[dim];
  return index;
}

// Window by window and cell by cell: each cell's position in the rolled, padded tensor, and where it comes from.
Tensor Serial(const Case& c, const Tensor& x) {
  const int64_t batch = c.shape[0], channels = c.shape.back(), cells = c.cells(), width = channels / c.heads;
  std::vector<int64_t> padded, shift = c.shift, counts, relative;
  std::vector<int64_t> spatial(c.shape.begin() + 1, c.shape.end() - 1);
  for (int d = 0; d < c.dims(); ++d) {
    padded.push_back((spatial[d] + c.window[d] - 1) / c.window[d] * c.window[d]);
    if (c.window[d] >= padded[d]) shift[d] = 0;
    counts.push_back(padded[d] / c.window[d]);
    relative.push_back(2 * c.window[d] - 1);
  }
  const Tensor flat = x.reshape({batch, -1, channels});
  const Tensor with_zero = at::cat({flat, at::zeros({batch, 1, channels}, x.options())}, 1);
  const int64_t zero = flat.size(1);
  std::vector<int64_t> index_of_table;
  for (int64_t i = 0; i < cells; ++i) {
    for (int64_t j = 0; j < cells; ++j) {
      std::vector<int64_t> a = At(i, c.window), b = At(j, c.window);
      for (int d = 0; d < c.dims(); ++d) a[d] += c.window[d] - 1 - b[d];
      index_of_table.push_back(IndexOf(a, relative));
    }
  }
  const Tensor bias = c.parameters.at("y.relative_position_bias_table")
                          .index_select(0, at::tensor(index_of_table))
                          .reshape({cells, cells, c.heads})
                          .permute({2, 0, 1});
  const auto optional = [&c](const char* name) { return c.bias ? c.parameters.at(name) : Tensor(); };
  Tensor y = at::zeros_like(with_zero);
  for (int64_t w = 0; w < VolumeOf(counts); ++w) {
    std::vector<int64_t> source, region;
    for (int64_t i = 0; i < cells; ++i) {
      std::vector<int64_t> at = At(i, c.window), place = at;
      int64_t of_cell = 0;
      bool inside = true;
      for (int d = 0; d < c.dims(); ++d) {
        const int64_t rolled = At(w, counts)[d] * c.window[d] + at[d];
        of_cell = of_cell * 3;
        if (shift[d] > 0) of_cell += rolled < padded[d] - c.window[d] ? 0 : rolled < padded[d] - shift[d] ? 1 : 2;
        place[d] = (rolled + shift[d]) % padded[d];
        inside = inside && place[d] < spatial[d];
      }
      source.push_back(inside ? IndexOf(place, spatial) : zero);
      region.push_back(of_cell);
    }
    const Tensor places = at::tensor(source), regions = at::tensor(region);
    const Tensor qkv =
        at::linear(with_zero.index_select(1, places), c.parameters.at("y.qkv.weight"), optional("y.qkv.bias"))
            .reshape({batch, cells, 3, c.heads, width})
            .permute({2, 0, 3, 1, 4});
    Tensor scores = at::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width)) + bias;
    scores = scores + (regions.unsqueeze(0) != regions.unsqueeze(1)).to(scores.scalar_type()) * -100.0;
    const Tensor values = at::matmul(at::softmax(scores, -1), qkv[2]).transpose(1, 2).reshape({batch, cells, channels});
    y = y.index_add(1, places, at::linear(values, c.parameters.at("y.proj.weight"), optional("y.proj.bias")));
  }
  return y.narrow(1, 0, zero).reshape(c.shape);
}

Tensor Drawn(RandomJobs& random, const std::vector<int64_t>& shape) {
  return (random.Normal(shape) * 0.5).requires_grad_();
}

// The layer "y" with parameters for its shape, in a job that has its layouts already.
void AddLayer(RandomJobs& random, const std::string& head, Case& c) {
  std::vector<int64_t> relative;
  for (int64_t window : c.window) relative.push_back(2 * window - 1);
  const int64_t channels = c.shape.back();
  c.parameters = {{"y.qkv.weight", Drawn(random, {3 * channels, channels})},
                  {"y.proj.weight", Drawn(random, {channels, channels})},
                  {"y.relative_position_bias_table", Drawn(random, {VolumeOf(relative), c.heads})}};
  if (c.bias) {
    c.parameters["y.qkv.bias"] = Drawn(random, {3 * channels});
    c.parameters["y.proj.bias"] = Drawn(random, {channels});
  }
  absl::StrAppend(&c.job.layers, "layer { name: \"y\" ", head, " window_attention { heads: ", c.heads,
                  " window: ", ListText(c.window), " shift: ", ListText(c.shift), c.bias ? "" : " bias: false",
                  " } }\n");
}

Case RandomCase(RandomJobs& random) {
  const std::vector<std::string> homes = {"", " home: OWNER", " home: REPLICATED", " home: SHARDED"};
  Case c;
  const int dims = static_cast<int>(random.Between(1, 3));
  c.shape = {random.Between(1, 3)};
  for (int d = 0; d < dims; ++d) {
    c.shape.push_back(random.Between(1, dims == 3 ? 5 : 8));
    c.window.push_back(random.Between(1, dims == 3 ? 2 : 4));
    c.shift.push_back(random.OneIn(3) ? 0 : random.Between(0, c.window.back() - 1));
  }
  c.heads = random.Between(1, 4);
  c.shape.push_back(c.heads * random.Between(1, 3));
  c.bias = !random.OneIn(4);
  c.job.ranks = random.Between(1, 6);
  c.job.last_dims = dims + 2;
  AddRandomInput(random, "x", c.shape, c.job);
  std::string head = random.Of(homes);
  if (random.OneIn(3)) {
    const std::vector<int64_t> partition = random.Partition(dims + 2, -1, c.job.ranks);
    auto cuts = random.Cuts(c.shape, partition);
    // The features between heads, or anywhere.
    if (cuts.count(dims + 1) > 0 && random.OneIn(2)) {
      cuts[dims + 1] = random.Sizes(c.heads, partition.back());
      for (int64_t& size : cuts[dims + 1]) size *= c.shape.back() / c.heads;
    }
    c.job.layouts += LayoutText("w", partition, random.Ranks(VolumeOf(partition), c.job.ranks), cuts);
    head += " w: \"w\"";
  }
  if (random.OneIn(3)) {
    c.job.layouts += random.AnyLayout("y", c.shape, c.job.ranks, /*copies=*/true);
    head += " y: \"y\"";
  }
  AddLayer(random, head, c);
  return c;
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  Case c = RandomCase(random);
  const Tensor x = random.Normal(c.shape).requires_grad_();
  return CompareLayer(c.job, random, x, c.parameters, Serial(c, x), transport);
}

TEST(WindowAttentionTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(WindowAttentionTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The same serial formula, in the same type.
TEST(WindowAttentionTest, NoMoreIsLostInBFloat16ThanSerially) {
  RandomJobs random(5);
  Case c;
  c.shape = {2, 10, 12, 8};
  c.window = {4, 4};
  c.shift = {2, 1};
  c.heads = 2;
  c.job.ranks = 6;
  c.job.batch = 2;
  c.job.x_shape = {10, 12, 8};
  c.job.last_dims = 4;
  c.job.layouts = LayoutText("x", {1, 3, 2, 1}, {0, 1, 2, 3, 4, 5});
  c.job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" window_attention { heads: 2 window: 4 shift: [2, 1] } }\n";
  const Tensors parameters = {{"y.qkv.weight", random.Normal({24, 8}) * 0.3},
                              {"y.qkv.bias", random.Normal({24}) * 0.3},
                              {"y.proj.weight", random.Normal({8, 8}) * 0.3},
                              {"y.proj.bias", random.Normal({8}) * 0.3},
                              {"y.relative_position_bias_table", random.Normal({49, 2}) * 0.3}};
  const auto serial = [&](const Tensor& x, const Tensors& leaves) {
    c.parameters = leaves;
    return Serial(c, x);
  };
  const RoundedStep step = {c.job, "bfloat16", random.Normal(c.shape) * 3, random.Normal(c.shape), parameters, serial};
  const auto ours = ErrorsOnRanks(step);
  ASSERT_TRUE(ours.ok()) << ours.status();
  const Errors theirs = SerialErrors(step);
  ASSERT_EQ(ours->size(), 7u);
  for (const auto& [name, error] : *ours) {
    EXPECT_LE(error, 1.5 * theirs.at(name) + 4.0 / 256) << name << "; serial " << theirs.at(name);
  }
}

// Every row of the table but the outermost gets hundreds of gradients of about one size: added up in bfloat16 they
// would stay at 256 times one of them.
TEST(WindowAttentionTest, ManyPairsAtOneDistanceLoseNothingInBFloat16) {
  Case c;
  c.shape = {8, 24, 24, 2};
  c.window = {12, 12};
  c.shift = {0, 0};
  c.job.ranks = 2;
  c.job.batch = 8;
  c.job.x_shape = {24, 24, 2};
  c.job.last_dims = 4;
  c.job.layouts = LayoutText("x", {1, 2, 1, 1}, {1, 0});
  c.job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" window_attention { heads: 1 window: 12 bias: false } }\n";
  c.bias = false;
  // A cell's value tells how it differs from the mean of its window: all queries learn alike from keys to one side.
  const Tensor ramp = (at::arange(24, at::kDouble).remainder(12) - 5.5) / 6;
  const Tensor x = at::stack({at::ones({24, 24}, at::kDouble), ramp.unsqueeze(1).expand({24, 24})}, -1)
                       .unsqueeze(0)
                       .expand({8, -1, -1, -1})
                       .contiguous();
  Tensor values = at::zeros({6, 2}, at::kDouble);
  values[4][1] = 1;  // in the second channel
  const Tensors parameters = {{"y.qkv.weight", values},
                              {"y.proj.weight", at::eye(2, at::kDouble)},
                              {"y.relative_position_bias_table", at::zeros({529, 1}, at::kDouble)}};
  const auto serial = [&](const Tensor& input, const Tensors& leaves) {
    c.parameters = leaves;
    return Serial(c, input);
  };
  const auto ours = ErrorsOnRanks({c.job, "bfloat16", x, at::ones(c.shape, at::kDouble), parameters, serial});
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_LT(ours->at("y.relative_position_bias_table"), 0.02);
}

// The names of layer y's operators that send something, of an 8 x 8 image on 4 ranks.
std::string Operators(const std::string& layer) {
  JobParts job;
  job.ranks = 4;
  job.batch = 2;
  job.x_shape = {8, 8, 6};
  job.last_dims = 4;
  job.layouts = LayoutText("x", {1, 2, 2, 1}, {0, 1, 2, 3}) + LayoutText("w", {1, 2, 1, 2}, {0, 1, 2, 3}) +
                "layout { name: \"mesh\" mesh { size: 2 } mesh { size: 2 } sbp: [\"S(1)\", \"S(2)\"] }\n";
  job.layers = absl::StrCat("layer { name: \"before\" input: \"x\" x: \"x\" activation { fn: \"relu\" } }\n",
                            "layer { name: \"y\" ", layer, " }\n");
  auto plan = PlanOf(JobText(job), {{"data", 2}});
  if (!plan.ok()) {
    const std::string message(plan.status().message());
    return message.substr(message.find("layer 1"));
  }
  std::string names;
  for (const OperatorPlan& op : plan->program(0).op()) {
    if (op.name().rfind("y.", 0) == 0) absl::StrAppend(&names, op.name(), " ");
  }
  return names;
}

TEST(WindowAttentionTest, WholeWindowsMoveNothing) {
  EXPECT_EQ(Operators("window_attention { heads: 2 window: 4 }"), "");
  EXPECT_EQ(Operators("window_attention { heads: 2 window: 4 shift: 2 }"), "y.x y.unroll ");
  EXPECT_EQ(Operators("window_attention { heads: 2 window: 3 }"), "y.x y.unroll ");
  EXPECT_EQ(Operators("w: \"w\" window_attention { heads: 2 window: 4 }"), "y.x y.y ");
}

TEST(WindowAttentionTest, RefusesByField) {
  EXPECT_EQ(Operators("window_attention { window: 4 }"),
            "layer 1 \"y\": window_attention.heads is missing; it must be at least 1");
  EXPECT_EQ(Operators("window_attention { heads: 4 window: 4 }"),
            "layer 1 \"y\": the input's 6 channels are not a multiple of the 4 heads");
  EXPECT_EQ(Operators("window_attention { heads: 2 }"),
            "layer 1 \"y\": window_attention.window is missing; write window: 7, say");
  EXPECT_EQ(Operators("window_attention { heads: 2 window: [4, 4, 4] }"),
            "layer 1 \"y\": window_attention.window has 3 values; write one, or one for each of the 2 spatial dims");
  EXPECT_EQ(Operators("window_attention { heads: 2 window: 4 shift: 4 }"),
            "layer 1 \"y\": window_attention.shift is 4 where the window is 4; a shift is less than the window");
  EXPECT_EQ(Operators("window_attention { heads: 2 window: 4 dropout: 1 }"),
            "layer 1 \"y\": window_attention.dropout is 1; it must be at least 0 and below 1");
  EXPECT_EQ(
      Operators("w: \"mesh\" transformer { heads: 2 hidden: 12 window: 4 }"),
      "layer 1 \"y\": its layer \"y.attn\": its input, 2x8x8x6, has 2 spatial dims: with a mesh as w, window needs one"
      " value for each of them, so that the last dim is known");
  EXPECT_EQ(Operators("w: \"mesh\" transformer { heads: 2 hidden: 12 window: [4, 4] }").find("layer 1"),
            std::string::npos);
}

}  // namespace
}  // namespace adjoin
