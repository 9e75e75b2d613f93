// Networks of layers drawn at random, in layouts drawn at random, on several numbers of ranks: verify finds no
// difference. It compares every layer that comes with Adjoin with what verify's own serial functions make of the job's
// text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "base/testing/test_seed.h"
#include "planner/spec/spec_parser.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

constexpr int kDims = 4;

class RandomModel {
 public:
  RandomModel(uint64_t seed, int ranks) : engine_(seed), ranks_(ranks) {}

  std::string Text() {
    channels_ = Between(1, 4);
    height_ = Between(7, 12);
    width_ = Between(7, 12);
    const std::string shape = absl::StrCat("[", channels_, ", ", height_, ", ", width_, "]");
    const int layouts = static_cast<int>(Between(2, 4));
    for (int i = 0; i < layouts; ++i) AddLayout();
    Add("image", true,
        absl::StrCat("conv { out_channels: ", channels_ = 2 * Between(1, 3), " window { kernel: 3 pad_lo: 1 } }"));
    const int layers = static_cast<int>(Between(3, 7));
    for (int i = 0; i < layers; ++i) AddLayer();
    const int classes = 3;
    absl::StrAppend(&layers_, OneIn(2) ? "layer { name: \"gathered\" y: \"whole\" repartition {} }\n" : "",
                    "layer { name: \"flat\" flatten { arg: 1 } }\n",
                    "layer { name: \"head\" home: OWNER owner: ", Between(0, ranks_ - 1),
                    " linear { out_features: ", classes, " } }\n");
    return absl::StrCat("name: \"random\" kind: TRAIN ranks: ", ranks_, " seed: 1\n", layouts_,
                        "layout { name: \"whole\" partition: [1, 1, 1, 1] rank: [0] }\n", layers_,
                        "loss { kind: \"cross_entropy\" input: \"head\" target: \"label\" }\n",
                        "dataset { name: \"data\" field { name: \"image\" idx { path: \"i\" } shape: ", shape,
                        " } field { name: \"label\" idx { path: \"l\" } dtype: \"int64\" } }\n",
                        "train { dataset: \"data\" batch: 3 steps: 1 optimizer { sgd { lr: 0.1 momentum: 0.5 } } }\n");
  }

 private:
  int64_t Between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool OneIn(int n) { return Between(1, n) == 1; }
  std::string Of(const std::vector<std::string>& choices) { return choices[Between(0, choices.size() - 1)]; }

  // Any parts of any dims, on any ranks.
  void AddLayout() {
    std::vector<int64_t> parts(kDims, 1);
    int64_t count = 1;
    for (int tries = 0; tries < 6; ++tries) {
      const int64_t dim = Between(0, kDims - 1), n = Between(2, 3);
      if (parts[dim] > 1 || count * n > ranks_) continue;
      parts[dim] = n;
      count *= n;
    }
    std::vector<int> ranks(ranks_);
    for (int r = 0; r < ranks_; ++r) ranks[r] = r;
    std::shuffle(ranks.begin(), ranks.end(), engine_);
    ranks.resize(count);
    absl::StrAppend(&layouts_, "layout { name: \"l", layout_count_++, "\" partition: [", absl::StrJoin(parts, ", "),
                    "] rank: [", absl::StrJoin(ranks, ", "), "] }\n");
  }

  std::string RandomLayout() { return absl::StrCat("l", Between(0, layout_count_ - 1)); }

  // Reads `input`, or the layer before.
  std::string Add(const std::string& input, bool x, const std::string& op, bool may_have_home = false) {
    const std::string name = absl::StrCat("a", layer_count_++);
    absl::StrAppend(&layers_, "layer { name: \"", name, "\" ");
    if (!input.empty()) absl::StrAppend(&layers_, "input: \"", input, "\" ");
    if (x || OneIn(3)) absl::StrAppend(&layers_, "x: \"", RandomLayout(), "\" ");
    if (OneIn(4)) absl::StrAppend(&layers_, "y: \"", RandomLayout(), "\" ");
    if (may_have_home && OneIn(2))
      absl::StrAppend(
          &layers_,
          "home: ", Of({"OWNER", absl::StrCat("OWNER owner: ", Between(0, ranks_ - 1)), "REPLICATED", "SHARDED"}), " ");
    absl::StrAppend(&layers_, op, " }\n");
    return last_ = name;
  }

