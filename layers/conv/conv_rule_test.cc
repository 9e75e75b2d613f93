// The convolution's rule: who computes what, for each of its forms, by hand.
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/rules/layer_rule.h"
#include "layers/rules/named_layouts.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {

absl::StatusOr<LayerOutcome> ConvRule(const LayerRequest& request);

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Shape64 = std::vector<int64_t>;

Layout Cut(const Shape64& shape, const Shape64& partition, std::vector<int> ranks = {}, Layout::Cuts cuts = {}) {
  for (int64_t n = VolumeOf(partition), i = static_cast<int64_t>(ranks.size()); i < n; ++i) {
    ranks.push_back(static_cast<int>(i));
  }
  return Layout::Partition(shape, DType::kFloat32, partition, ranks, std::move(cuts)).value();
}

// The layer "name: 'c' `fields` conv { `conv` }" of an input in layout `x`; `layouts`: what the job names.
absl::StatusOr<LayerOutcome> Apply(const std::string& conv, const Layout& x, const std::string& fields = "",
                                   const std::string& layouts = "") {
  JobSpec spec;
  const std::string text = absl::StrCat("ranks: 32 ", layouts, " layer { name: 'c' ", fields, " conv { ", conv, " } }");
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) return absl::InvalidArgumentError("the test's text");
  const NamedLayouts named = NamedLayouts::Create(spec).value();
  const std::vector<Layout> inputs = {x};
  return ConvRule({spec.layer(0), inputs, named, DType::kFloat32});
}

std::string ErrorOf(const absl::StatusOr<LayerOutcome>& outcome) {
  return outcome.ok() ? "" : absl::StrCat(FieldOf(outcome.status()), ": ", outcome.status().message());
}

// Elements that all ranks together store.
int64_t Stored(const Layout& home) {
  int64_t stored = 0;
  for (int rank : home.mesh().ranks()) stored += home.BoxOf(rank).Volume();
  return stored;
}

TEST(ConvRuleTest, PaddingByName) {
  const Layout x = Cut({2, 3, 9, 8}, {1, 1, 2, 1});
  const auto same = Apply("out_channels: 4 window { kernel: [4, 3] dilation: [3, 1] padding: 'same' }", x);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->output.shape(), ElementsAre(2, 4, 9, 8));
  // Nine elements: four before and five after.
  EXPECT_THAT(same->spec.conv().window().pad_lo(), ElementsAre(4, 1));
  EXPECT_THAT(same->spec.conv().window().pad_hi(), ElementsAre(5, 1));
  EXPECT_THAT(same->spec.conv().window().padding(), IsEmpty());
  const auto valid = Apply("out_channels: 4 window { kernel: 3 stride: 2 padding: 'valid' }", x);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_THAT(valid->output.shape(), ElementsAre(2, 4, 4, 3));
  const auto error = [&](const std::string& window, const std::string& more = "") {
    return ErrorOf(Apply("out_channels: 4 window { " + window + " } " + more, x));
  };
  EXPECT_THAT(error("kernel: 3 padding: 'full'"),
              HasSubstr("conv.window.padding: padding \"full\" is not known; write \"same\" or \"valid\""));
  EXPECT_THAT(error("kernel: 3 stride: [1, 2] padding: 'same'"),
              HasSubstr("conv.window.stride: padding \"same\" is for stride 1, not 2"));
  EXPECT_THAT(error("kernel: 3 pad_lo: 0 padding: 'same'"),
              HasSubstr("conv.window.pad_lo: pad_lo and padding: \"same\" both say how much is added"));
  EXPECT_THAT(error("kernel: 3 pad_hi: 1 padding: 'valid'"), HasSubstr("conv.window.pad_hi: pad_hi and padding"));
  EXPECT_THAT(error("kernel: 4294967295 dilation: 4294967295 padding: 'same'"),
              HasSubstr("more than 2147483647 elements"));
  EXPECT_THAT(error("kernel: 3 padding: 'same'", "transposed: true"),
              HasSubstr("conv.window.padding: padding \"same\" is not for a transposed convolution"));
}

