// Networks whose ranks have weights, so that parts, batches among them, have any sizes: each equals serial PyTorch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

void ExpectEqualsSerial(const std::string& text, const std::vector<int>& ranks) {
  const auto parsed = ParseSpec(text, "weights.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
  VerifyOptions options;
  options.ranks.assign(ranks.begin(), ranks.end());
  options.steps = 2;
  int uneven = 0;  // plans with a field in parts that an even cut does not have
  options.plan_edit = [&uneven](Plan& plan) {
    for (const ValuePlan& value : plan.program(0).value()) {
      if (value.field().empty() || value.layout().cut().empty()) continue;
      ++uneven;
      break;
    }
  };
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status() << text;
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
  EXPECT_EQ(result->runs.size(), ranks.size());
  EXPECT_EQ(uneven, static_cast<int>(ranks.size()));
}

std::string Train(int batch) {
  return absl::StrCat("train { dataset: \"data\" batch: ", batch,
                      " steps: 2 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }\n");
}

constexpr char kImages[] = R"(dataset { name: "data" field { name: "image" idx { path: "i" } shape: [1, 28, 28] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
)";

constexpr char kFeatures[] = R"(
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 stride: 2 } } }
layer { name: "conv2" conv { out_channels: 6 window { kernel: 5 } } }
layer { name: "relu2" activation { fn: "relu" } }
layer { name: "pool2" pool { mode: "max" window { kernel: 2 stride: 2 } } }
)";

TEST(RankWeightsTest, LeNetCutInSpaceEqualsSerial) {
  ExpectEqualsSerial(absl::StrCat(R"(name: "lenet" kind: TRAIN ranks: 4 seed: 1 rank_weight: [1, 2, 3, 1.5]
layout { name: "grid" partition: [1, 1, 2, 2] }
layout { name: "chan" partition: [1, 2, 1, 1] rank: [0, 1] }
layout { name: "row" partition: [1, 2] rank: [0, 1] }
layout { name: "col" partition: [1, 2] rank: [0, 2] }
layout { name: "w2x2" partition: [2, 2] }
layer { name: "conv1" input: "image" x: "grid" home: OWNER conv { out_channels: 4 window { kernel: 5 pad_lo: 2 } } })",
                                  kFeatures, R"(layer { name: "to_chan" y: "chan" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc1" x: "row" w: "w2x2" y: "col" linear { out_features: 21 } }
layer { name: "fc2" x: "row" w: "w2x2" y: "col" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc2" target: "label" }
)",
                                  kImages, Train(3)),
                     {2, 3, 4, 8});
}

// Samples and space, with the features flattened where they are.
TEST(RankWeightsTest, AHybridCutEqualsSerial) {
  ExpectEqualsSerial(absl::StrCat(R"(name: "hybrid" kind: TRAIN ranks: 4 seed: 1 rank_weight: [1, 2, 3, 1.5]
layout { name: "grid" partition: [2, 1, 2, 1] }
layer { name: "conv1" input: "image" x: "grid" home: SHARDED
  conv { out_channels: 4 window { kernel: 3 stride: 2 pad_lo: 1 } } }
layer { name: "norm1" norm { kind: "batch" } }
layer { name: "grown" upsample { mode: "bilinear" scale: 2 } })",
                                  kFeatures, R"(layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc" target: "label" label_smoothing: 0.1 }
)",
                                  kImages, Train(5)),
                     {2, 4, 6});
}

// A batch of 7 is 1, 2, 3 and 1 samples; the mean of the loss is over all of them.
TEST(RankWeightsTest, SynchronousSgdEqualsSerial) {
  for (const char* weights : {"[1, 2, 3, 1.5]", "[1, 100, 1, 1]"}) {
    ExpectEqualsSerial(absl::StrCat("name: \"sgd\" kind: TRAIN ranks: 4 seed: 1 rank_weight: ", weights, R"(
layout { name: "batch" partition: [4, 1, 1, 1] }
layer { name: "conv1" input: "image" x: "batch" conv { out_channels: 4 window { kernel: 5 pad_lo: 2 } } })",
                                    kFeatures, R"(layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc" target: "label" class_weight: [1, 2, 1, 2, 1, 2, 1, 2, 1, 3] }
)",
                                    kImages, Train(7)),
                       {3, 4});
  }
}

// Parts shorter than the halos; pooling windows, grown and joined maps that end between the parts of others.
TEST(RankWeightsTest, AUNetEqualsSerial) {
  for (const char* up : {"upsample { mode: \"bilinear\" scale: 2 }",
                         "conv { transposed: true out_channels: 4 window { kernel: 2 stride: 2 } }"}) {
    ExpectEqualsSerial(absl::StrCat(R"(name: "unet" kind: TRAIN ranks: 4 seed: 1 rank_weight: [1, 2, 30, 1.5]
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "down1" input: "image" x: "grid" conv { out_channels: 4 window { kernel: 5 pad_lo: 2 } } }
layer { name: "norm1" norm { kind: "batch" } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 } } }
layer { name: "down2" conv { out_channels: 6 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm2" norm { kind: "instance" } }
layer { name: "up1" )",
                                    up, R"( }
layer { name: "joined" input: ["relu1", "up1"] concat { arg: 1 } }
layer { name: "last" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "last" target: "classes" weight: 0.5 }
loss { kind: "dice" input: "last" target: "classes" }
dataset { name: "data"
  field { name: "image" idx { path: "i" } shape: [2, 14, 12] }
  field { name: "classes" idx { path: "c" } shape: [14, 12] dtype: "int64" } }
)",
                                    Train(2)),
                       {2, 3, 4, 8});
  }
}

// Heads are never cut, so a part has as many as its weight allows.
TEST(RankWeightsTest, AttentionEqualsSerial) {
  ExpectEqualsSerial(absl::StrCat(R"(name: "attention" kind: TRAIN ranks: 4 seed: 1 rank_weight: [1, 2, 3, 1.5]
layout { name: "tokens" partition: [1, 2, 1] }
layout { name: "heads" partition: [1, 2, 2] }
layer { name: "a" input: "x" x: "tokens" w: "heads" attention { heads: 5 } }
layer { name: "n" norm { kind: "layer" dim: 2 } }
layer { name: "y" linear { out_features: 3 } }
loss { kind: "mse" input: "y" target: "t" }
dataset { name: "data" field { name: "x" npy { path: "x" } shape: [7, 10] }
  field { name: "t" npy { path: "t" } shape: [7, 3] } }
)",
                                  Train(3)),
                     {2, 4});
}

}  // namespace
}  // namespace adjoin
