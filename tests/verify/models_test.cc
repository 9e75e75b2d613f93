// Jobs of one purpose each, on several numbers of ranks: verify finds no difference from what its own serial functions
// make of the job's text, unless a fault is planted. random_networks_test draws whole networks at random.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/registry.h"
#include "planner/spec/spec_parser.h"
#include "tests/verify/faults.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

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

// The movement of what nothing reads has a backward pass, but no gradient.
TEST(UnreadLayerTest, MovesItsOutputAndEqualsSerial) {
  const auto parsed = ParseSpec(R"(name: "unread" kind: TRAIN ranks: 2 seed: 1
layout { name: "batch" partition: [2, 1] }
layout { name: "features" partition: [1, 2] }
layer { name: "read" input: "x" x: "batch" linear { out_features: 4 } }
layer { name: "unread" y: "features" linear { out_features: 6 } }
layer { name: "last" input: "read" linear { out_features: 3 } }
loss { kind: "mse" input: "last" target: "y" }
dataset { name: "data"
  field { name: "x" idx { path: "x" } shape: [5] }
  field { name: "y" idx { path: "y" } shape: [3] } }
train { dataset: "data" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
)",
                                "unread.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {1, 2};
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
}

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

// A bias before a norm of each channel has no effect: the terms of its gradient, each some 1e10 here, cancel, and their
// rounding is left.
constexpr char kBiasBeforeNorm[] = R"job(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "conv" input: "image" x: "grid" home: REPLICATED
        conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm" norm { kind: "instance" } }
loss { kind: "mse" input: "norm" target: "wanted" weight: 1e10 reduction: "sum" }
dataset { name: "data" field { name: "image" npy { path: "i" } shape: [2, 9, 8] }
  field { name: "wanted" npy { path: "w" } shape: [4, 9, 8] } }
train { dataset: "data" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
)job";

TEST(GradientOfLargeTermsTest, TheirRoundingIsNoDeviation) {
  const auto parsed = ParseSpec(kBiasBeforeNorm, "bias.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {2, 4};
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
  ASSERT_EQ(result->runs.size(), 2);
  for (const RanksResult& run : result->runs) {
    ASSERT_TRUE(run.failure.ok()) << run.failure;
    const Difference& bias = run.comparison.layers.at(0).gradients.at("conv.bias");
    EXPECT_GT(std::abs(bias.found - bias.expected), kDefaultTolerance) << "too little to tell the terms' scale from 1";
  }
}

TEST(GradientOfLargeTermsTest, AMissingSumOfThemIsFound) {
  const auto parsed = ParseSpec(kBiasBeforeNorm, "bias.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  VerifyOptions options;
  options.ranks = {2, 4};
  LayerRegistry layers = BuiltinLayers();
  PlantFault("sync", "conv", options, layers);
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->runs.size(), 2);
  for (const RanksResult& run : result->runs) {
    ASSERT_TRUE(run.first.has_value()) << ReportText(*result);
    EXPECT_EQ(run.first->layer, "conv");
    EXPECT_EQ(run.first->what, "gradient of conv.bias");
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