TEST(ConvRuleTest, BlocksOfTheWeightOnRanksOfTheirOwn) {
  // DistDL's example: the input in four parts of its channels, the weight in 3x4 blocks, the output in three parts.
  const Layout x = Cut({2, 8, 10}, {1, 4, 1});
  const auto outcome = Apply("out_channels: 7 window { kernel: 3 }", x, "w: 'w' y: 'y'",
                             "layout { name: 'w' partition: [3, 4, 1]"
                             " rank: [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] }"
                             "layout { name: 'y' partition: [1, 3, 1] rank: [16, 17, 18] }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->parameter[0].needed.LocalShape(4), ElementsAre(3, 2, 3));
  EXPECT_THAT(outcome->parameter[0].needed.LocalShape(15), ElementsAre(2, 2, 3));
  EXPECT_EQ(outcome->parameter[0].home, outcome->parameter[0].needed);
  EXPECT_EQ(Stored(outcome->parameter[0].home), 7 * 8 * 3);
  // The bias: on the first rank of each sum.
  EXPECT_THAT(outcome->parameter[1].home.mesh().ranks(), ElementsAre(4, 8, 12));
  EXPECT_EQ(Stored(outcome->parameter[1].home), 7);
  EXPECT_EQ(outcome->input[0].layout->BoxOf(5), Box({{0, 2}, {2, 4}, {0, 10}}));
  EXPECT_EQ(outcome->input[0].layout->BoxOf(13), outcome->input[0].layout->BoxOf(5));
  EXPECT_TRUE(outcome->compute.HasKind(Placement::Kind::kPartial));
  EXPECT_THAT(outcome->compute.LocalShape(9), ElementsAre(2, 2, 8));
  EXPECT_THAT(outcome->output.mesh().ranks(), ElementsAre(16, 17, 18));
  // Without y the sums stay where the bias is.
  const auto stays =
      Apply("out_channels: 7 window { kernel: 3 }", x, "w: 'w'", "layout { name: 'w' partition: [3, 4] }");
  EXPECT_THAT(stays->output.mesh().ranks(), ElementsAre(0, 4, 8));
  EXPECT_THAT(stays->output.LocalShape(4), ElementsAre(2, 2, 8));
}

// By hand: 3 parts of the output by 4 of the input, on ranks in no order.
TEST(ConvRuleTest, TheBiasIsOnTheFirstRankOfEachSumWhateverTheRanksAre) {
  const Layout x = Cut({2, 8, 10}, {1, 4, 1});
  const std::string w = "layout { name: 'w' partition: [3, 4] rank: [9, 2, 31, 0, 7, 8, 1, 30, 4, 3, 5, 6] }";
  const auto outcome = Apply("out_channels: 7 window { kernel: 3 }", x, "w: 'w'", w);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->parameter[0].needed.mesh().ranks(), ElementsAre(9, 2, 31, 0, 7, 8, 1, 30, 4, 3, 5, 6));
  EXPECT_THAT(outcome->parameter[1].needed.mesh().ranks(), ElementsAre(9, 7, 4));
  EXPECT_THAT(outcome->output.mesh().ranks(), ElementsAre(9, 7, 4));
  // With the weight the same on both ranks of an axis, between two that cut it: the first of either pair has its home.
  const std::string copies =
      "layout { name: 'w' mesh { size: 2 } mesh { size: 2 } mesh { size: 2 } sbp: ['S(0)', 'B', 'S(1)'] "
      "rank: [5, 4, 3, 2, 9, 8, 7, 6] }";
  const auto owned =
      Apply("out_channels: 6 window { kernel: 3 }", Cut({4, 8, 10}, {1, 1, 1}), "w: 'w' home: OWNER", copies);
  ASSERT_TRUE(owned.ok()) << owned.status();
  EXPECT_THAT(owned->parameter[0].home.mesh().ranks(), ElementsAre(5, 4, 9, 8));
  EXPECT_THAT(owned->parameter[1].home.mesh().ranks(), ElementsAre(5, 9));
}

