// adjoin verify of networks whose layers share weights: forward, backward and optimizer steps equal the serial model's
// on any number of ranks, whose layers share them as well.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/spec/spec_parser.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

// TABLE, BLOCK and SCORES are replaced.
constexpr char kLanguage[] = R"job(name: "language" kind: TRAIN ranks: 4 seed: 1
layout { name: "samples" partition: [2, 1] }
layout { name: "words" mesh { size: 2 } mesh { size: 2 } sbp: ["S(0)", "B"] }
layout { name: "heads" mesh { size: 2 } mesh { size: 2 } sbp: ["S(0)", "S(2)"] }
layout { name: "rows" partition: [4, 1] }
layout { name: "columns" partition: [1, 2] rank: [3, 1] }
layer { name: "embed" input: "words" x: "samples" TABLE embedding { num_embeddings: 11 dim: 8 } }
layer { name: "first" x: "words" transformer { heads: 2 hidden: 6 dropout: 0.1 } }
layer { name: "second" BLOCK transformer { heads: 2 hidden: 6 dropout: 0.1 } }
layer { name: "scores" SCORES linear { out_features: 11 bias: false } }
layer { name: "classes" permute { arg: [0, 2, 1] } }
loss { kind: "cross_entropy" input: "classes" target: "next" }
dataset { name: "data" field { name: "words" npy { path: "w" } shape: 6 dtype: "int64" }
  field { name: "next" npy { path: "n" } shape: 6 dtype: "int64" } }
train { dataset: "data" batch: 4 steps: 1 optimizer { adam { lr: 0.01 } } }
)job";

struct Words {
  std::string table, block, scores;
};

class LanguageModelTest : public testing::TestWithParam<Words> {};

TEST_P(LanguageModelTest, EqualsSerial) {
  const Words& words = GetParam();
  const std::string text =
      absl::StrReplaceAll(kLanguage, {{"TABLE", words.table}, {"BLOCK", words.block}, {"SCORES", words.scores}});
  const auto parsed = ParseSpec(text, "language.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
  VerifyOptions options;
  options.ranks = {1, 2, 4};
  options.steps = 3;
  const auto result = Verify(*parsed, options);
  ASSERT_TRUE(result.ok()) << result.status() << text;
  EXPECT_EQ(result->runs.size(), 3);
  EXPECT_FALSE(result->deviates()) << ReportText(*result) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, LanguageModelTest,
    testing::Values(Words{"", "weights_of: \"first\"", "weights_of: \"embed\""},
                    Words{"weights_of: \"scores\"", "weights_of: \"first\" w: \"heads\"", ""},
                    Words{"w: \"rows\"", "weights_of: \"first\"", "weights_of: \"embed\" w: \"columns\""},
                    Words{"home: SHARDED", "", "weights_of: \"embed\" w: \"rows\" recompute: true"},
                    Words{"home: OWNER owner: 3", "", "weights_of: \"embed\" w: \"columns\""},
                    Words{"home: REPLICATED frozen: true", "w: \"heads\"", "weights_of: \"embed\""}));

// The same filter over two images, on other ranks each.
TEST(SiameseTest, EqualsSerial) {
  for (const char* more : {"", "home: SHARDED", "home: OWNER owner: 2", "home: REPLICATED"}) {
    const auto parsed = ParseSpec(absl::StrReplaceAll(R"job(kind: TRAIN ranks: 4
layout { name: "rows" partition: [1, 1, 2, 1] rank: [0, 1] }
layout { name: "columns" partition: [1, 1, 1, 2] rank: [3, 1] }
layer { name: "left" input: "one" x: "rows" MORE conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
layer { name: "right" input: "two" x: "columns" weights_of: "left"
        conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
layer { name: "left2" input: "left" weights_of: "right2" norm { kind: "group" groups: 3 } }
layer { name: "right2" input: "right" norm { kind: "group" groups: 3 } }
layer { name: "product" input: "left2" input: "right2" multiply {} }
loss { kind: "mse" input: "product" target: "wanted" }
dataset { name: "data" field { name: "one" npy { path: "1" } shape: [2, 5, 6] }
  field { name: "two" npy { path: "2" } shape: [2, 5, 6] } field { name: "wanted" npy { path: "w" } shape: [3, 5, 6] } }
train { dataset: "data" batch: 3 steps: 1 optimizer { sgd { lr: 0.1 momentum: 0.9 weight_decay: 0.1 } } }
)job",
                                                      {{"MORE", more}}),
                                  "siamese.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    VerifyOptions options;
    options.ranks = {1, 2, 4};
    options.steps = 2;
    const auto result = Verify(*parsed, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->deviates()) << more << ReportText(*result);
  }
}

}  // namespace
}  // namespace adjoin