  void AddConv() {
    const int64_t stride = Between(1, 2), dilation = Between(1, 2), out = 2 * Between(1, 3);
    const std::string boundary = Of({"zeros", "zeros", "circular", "reflect", "replicate"});
    const int64_t pad = boundary == "zeros" ? Between(0, 2) : Between(1, 2), reach = 2 * dilation + 1;
    if (height_ + 2 * pad < reach || width_ + 2 * pad < reach || height_ <= pad || width_ <= pad) return;
    const int64_t groups = channels_ % 2 == 0 && OneIn(3) ? 2 : 1;
    if (boundary == "zeros" && OneIn(3)) {
      Add("", false,
          absl::StrCat("conv { out_channels: ", out, " window { kernel: [", Between(1, 4), ", ", Between(1, 4),
                       "] dilation: ", dilation, " padding: \"same\" } }"),
          true);
      channels_ = out;
      return;
    }
    Add("", false,
        absl::StrCat("conv { out_channels: ", out, " groups: ", groups, OneIn(4) ? " bias: false" : "",
                     " window { kernel: 3 stride: ", stride, " dilation: ", dilation, " pad_lo: ", pad, " boundary: \"",
                     boundary, "\" } }"),
        true);
    channels_ = out;
    height_ = (height_ + 2 * pad - reach) / stride + 1;
    width_ = (width_ + 2 * pad - reach) / stride + 1;
  }

  void AddTransposedConv() {
    const int64_t stride = Between(1, 2), pad = Between(0, 1), more = stride > 1 ? Between(0, 1) : 0;
    if (height_ + width_ > 20) return;
    const int64_t out = 2 * Between(1, 2);
    Add("", false,
        absl::StrCat("conv { transposed: true out_channels: ", out, " output_padding: ", more,
                     " window { kernel: 3 stride: ", stride, " pad_lo: ", pad, " } }"),
        true);
    channels_ = out;
    height_ = (height_ - 1) * stride - 2 * pad + 3 + more;
    width_ = (width_ - 1) * stride - 2 * pad + 3 + more;
  }

  void AddPool() {
    if (height_ < 4 || width_ < 4) return;
    if (OneIn(4)) {
      height_ = Between(2, 4);
      width_ = Between(2, 4);
      Add("", false,
          absl::StrCat("pool { mode: \"", Of({"max", "avg"}), "\" adaptive_size: [", height_, ", ", width_, "] }"));
      return;
    }
    const int64_t kernel = Between(2, 3), stride = Between(1, 2), pad = Between(0, 1);
    const bool average = OneIn(2);
    Add("", false,
        absl::StrCat("pool { mode: \"", average ? "avg" : "max", "\" ",
                     average && OneIn(2) ? "count_include_pad: false " : "", "window { kernel: ", kernel,
                     " stride: ", stride, " pad_lo: ", pad, " } }"));
    height_ = (height_ + 2 * pad - kernel) / stride + 1;
    width_ = (width_ + 2 * pad - kernel) / stride + 1;
  }

  // What a U-Net does with an earlier output.
  void AddBranch() {
    const std::string before = last_;
    const std::string branch = Add(before, false, "activation { fn: \"tanh\" }");
    const bool concat = OneIn(2);
    absl::StrAppend(&layers_, "layer { name: \"a", layer_count_, "\" input: [\"", before, "\", \"", branch, "\"] ",
                    OneIn(2) ? absl::StrCat("y: \"", RandomLayout(), "\" ") : "",
                    concat ? "concat { arg: 1 }" : "add {}", " }\n");
    last_ = absl::StrCat("a", layer_count_++);
    if (concat) channels_ *= 2;
  }

