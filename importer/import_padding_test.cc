// Paddings with elements from inside of a tensor: which layers they become, and what is refused.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importer/testing/made_program.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

json TextOf(const std::string& text) { return {{"as_string", text}}; }

TEST(ImportPaddingTest, TakesAPaddingIntoTheConvolutionBehindIt) {
  Program program({2, 3, 8, 9});
  program.Parameter("p_weight", "conv.weight", {4, 3, 3, 3});
  program.Node("pad.default", {{"self", "x"}, {"pad", {2, 1, 0, 1}}, {"mode", TextOf("circular")}}, "padded",
               {2, 3, 9, 12});
  program.Node("conv2d.default", {{"input", "padded"}, {"weight", "p_weight"}}, "y", {2, 4, 7, 10});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "conv: conv(x)");
  ASSERT_TRUE(model.ok());
  const WindowSpec& window = model->layers[0].conv().window();
  EXPECT_EQ(window.boundary(), "circular");
  EXPECT_THAT(window.pad_lo(), ElementsAre(0, 2));
  EXPECT_THAT(window.pad_hi(), ElementsAre(1));
}

TEST(ImportPaddingTest, WritesThatNothingIsAddedAfterwards) {
  Program program({2, 3, 8});
  program.Parameter("p_weight", "conv.weight", {4, 3, 3});
  program.Node("reflection_pad1d.default", {{"self", "x"}, {"padding", {2, 0}}}, "padded", {2, 3, 10});
  program.Node("conv1d.default", {{"input", "padded"}, {"weight", "p_weight"}}, "y", {2, 4, 8});
  const auto model = program.Import();
  ASSERT_TRUE(model.ok()) << program.Error();
  const WindowSpec& window = model->layers[0].conv().window();
  EXPECT_EQ(window.boundary(), "reflect");
  EXPECT_THAT(window.pad_lo(), ElementsAre(2));
  EXPECT_THAT(window.pad_hi(), ElementsAre(0));  // absent would be as pad_lo
}

TEST(ImportPaddingTest, PadsByIndicesWhereNoConvolutionAloneReadsIt) {
  const auto padded = [](const std::string& mode, const std::vector<int64_t>& pads, const std::vector<int64_t>& shape) {
    Program program({2, 3, 4, 3});
    program.Node("pad.default", {{"self", "x"}, {"pad", pads}, {"mode", TextOf(mode)}}, "y", shape);
    return program;
  };
  const auto circular = padded("circular", {1, 2}, {2, 3, 4, 6}).Import();
  EXPECT_EQ(Text(circular), "pad: index_select(x)");
  ASSERT_TRUE(circular.ok());
  EXPECT_THAT(circular->layers[0].index_select().arg(), ElementsAre(3, 2, 0, 1, 2, 0, 1));
  const auto reflected = padded("reflect", {2, 1, 1, 3}, {2, 3, 8, 6}).Import();
  EXPECT_EQ(Text(reflected), "pad: index_select(x); pad_2: index_select(pad)");
  ASSERT_TRUE(reflected.ok());
  EXPECT_THAT(reflected->layers[0].index_select().arg(), ElementsAre(3, 2, 1, 0, 1, 2, 1));
  EXPECT_THAT(reflected->layers[1].index_select().arg(), ElementsAre(2, 1, 0, 1, 2, 3, 2, 1, 0));
  const auto replicated = padded("replicate", {2, 1}, {2, 3, 4, 6}).Import();
  ASSERT_TRUE(replicated.ok());
  EXPECT_THAT(replicated->layers[0].index_select().arg(), ElementsAre(3, 0, 0, 0, 1, 2, 2));
  EXPECT_THAT(padded("reflect", {3, 0}, {2, 3, 4, 6}).Error(),
              HasSubstr("it pads a dim of 3 elements with 3 and 0 in mode \"reflect\""));
  EXPECT_THAT(padded("circular", {-1, 1}, {2, 3, 4, 3}).Error(), HasSubstr("with -1 and 1 in mode"));
  EXPECT_THAT(padded("mirror", {1, 1}, {2, 3, 4, 5}).Error(), HasSubstr("its mode is none of \"constant\""));
}

// Longitude is circular and latitude is not; two convolutions read one padding.
TEST(ImportPaddingTest, KeepsAPaddingThatIsNoBoundaryOfOneConvolution) {
  Program program({2, 3, 4, 6});
  program.Parameter("p_weight", "conv.weight", {4, 3, 3, 3});
  program.Parameter("p_other", "other.weight", {4, 3, 3, 3});
  program.Node("pad.default", {{"self", "x"}, {"pad", {1, 1}}, {"mode", TextOf("circular")}}, "padded", {2, 3, 4, 8});
  program.Node("conv2d.default", {{"input", "padded"}, {"weight", "p_weight"}, {"padding", {1, 0}}}, "a", {2, 4, 4, 6});
  EXPECT_EQ(Text(program.Import()), "pad: index_select(x); conv: conv(pad)");
  program.Node("conv2d.default", {{"input", "padded"}, {"weight", "p_other"}, {"padding", {1, 0}}}, "b", {2, 4, 4, 6});
  program.Node("add.Tensor", {{"self", "a"}, {"other", "b"}}, "y", {2, 4, 4, 6});
  EXPECT_EQ(Text(program.Import()), "pad: index_select(x); conv: conv(pad); other: conv(pad); add: add(conv,other)");
}

TEST(ImportPaddingTest, PadsWhatWasThereBeforeAChangeInPlace) {
  Program program({2, 3, 6});
  program.Parameter("p_weight", "conv.weight", {3, 3, 3});
  program.Node("neg.default", {{"self", "x"}}, "n", {2, 3, 6});
  program.Node("pad.default", {{"self", "n"}, {"pad", {1, 1}}, {"mode", TextOf("circular")}}, "padded", {2, 3, 8});
  program.Node("relu_.default", {{"self", "n"}}, "r", {2, 3, 6});
  program.Node("conv1d.default", {{"input", "padded"}, {"weight", "p_weight"}}, "c", {2, 3, 6});
  program.Node("add.Tensor", {{"self", "r"}, {"other", "c"}}, "y", {2, 3, 6});
  EXPECT_EQ(Text(program.Import()),
            "neg: neg(x); pad: index_select(neg); relu: relu(neg); conv: conv(pad); add: add(relu,conv)");
}

}  // namespace
}  // namespace adjoin