TEST(ConvRuleTest, PartsOfTheKernelsDimsCutTheInput) {
  const Layout x = Cut({2, 2, 9}, {1, 2, 2}, {}, {{2, {7, 2}}});
  const auto outcome = Apply("out_channels: 3 window { kernel: 3 pad_lo: 1 }", x, "w: 'w' y: 'y'",
                             "layout { name: 'w' partition: [3, 2, 2] } layout { name: 'y' partition: [1, 3, 2]"
                             " cut { dim: 2 size: [2, 7] } }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->parameter[0].needed.LocalShape(11), ElementsAre(1, 1, 3));
  EXPECT_THAT(outcome->parameter[1].needed.mesh().ranks(), ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_THAT(outcome->input[0].layout->Boundaries(2), ElementsAre(0, 7, 9));
  EXPECT_THAT(outcome->compute.Boundaries(2), ElementsAre(0, 2, 9));
  EXPECT_THAT(outcome->input[0].reader->Boundaries(2), ElementsAre(0, 2, 9));
  EXPECT_THAT(ErrorOf(Apply("out_channels: 3 window { kernel: 3 }", Cut({2, 2, 9}, {1, 1, 1}), "w: 'w'",
                            "layout { name: 'w' partition: [1, 1, 2] cut { dim: 2 size: [3, 0] } }")),
              HasSubstr("w: layout \"w\" has a cut of dim 2"));
}

TEST(ConvRuleTest, AxesWithOneWeightCutWhatTheInputsAxesCut) {
  const std::string w =
      "layout { name: 'w' mesh { size: 2 } mesh { size: 3 } mesh { size: 2 } "
      "sbp: ['B', 'S(0)', 'B'] }";
  const std::string conv = "out_channels: 3 window { kernel: 3 }";
  const auto same = Apply(conv, Cut({4, 2, 9, 9}, {1, 1, 2, 2}), "w: 'w'", w);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->output.LocalShape(0), ElementsAre(4, 1, 4, 4));
  EXPECT_EQ(same->compute, same->output);
  EXPECT_EQ(Stored(same->parameter[0].home), 4 * 3 * 2 * 9);
  const auto batch = Apply(conv, Cut({4, 2, 9, 9}, {1, 1, 1, 1}), "w: 'w'", w);
  EXPECT_THAT(batch->output.LocalShape(0), ElementsAre(1, 1, 7, 7));
}

TEST(ConvRuleTest, ChannelsOfTheInputAreSummedWhereTheyAre) {
  const Layout x = Cut({2, 5, 10}, {1, 3, 2});
  const auto outcome = Apply("out_channels: 4 window { kernel: 3 }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->input[0].layout.has_value());
  EXPECT_THAT(outcome->input[0].reader->LocalShape(0), ElementsAre(2, 2, 4));
  EXPECT_THAT(outcome->parameter[0].needed.LocalShape(5), ElementsAre(4, 1, 3));
  EXPECT_EQ(Stored(outcome->parameter[0].home), 2 * 4 * 5 * 3);
  EXPECT_THAT(outcome->parameter[1].home.mesh().ranks(), ElementsAre(0, 1));
  EXPECT_TRUE(outcome->compute.HasKind(Placement::Kind::kPartial));
  EXPECT_EQ(outcome->output, Cut({2, 4, 8}, {1, 3, 2}));
}

TEST(ConvRuleTest, ChannelsOfYAreComputedWhereTheyAre) {
  const auto mesh = [](const std::string& name, const std::string& sbp) {
    return absl::StrCat("layout { name: '", name, "' mesh { size: 2 } mesh { size: 2 } sbp: [", sbp, "] } ");
  };
  JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString("ranks: 4 " + mesh("x", "'B', 'S(2)'"), &spec));
  const Layout x = NamedLayouts::Create(spec)->Resolve("x", {2, 4, 10}, DType::kFloat32).value();
  const auto outcome = Apply("out_channels: 5 window { kernel: 3 }", x, "y: 'y'", mesh("y", "'S(1)', 'S(2)'"));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->input[0].layout.has_value());
  EXPECT_EQ(outcome->compute, outcome->output);
  EXPECT_THAT(outcome->parameter[0].needed.LocalShape(2), ElementsAre(2, 4, 3));
  EXPECT_EQ(Stored(outcome->parameter[1].home), 2 * 5);
}

TEST(ConvRuleTest, PartsOfWholeGroupsNeedNoSum) {
  const auto two = Apply("out_channels: 12 groups: 4 window { kernel: 3 }", Cut({2, 8, 10}, {1, 2, 1}));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_FALSE(two->input[0].layout.has_value());
  EXPECT_EQ(two->compute, two->output);
  EXPECT_EQ(two->output, Cut({2, 12, 8}, {1, 2, 1}));
  EXPECT_THAT(two->parameter[0].needed.LocalShape(1), ElementsAre(6, 2, 3));
  // Depthwise, of any parts.
  const auto depthwise =
      Apply("out_channels: 10 groups: 5 window { kernel: 3 }", Cut({2, 5, 10}, {1, 3, 1}, {}, {{1, {1, 0, 4}}}));
  EXPECT_EQ(depthwise->compute, Cut({2, 10, 8}, {1, 3, 1}, {}, {{1, {2, 0, 8}}}));
  EXPECT_EQ(depthwise->compute, depthwise->output);
  EXPECT_EQ(Stored(depthwise->parameter[1].home), 10);
}