  // Squeeze and excitation: a factor, or a term, that broadcasts.
  void AddGate() {
    const std::string before = last_;
    Add(before, false, absl::StrCat("pool { mode: \"avg\" adaptive_size: ", Of({"1", "[1, -1]", "[-1, 1]"}), " }"));
    const std::string gate = Add("", false, "activation { fn: \"sigmoid\" }");
    const bool first = OneIn(2);
    absl::StrAppend(&layers_, "layer { name: \"a", layer_count_, "\" input: [\"", first ? gate : before, "\", \"",
                    first ? before : gate, "\"] ", OneIn(3) ? absl::StrCat("y: \"", RandomLayout(), "\" ") : "",
                    OneIn(2) ? "add {}" : "multiply {}", " }\n");
    last_ = absl::StrCat("a", layer_count_++);
  }

  // Two convolutions with one weight, which is either one's own.
  void AddTwins() {
    const bool first = OneIn(2);
    const std::string conv = absl::StrCat("conv { out_channels: ", channels_, " window { kernel: 3 pad_lo: 1 } }");
    const std::string owner = absl::StrCat("a", first ? layer_count_ : layer_count_ + 1);
    const std::string shared = absl::StrCat("weights_of: \"", owner, "\" ", conv);
    Add("", false, first ? conv : shared, /*may_have_home=*/first);
    Add("", false, first ? shared : conv, /*may_have_home=*/!first);
  }

  // Channels, height and width in another order of their extents: blocks of no cut.
  void AddReshape() {
    absl::StrAppend(&layers_, "layer { name: \"a", layer_count_, "\" ",
                    OneIn(3) ? absl::StrCat("y: \"", RandomLayout(), "\" ") : "", "reshape { arg: [", height_, ", -1, ",
                    width_, "] } }\n");
    last_ = absl::StrCat("a", layer_count_++);
    std::swap(channels_, height_);
  }

  void AddLayer() {
    switch (Between(0, 12)) {
      case 0:
      case 1: return AddConv();
      case 2: return AddTransposedConv();
      case 3: return AddPool();
      case 4: return AddBranch();
      case 5: Add("", false, "norm { kind: \"batch\" }", true); return;
      case 6:
        Add("", false,
            Of({"activation { fn: \"relu\" }", "activation { fn: \"gelu\" }", "activation { fn: \"prelu\" }",
                "activation { fn: \"leaky_relu\" arg: 0.2 }", "activation { fn: \"softplus\" }", "softmax { dim: 1 }",
                "softmax { dim: -1 log: true }"}));
        return;
      case 7:
        if (height_ + width_ > 20) return;
        Add("", false,
            absl::StrCat("upsample { scale: 2 ",
                         Of({"mode: \"nearest\"", "mode: \"nearest-exact\"", "mode: \"area\"", "mode: \"bilinear\"",
                             "mode: \"bicubic\""}),
                         " }"));
        height_ *= 2;
        width_ *= 2;
        return;
      case 8: return AddGate();
      case 9: return AddReshape();
      case 10:
        Add("", false, "pad { arg: [1, 2, 0, 1] }");
        width_ += 3;
        height_ += 1;
        return;
      case 11: return AddTwins();
      default:
        if (height_ < 4 || width_ < 4) return;
        Add("", false, "crop { arg: [1, 0, 0, 2] }");
        width_ -= 1;
        height_ -= 2;
    }
  }

  std::mt19937_64 engine_;
  const int ranks_;
  int64_t channels_ = 1, height_ = 8, width_ = 8;
  int layout_count_ = 0, layer_count_ = 0;
  std::string layouts_, layers_, last_;
};

class RandomModels : public testing::TestWithParam<int> {};

