// The text of `adjoin plan`.
#include <string>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr char kNegative[] = "a negative halo width: the part reads fewer cells than it stores";

Plan PlanOf(const std::string& text) {
  auto plan = Planner::Build(ParseSpec(text, "job.textproto")->spec, {}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

// Returns the text for a job of two ranks, which cut dim 2 of images [1, 16, 16]. Only the layer "a" can have halos
// that are not 0.
std::string ExplainLayer(const std::string& layer) {
  return Planner::Explain(PlanOf(JobText(2,
                                         "layout { name: \"g\" partition: [1, 1, 2, 1] }\n"
                                         "layout { name: \"one\" partition: [1, 1, 1, 1] }\n"
                                         "layer { name: \"a\" input: \"image\" x: \"g\" " +
                                             layer +
                                             " }\n"
                                             "layer { name: \"c\" conv { out_channels: 2 window { kernel: 1 } } }\n"
                                             "layer { name: \"m\" y: \"one\" repartition {} }\n"
                                             "layer { name: \"f\" flatten {} }",
                                         "[1, 16, 16]", "f")));
}

TEST(ExplainTest, ShowsLayersMovementsAndTotals) {
  const Plan plan = PlanOf(kLeNet);
  const std::string text = Planner::Explain(plan);
  for (const char* part : {"conv1", "64x6x28x28", "1x1x2x2 on ranks 0-3", "dim 2: 0,2 2,0", "halo exchange", "61440",
                           "broadcast of 150 elements", "fc3.weight", "bytes sent per step"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, HasSubstr(Planner::Hash(plan)));
}

TEST(ExplainTest, BeginsWithASummary) {
  const std::string text = Planner::Explain(PlanOf(kLeNet));
  EXPECT_THAT(
      text.substr(0, text.find("\nprogram ")),
      ContainsRegex(
          "job \"[^\n]*\": TRAIN on 4 ranks, plan [0-9a-f]+\n\n"
          "  ranks +4; tensors in up to 4 parts\n"
          "  parameters +61,706 trained, 241 KiB\n"
          "  sent per step +[0-9.]+ MiB by all ranks together, at most [0-9.]+ KiB by one .rank [0-3].\n"
          "  forward pass +[0-9.]+ Mflop by all ranks together\n"
          "  memory +about [0-9.]+ [KM]iB of tensors on rank [0-3], most in the backward pass of \"[a-z0-9]+\"\n"
          " +[0-9.]+ KiB parameters, [^\n]* activations[^\n]*\n"
          " +its process about [^\n]*\n"
          " +held by [^\n]*conv1[^\n]*\n"
          "  step +about [0-9.]+ ms: compute [^\n]*\n"
          " +by the rates of [^\n]*\n"
          "  largest tensors +conv1 +output +64x6x28x28 +1.15 MiB +at most 294 KiB on a rank\n"
          " +relu1 +output "));
  EXPECT_THAT(ExplainLayer("conv { out_channels: 2 window { kernel: 1 } }"), HasSubstr("tensors in up to 2 parts"));
}

TEST(ExplainTest, ShowsTheWindowBesideTheHalo) {
  const std::string text = Planner::Explain(PlanOf(kLeNet));
  EXPECT_THAT(text, ContainsRegex("conv1 .* dim 2: 0,2 2,0; dim 3: 0,2 2,0 +kernel 5 stride 1 padding 2,2 "));
  EXPECT_THAT(text, ContainsRegex("pool2 .* dim 2: 0,1 -1,0; dim 3: 0,1 -1,0 +kernel 2 stride 2 padding 0,0 "));
  EXPECT_THAT(text, ContainsRegex("relu1 +activation +64x6x28x28 +1x1x2x2 on ranks 0-3 +[0-9.]+\n"));
}

TEST(ExplainTest, ShowsAWindowForEachDimWhereTheyDiffer) {
  const std::string text = Planner::Explain(PlanOf(
      absl::StrReplaceAll(kLeNet, {{"window { kernel: 5 pad_lo: 2 }",
                                    "window { kernel: [5, 3] pad_lo: 2 dilation: [1, 2] boundary: \"circular\" }"}})));
  EXPECT_THAT(text, HasSubstr("dim 2: kernel 5 stride 1 padding 2,2 circular; "
                              "dim 3: kernel 3 stride 1 dilation 2 padding 2,2 circular "));
}

TEST(ExplainTest, ShowsEveryKindOfWindow) {
  EXPECT_THAT(
      ExplainLayer("conv { out_channels: 2 transposed: true window { kernel: 3 stride: 2 } output_padding: 1 }"),
      HasSubstr(" transposed kernel 3 stride 2 padding 0,0 output_padding 1 "));
  EXPECT_THAT(ExplainLayer("pool { mode: \"avg\" adaptive_size: 5 }"), HasSubstr(" adaptive to 5 "));
  EXPECT_THAT(ExplainLayer("upsample { mode: \"bilinear\" scale: 2 }"), HasSubstr(" linear interpolation "));
  EXPECT_THAT(ExplainLayer("pool { mode: \"max\" window { kernel: 3 stride: 2 } ceil_mode: true }"),
              HasSubstr(" kernel 3 stride 2 padding 0,0 ceil_mode "));
}

// Large parts exchange edges instead of copies with their halo.
TEST(ExplainTest, ShowsTheWindowWhereEdgesAreExchanged) {
  const Plan plan = PlanOf(JobText(4,
                                   "layout { name: \"g\" partition: [1, 1, 2, 2] }\n"
                                   "layout { name: \"one\" partition: [1, 1, 1, 1] }\n"
                                   "layer { name: \"a\" input: \"image\" x: \"g\" conv { out_channels: 2"
                                   " window { kernel: [5, 3] pad_lo: [4, 1] dilation: [2, 1] } } }\n"
                                   "layer { name: \"m\" y: \"one\" repartition {} }\n"
                                   "layer { name: \"f\" flatten {} }",
                                   "[1, 2048, 2048]", "f"));
  const std::string text = Planner::Explain(plan);
  EXPECT_THAT(text, HasSubstr("a.edges2"));
  EXPECT_THAT(text, HasSubstr("dim 2: 0,4 4,0; dim 3: 0,1 1,0   dim 2: kernel 5 stride 1 dilation 2 padding 4,4; "
                              "dim 3: kernel 3 stride 1 padding 1,1 "));
}

// With this stride nothing is read after a part. The edges in dim 2 carry corners, which are the same window's.
TEST(ExplainTest, ShowsTheStrideWhereEdgesAreExchanged) {
  const Plan plan = PlanOf(JobText(4,
                                   "layout { name: \"g\" partition: [1, 1, 2, 2] }\n"
                                   "layout { name: \"one\" partition: [1, 1, 1, 1] }\n"
                                   "layer { name: \"a\" input: \"image\" x: \"g\" conv { out_channels: 2"
                                   " window { kernel: 3 pad_lo: 1 stride: 2 } } }\n"
                                   "layer { name: \"m\" y: \"one\" repartition {} }\n"
                                   "layer { name: \"f\" flatten {} }",
                                   "[1, 2048, 2048]", "f"));
  const std::string text = Planner::Explain(plan);
  EXPECT_THAT(text, HasSubstr("a.edges2"));
  EXPECT_THAT(text, HasSubstr("dim 2: 0,0 1,0; dim 3: 0,0 1,0 "));
  EXPECT_THAT(text, HasSubstr(" kernel 3 stride 2 padding 1,1 "));
}

TEST(ExplainTest, ExplainsANegativeWidthWhereThereIsOne) {
  EXPECT_THAT(Planner::Explain(PlanOf(kLeNet)), HasSubstr(kNegative));
  EXPECT_THAT(ExplainLayer("conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } }"), Not(HasSubstr(kNegative)));
}

}  // namespace
}  // namespace adjoin