TEST(ConvRuleTest, PartsOfOneGroupAreSummedAndOthersMoved) {
  // Two groups of four channels, in four parts: sums of two ranks each.
  const auto alike = Apply("out_channels: 6 groups: 2 window { kernel: 3 }", Cut({2, 8, 10}, {1, 4, 1}));
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_THAT(alike->compute.LocalShape(2), ElementsAre(2, 3, 8));
  EXPECT_THAT(alike->parameter[0].needed.LocalShape(2), ElementsAre(3, 2, 3));
  EXPECT_THAT(alike->parameter[1].home.mesh().ranks(), ElementsAre(0, 2));
  EXPECT_EQ(alike->output, Cut({2, 6, 8}, {1, 4, 1}));
  // The mesh has other axes, but every rank keeps what it has, also where the spatial dim is cut.
  const Layout both = Cut({2, 8, 10}, {1, 4, 2}, {7, 6, 5, 4, 3, 2, 1, 0});
  const auto kept = Apply("out_channels: 6 groups: 2 window { kernel: 3 }", both);
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(kept->input[0].layout->BoxOf(rank), both.BoxOf(rank)) << rank;
  // Three groups of two in parts of 2, 2, 1, 1: whole groups are brought together.
  const auto moved = Apply("out_channels: 3 groups: 3 window { kernel: 3 }", Cut({2, 6, 10}, {1, 4, 1}));
  EXPECT_THAT(moved->input[0].layout->Boundaries(1), ElementsAre(0, 2, 4, 6, 6));
  EXPECT_THAT(moved->compute.Boundaries(1), ElementsAre(0, 1, 2, 3, 3));
  EXPECT_EQ(moved->compute, moved->output);
}

TEST(ConvRuleTest, GroupsOverBlocks) {
  const Layout x = Cut({2, 8, 10}, {1, 1, 1});
  const auto local = [&](int out, int groups, int out_parts, int in_parts, int rank) {
    const std::string w = absl::StrCat("layout { name: 'w' partition: [", out_parts, ", ", in_parts, "] }");
    const auto outcome =
        Apply(absl::StrCat("out_channels: ", out, " groups: ", groups, " window { kernel: 3 }"), x, "w: 'w'", w);
    return outcome.ok() ? outcome->parameter[0].needed.LocalShape(rank) : Shape64{};
  };
  EXPECT_THAT(local(8, 4, 2, 1, 1), ElementsAre(4, 2, 3));   // two groups each
  EXPECT_THAT(local(12, 2, 4, 2, 3), ElementsAre(3, 2, 3));  // parts of one
  EXPECT_THAT(local(8, 4, 2, 2, 3), ElementsAre(2, 2, 3));   // one group on each of four ranks
  EXPECT_THAT(local(8, 2, 3, 2, 5), ElementsAre(0, 2, 3));   // a third row that has none
}

TEST(ConvRuleTest, HomesOfBlocks) {
  const Layout x = Cut({2, 8, 10}, {1, 2, 2});
  const auto home = [&](const std::string& fields) {
    return Apply("out_channels: 6 window { kernel: 3 }", x, fields)->parameter;
  };
  const auto owner = home("home: OWNER");
  EXPECT_THAT(owner[0].home.mesh().ranks(), ElementsAre(0, 2));
  EXPECT_THAT(owner[0].home.LocalShape(2), ElementsAre(6, 4, 3));
  EXPECT_EQ(Stored(owner[0].home), 6 * 8 * 3);
  EXPECT_THAT(owner[1].home.mesh().ranks(), ElementsAre(0));
  const auto one = home("home: OWNER owner: 3");
  EXPECT_THAT(one[0].home.LocalShape(3), ElementsAre(6, 8, 3));
  EXPECT_EQ(Stored(one[1].home), 6);
  const auto sharded = home("home: SHARDED");
  EXPECT_EQ(Stored(sharded[0].home), 6 * 8 * 3);
  EXPECT_EQ(Stored(sharded[1].home), 6);
  EXPECT_EQ(Stored(home("home: REPLICATED")[0].home), 4 * 6 * 8 * 3);
  EXPECT_EQ(Stored(home("")[0].home), 2 * 6 * 8 * 3);
}