TEST_P(RandomModels, EqualSerial) {
  const int ranks = GetParam();
  const uint64_t first = TestSeed(100);
  constexpr int kModels = 40;
  for (uint64_t seed = first; seed < first + kModels; ++seed) {
    const std::string text = RandomModel(seed, ranks).Text();
    const auto parsed = ParseSpec(text, "random.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
    VerifyOptions options;
    options.seed = seed;
    const auto result = Verify(*parsed, options);
    ASSERT_TRUE(result.ok()) << result.status() << "\nADJOIN_TEST_SEED=" << seed << "\n" << text;
    ASSERT_FALSE(result->deviates()) << ReportText(*result) << "\nADJOIN_TEST_SEED=" << seed << "\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RandomModels, testing::Values(1, 2, 4, 6));

// The shape of a U-Net: down, up, and what was before beside it.
constexpr char kUNet[] = R"(name: "unet" kind: TRAIN ranks: 4 seed: 1
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "down1" input: "image" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm1" norm { kind: "batch" } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 } } }
layer { name: "down2" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm2" norm { kind: "batch" } }
layer { name: "relu2" activation { fn: "relu" } }
layer { name: "up1" $0 }
layer { name: "joined" input: ["relu1", "up1"] concat { arg: 1 } }
layer { name: "last" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "last" target: "classes" weight: 0.5 }
loss { kind: "dice" input: "last" target: "classes" }
dataset { name: "data"
  field { name: "image" idx { path: "i" } shape: [2, 14, 12] }
  field { name: "classes" idx { path: "c" } shape: [14, 12] dtype: "int64" } }
train { dataset: "data" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 momentum: 0.9 weight_decay: 0.01 } } }
)";

class UNetTest : public testing::TestWithParam<const char*> {};

TEST_P(UNetTest, EqualsSerialOnAnyNumberOfRanks) {
  const auto parsed = ParseSpec(absl::Substitute(kUNet, GetParam()), "unet.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {1, 2, 3, 4, 8};
  options.steps = 2;
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
  EXPECT_EQ(result->runs.size(), 5);
}

INSTANTIATE_TEST_SUITE_P(WaysUp, UNetTest,
                         testing::Values("upsample { mode: \"bilinear\" scale: 2 }",
                                         "conv { transposed: true out_channels: 4 window { kernel: 2 stride: 2 } }"));

// Every loss, of images and of vectors.
TEST(LossesTest, EqualSerial) {
  for (const char* loss :
       {"mse", "l1", "huber\" delta: 0.5 #", "bce_with_logits\" pos_weight: [1, 2] #", "poisson_nll",
        "kl_div\" reduction: \"batchmean\" #", "kl_div\" log_target: true #", "dice", "mse\" reduction: \"sum\" #",
        "cosine", "cross_entropy\" class_weight: [1, 2] label_smoothing: 0.25 #",
        "gaussian_nll\" full: true variance: \"v\" #"}) {
    const std::string text = absl::StrCat(R"(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "conv" input: "image" x: "grid" conv { out_channels: 2 window { kernel: 3 } } }
layer { name: "v" activation { fn: "softplus" } }
loss { kind: ")",
                                          loss, "\"\n", R"(  input: "conv" target: "wanted" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 7, 6] }
  field { name: "wanted" idx { path: "w" } shape: [2, 5, 4] } }
train { dataset: "data" batch: 3 steps: 1 optimizer { sgd { lr: 0.1 } } }
)");
    const auto parsed = ParseSpec(text, "loss.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
    VerifyOptions options;
    options.ranks = {1, 2, 4};
    const auto result = Verify(*parsed, options);
    ASSERT_TRUE(result.ok()) << result.status() << text;
    EXPECT_FALSE(result->deviates()) << loss << ReportText(*result);
  }
}

// Prediction [batch, 1], targets [batch]: each sample's own.
TEST(LossesTest, OneNumberForEachSampleEqualsSerial) {
  const auto parsed = ParseSpec(R"job(kind: TRAIN ranks: 4
layout { name: "rows" partition: [4, 1] }
layer { name: "y" input: "x" x: "rows" linear { out_features: 1 } }
loss { kind: "mse" input: "y" target: "t" }
dataset { name: "data" field { name: "x" npy { path: "x" } shape: 1 } field { name: "t" npy { path: "t" } } }
train { dataset: "data" batch: 8 steps: 1 optimizer { sgd { lr: 0.1 } } }
)job",
                                "scalars.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {1, 3, 4};
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
}

// Where an explicit cut is one of the batch, that of the job is taken, also of a micro-batch and after a permutation.
TEST(BatchTest, ExplicitCutsTakeTheJobsOwn) {
  struct Case {
    std::string layouts, more;
    int64_t batch;
  };
  const std::string permuted =
      R"(layout { name: "in" partition: [1, 2] } layout { name: "turned" partition: [1, 2] CUT })";
  const std::string turned = "cut { dim: 1 size: [5, 7] }";
  for (const Case& c :
       {Case{absl::StrReplaceAll(permuted, {{"CUT", turned}}), "", 12},
        Case{absl::StrReplaceAll(permuted, {{"CUT", ""}}), "", 2},
        Case{absl::StrReplaceAll(permuted, {{"CUT", "cut { dim: 1 size: [2, 4] }"}}), "microbatches: 2", 6},
        Case{R"(layout { name: "in" partition: [2, 1] cut { dim: 0 size: [1, 5] } }
                                layout { name: "turned" partition: [1, 2] })",
             "microbatches: 2", 6}}) {
    const auto parsed = ParseSpec(absl::StrCat("kind: TRAIN ranks: 2\n", c.layouts, R"(
layer { name: "turn" input: "x" x: "in" y: "turned" permute { arg: [1, 0] } }
layer { name: "scaled" activation { fn: "tanh" } }
layer { name: "back" permute { arg: [1, 0] } }
layer { name: "y" y: "out" linear { out_features: 2 } }
layout { name: "out" partition: [1, 1] }
loss { kind: "mse" input: "y" target: "t" }
dataset { name: "data" field { name: "x" npy { path: "x" } shape: [3] }
  field { name: "t" npy { path: "t" } shape: [2] } }
train { dataset: "data" batch: 12 steps: 1 optimizer { sgd { lr: 0.1 } } )",
                                               c.more, " }\n"),
                                  "cut.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    VerifyOptions options;
    options.ranks = {1, 2};
    const auto result = Verify(*parsed, options);
    ASSERT_TRUE(result.ok()) << result.status() << c.layouts;
    EXPECT_EQ(result->batch, c.batch) << c.layouts << c.more;
    EXPECT_FALSE(result->deviates()) << ReportText(*result);
  }
}

// What the ranks' optimizer makes of the gradients is what LibTorch's makes of them.
TEST(OptimizersTest, EqualSerial) {
  for (const char* optimizer :
       {"sgd { lr: 0.1 momentum: 0.9 dampening: 0.1 weight_decay: 0.1 }", "adam { lr: 0.01 amsgrad: true }",
        "adam { lr: 0.01 amsgrad: true decoupled: true weight_decay: 0.1 }", "rmsprop { lr: 0.01 }",
        "rmsprop { lr: 0.01 alpha: 0.5 eps: 0.1 weight_decay: 0.1 momentum: 0.9 centered: true }",
        "adagrad { lr: 0.01 }", "adagrad { lr: 0.01 lr_decay: 0.5 weight_decay: 0.1 initial: 0.5 eps: 0.1 }"}) {
    const std::string text = absl::StrCat(R"(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "conv" input: "image" x: "grid" conv { out_channels: 2 window { kernel: 3 } } }
loss { kind: "mse" input: "conv" target: "wanted" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 7, 6] }
  field { name: "wanted" idx { path: "w" } shape: [2, 5, 4] } }
train { dataset: "data" batch: 3 steps: 1 optimizer { )",
                                          optimizer, " } }\n");
    const auto parsed = ParseSpec(text, "optimizer.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
    VerifyOptions options;
    options.ranks = {1, 2, 4};
    options.steps = 4;
    const auto result = Verify(*parsed, options);
    ASSERT_TRUE(result.ok()) << result.status() << text;
    EXPECT_FALSE(result->deviates()) << optimizer << ReportText(*result);
  }
}

// A model of a data set with blocks is compared on inputs of a block's shape.
TEST(BlocksTest, EqualSerial) {
  const auto parsed = ParseSpec(R"job(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "conv" input: "image" x: "grid" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "conv" target: "label" }
dataset { name: "data" blocks { size: [4, 6] per_epoch: 9 } augment: ["flip(1)", "shift(2)"]
  field { name: "image" npy { path: "i" } shape: [2, 40, 30] mean: [1, 2] }
  field { name: "label" npy { path: "l" } shape: [40, 30] dtype: "int64" } }
train { dataset: "data" batch: 3 steps: 1 optimizer { sgd { lr: 0.1 } } }
)job",
                                "blocks.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {1, 4};
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
}

}  // namespace
}  // namespace adjoin