TEST(ConvRuleTest, TransposedWeightIsInByOut) {
  const auto outcome =
      Apply("transposed: true out_channels: 6 groups: 2 output_padding: 1 window { kernel: 3 stride: 2 }",
            Cut({2, 8, 5}, {1, 2, 3}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->output.shape(), ElementsAre(2, 6, 12));
  EXPECT_THAT(outcome->parameter[0].home.shape(), ElementsAre(8, 3, 3));
  EXPECT_THAT(outcome->parameter[0].home.LocalShape(5), ElementsAre(4, 3, 3));
  EXPECT_EQ(outcome->parameter[0].fan_in, 9);
  EXPECT_EQ(outcome->flops, 2.0 * 2 * 8 * 5 * 9);
  EXPECT_EQ(outcome->compute, outcome->output);
  // [in, out] parts.
  const auto blocks = Apply("transposed: true out_channels: 6 window { kernel: 3 }", Cut({2, 8, 5}, {1, 1, 1}),
                            "w: 'w'", "layout { name: 'w' partition: [4, 2] }");
  EXPECT_THAT(blocks->parameter[0].home.LocalShape(7), ElementsAre(2, 3, 3));
  EXPECT_THAT(blocks->parameter[1].home.mesh().ranks(), ElementsAre(0, 1));
}

TEST(ConvRuleTest, BoundariesHavePyTorchsLimits) {
  const Layout x = Cut({2, 1, 4}, {1, 1, 2});
  const auto conv = [&](const std::string& window) {
    return ErrorOf(Apply("out_channels: 1 window { kernel: 2 " + window + " }", x));
  };
  EXPECT_THAT(conv("boundary: 'circular' pad_lo: 4"), IsEmpty());
  EXPECT_THAT(conv("boundary: 'circular' pad_lo: 5"), HasSubstr("conv.window.pad_lo: padding 5 is too large"));
  EXPECT_THAT(conv("boundary: 'reflect' pad_lo: 3"), IsEmpty());
  EXPECT_THAT(conv("boundary: 'reflect' pad_lo: 1 pad_hi: 4"), HasSubstr("conv.window.pad_hi: padding 4 is too large"));
  EXPECT_THAT(conv("boundary: 'replicate' pad_lo: 9"), IsEmpty());
  EXPECT_THAT(conv("boundary: 'mirror'"), HasSubstr("conv.window.boundary: unknown boundary \"mirror\""));
  EXPECT_EQ(Apply("out_channels: 1 window { kernel: 2 boundary: 'circular' }", x)->spec.conv().window().boundary(),
            "circular");
}

TEST(ConvRuleTest, Errors) {
  const Layout x = Cut({2, 4, 4}, {1, 1, 2});
  EXPECT_THAT(ErrorOf(Apply("transposed: true out_channels: 1 window { kernel: 2 boundary: 'reflect' }", x)),
              HasSubstr("conv.window.boundary: boundary \"reflect\" is not for a transposed"));
  EXPECT_THAT(ErrorOf(Apply("transposed: true out_channels: 1 output_padding: 2 window { kernel: 2 stride: 2 }", x)),
              HasSubstr("conv.output_padding: output_padding 2 must be smaller"));
  EXPECT_THAT(ErrorOf(Apply("transposed: true out_channels: 1 window { kernel: 1 pad_lo: 2 }", x)),
              HasSubstr("conv.window: a transposed kernel 1"));
  EXPECT_THAT(ErrorOf(Apply("out_channels: 1 output_padding: 1 window { kernel: 2 }", x)),
              HasSubstr("conv.output_padding[0]: conv.output_padding is for a transposed"));
  EXPECT_THAT(ErrorOf(Apply("out_channels: 2 groups: 3 window { kernel: 2 }", x)), HasSubstr("conv.groups: "));
  EXPECT_THAT(ErrorOf(Apply("out_channels: 1 window { kernel: 2 }", x, "w: 'no'")),
              HasSubstr("there is no layout \"no\""));
  EXPECT_THAT(ErrorOf(Apply("out_channels: 1 window { kernel: 2 }", x, "w: 'w'",
                            "layout { name: 'w' partition: [1, 1, 1, 2] }")),
              HasSubstr("w: w cuts the weight, 1x4x2, in its first two dims or in all of them"));
}

}  // namespace
}  // namespace adjoin
