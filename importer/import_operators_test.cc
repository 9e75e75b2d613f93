// Programs of a few operators, written here: which layers they become, and what is refused.
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "importer/testing/made_program.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ImportOperatorsTest, KeepsTheNamesOfAModulesOwnParameters) {
  Program program({4, 6, 8});
  program.Parameter("p_token", "encoder.token", {1, 1, 8});
  program.Parameter("p_pos", "encoder.pos", {1, 7, 8}, /*gradient=*/false);
  program.Node("expand.default", {{"self", "p_token"}, {"size", {4, -1, -1}}}, "token", {4, 1, 8});
  program.Node("cat.default", {{"tensors", {{"as_tensors", {{{"name", "token"}}, {{"name", "x"}}}}}}, {"dim", 1}},
               "cat", {4, 7, 8});
  program.Node("add.Tensor", {{"self", "cat"}, {"other", "p_pos"}}, "sum", {4, 7, 8});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "encoder.token: parameter(x); cat: concat(encoder.token,x); encoder.pos: parameter(cat)");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->layers[0].parameter_name().at("weight"), "encoder.token");
  EXPECT_EQ(model->layers[0].parameter().combine(), "expand");
  EXPECT_FALSE(model->layers[0].frozen());
  EXPECT_TRUE(model->layers[2].frozen());
  EXPECT_EQ(model->weights[1].name, "encoder.pos");
}

TEST(ImportOperatorsTest, ScalesChannelsThatAreNotTheLastDim) {
  Program program({2, 3, 4, 5});
  program.Parameter("p_scale", "scale", {3});
  program.Node("view.default", {{"self", "p_scale"}, {"size", {1, 3, 1, 1}}}, "view", {1, 3, 1, 1});
  program.Node("mul.Tensor", {{"self", "x"}, {"other", "view"}}, "y", {2, 3, 4, 5});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "permute: permute(x); scale: parameter(permute); mul: permute(scale)");
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->layers[1].parameter().buffer());
  EXPECT_THAT(model->layers[1].parameter().shape(), ElementsAre(3));
}

TEST(ImportOperatorsTest, ComputesWithNumbers) {
  Program program({2, 3});
  program.Node("mul.Tensor", {{"self", "x"}, {"other", 2}}, "a", {2, 3});
  program.Node("rsub.Scalar", {{"self", "a"}, {"other", 1}}, "b", {2, 3});
  program.Node("div.Tensor", {{"self", "b"}, {"other", 4}}, "c", {2, 3});
  program.Node("pow.Tensor_Scalar", {{"self", "c"}, {"exponent", 3}}, "d", {2, 3});
  program.Node("clamp.default", {{"self", "d"}, {"min", 0}}, "e", {2, 3});
  EXPECT_EQ(Text(program.Import()),
            "mul: mul 2(x); rsub: neg(mul); rsub_2: add 1(rsub); div: mul 0.25(rsub_2); "
            "pow: pow 3(div); clamp: clamp_min 0(pow)");
}

TEST(ImportOperatorsTest, DividesAndSubtractsTensors) {
  Program program({2, 3});
  program.Node("exp.default", {{"self", "x"}}, "a", {2, 3});
  program.Node("sub.Tensor", {{"self", "x"}, {"other", "a"}}, "b", {2, 3});
  program.Node("div.Tensor", {{"self", "b"}, {"other", "a"}}, "c", {2, 3});
  EXPECT_EQ(Text(program.Import()),
            "exp: exp(x); sub: neg(exp); sub_2: add(x,sub); div: reciprocal(exp); "
            "div_2: multiply(sub_2,div)");
}

TEST(ImportOperatorsTest, ReducesDims) {
  Program program({2, 3, 4});
  program.Node("std.correction", {{"self", "x"}, {"dim", {-1}}, {"correction", 0}, {"keepdim", true}}, "a", {2, 3, 1});
  EXPECT_EQ(Text(program.Import()), "std: reduce(x); std_2: root(std)");
  program.Node("sum.dim_IntList", {{"self", "a"}, {"dim", {0}}}, "b", {3, 1});
  EXPECT_THAT(program.Error(), HasSubstr("it is over the batch"));
}

TEST(ImportOperatorsTest, TakesPartsOfAValueWhoseBatchIsNotDim0) {
  Program program({2, 5, 24});
  program.Node("view.default", {{"self", "x"}, {"size", {2, 5, 3, 2, 4}}}, "a", {2, 5, 3, 2, 4});
  program.Node("permute.default", {{"self", "a"}, {"dims", {2, 0, 3, 1, 4}}}, "b", {3, 2, 2, 5, 4});
  program.Node("select.int", {{"self", "b"}, {"dim", 0}, {"index", 1}}, "c", {2, 2, 5, 4});
  program.Node("permute.default", {{"self", "c"}, {"dims", {0, 2, 1, 3}}}, "d", {2, 5, 2, 4});
  program.Node("view.default", {{"self", "d"}, {"size", {2, 5, 8}}}, "e", {2, 5, 8});
  program.Node("relu.default", {{"self", "e"}}, "f", {2, 5, 8});
  EXPECT_EQ(Text(program.Import()), "select: crop(x); relu: relu(select)");
}

TEST(ImportOperatorsTest, MultipliesMatricesOfHeads) {
  Program program({2, 3, 5, 4});
  program.Node("view.default", {{"self", "x"}, {"size", {6, 5, 4}}}, "a", {6, 5, 4});
  program.Node("transpose.int", {{"self", "a"}, {"dim0", 1}, {"dim1", 2}}, "b", {6, 4, 5});
  program.Node("bmm.default", {{"self", "a"}, {"mat2", "b"}}, "c", {6, 5, 5});
  program.Node("view.default", {{"self", "c"}, {"size", {2, 3, 5, 5}}}, "d", {2, 3, 5, 5});
  EXPECT_EQ(Text(program.Import()), "transpose: permute(x); bmm: matmul(x,transpose)");
}

TEST(ImportOperatorsTest, MakesALinearLayerOfATransposedParameter) {
  Program program({2, 5, 4});
  program.Parameter("p_w", "proj", {6, 4});
  program.Node("t.default", {{"self", "p_w"}}, "w", {4, 6});
  program.Node("matmul.default", {{"self", "x"}, {"other", "w"}}, "y", {2, 5, 6});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "matmul: linear(x)");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->layers[0].parameter_name().at("weight"), "proj");
  EXPECT_FALSE(model->layers[0].linear().transposed());
  for (const char* op : {"matmul.default", "einsum.default"}) {
    Program as_it_is({2, 5, 4});
    as_it_is.Parameter("p_w", "proj", {4, 6});
    if (std::string(op) == "matmul.default") {
      as_it_is.Node(op, {{"self", "x"}, {"other", "p_w"}}, "y", {2, 5, 6});
    } else {
      as_it_is.Node(op,
                    {{"equation", {{"as_string", "bli,io->blo"}}},
                     {"tensors", {{"as_tensors", {{{"name", "x"}}, {{"name", "p_w"}}}}}}},
                    "y", {2, 5, 6});
    }
    const auto other = as_it_is.Import();
    ASSERT_TRUE(other.ok()) << other.status();
    ASSERT_EQ(other->layers.size(), 1u);
    EXPECT_TRUE(other->layers[0].linear().transposed());
    EXPECT_EQ(other->weights[0].name, "proj");
  }
}

TEST(ImportOperatorsTest, CallsALayerByItsModuleWhateverItsParameterIsCalled) {
  Program program({2, 5});
  program.Tensor("x", {2, 5}, 5);
  program.Parameter("p_head", "head.weight", {9, 4});
  program.Node("embedding.default", {{"weight", "p_head"}, {"indices", "x"}}, "a", {2, 5, 4},
               "L__self__,,Model;L__self___words,words,torch.nn.modules.sparse.Embedding");
  program.Node("linear.default", {{"input", "a"}, {"weight", "p_head"}}, "b", {2, 5, 9},
               "L__self__,,Model;L__self___head,head,torch.nn.modules.linear.Linear");
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "words: embedding(x); head: linear(words)");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->layers[0].parameter_name().at("weight"), "head.weight");
  EXPECT_EQ(model->layers[1].weights_of(), "words");
}

TEST(ImportOperatorsTest, LooksPositionsUpAsTheFirstRowsOfATable) {
  Program program({2, 5, 4});
  program.Parameter("p_wpe", "wpe.weight", {16, 4});
  program.Node("arange.default", {{"end", 5}}, "pos", {5}, "", 5);
  program.Node("embedding.default", {{"weight", "p_wpe"}, {"indices", "pos"}}, "rows", {5, 4});
  program.Node("add.Tensor", {{"self", "x"}, {"other", "rows"}}, "y", {2, 5, 4});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "wpe.weight: parameter(x)");
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->layers[0].parameter().length(), ElementsAre(5, 4));
}

TEST(ImportOperatorsTest, MakesOneLayerOfAttentionThatIsWrittenByHand) {
  for (const bool causal : {false, true}) {
    Program program({2, 5, 8});
    program.Node("view.default", {{"self", "x"}, {"size", {2, 5, 2, 4}}}, "a", {2, 5, 2, 4});
    program.Node("transpose.int", {{"self", "a"}, {"dim0", 1}, {"dim1", 2}}, "q", {2, 2, 5, 4});
    program.Node("transpose.int", {{"self", "q"}, {"dim0", -2}, {"dim1", -1}}, "k", {2, 2, 4, 5});
    program.Node("matmul.default", {{"self", "q"}, {"other", "k"}}, "scores", {2, 2, 5, 5});
    program.Node("div.Tensor", {{"self", "scores"}, {"other", 4.0}}, "scaled", {2, 2, 5, 5});
    if (causal) {
      const json infinite = {{"as_float", "-Infinity"}};
      program.Node("full.default", {{"size", {5, 5}}, {"fill_value", infinite}}, "full", {5, 5});
      program.Node("triu.default", {{"self", "full"}, {"diagonal", 1}}, "mask", {5, 5});
      program.Node("add.Tensor", {{"self", "scaled"}, {"other", "mask"}}, "masked", {2, 2, 5, 5});
    }
    program.Node("softmax.int", {{"self", causal ? "masked" : "scaled"}, {"dim", -1}}, "p", {2, 2, 5, 5});
    program.Node("matmul.default", {{"self", "p"}, {"other", "q"}}, "y", {2, 2, 5, 4});
    program.Node("transpose.int", {{"self", "y"}, {"dim0", 1}, {"dim1", 2}}, "t", {2, 5, 2, 4});
    program.Node("reshape.default", {{"self", "t"}, {"shape", {2, 5, 8}}}, "z", {2, 5, 8});
    const auto model = program.Import();
    EXPECT_EQ(Text(model), "matmul: attention(x,x,x)");
    ASSERT_TRUE(model.ok());
    const Attention& attention = model->layers[0].attention();
    EXPECT_EQ(attention.heads(), 2u);
    EXPECT_FALSE(attention.projections());
    EXPECT_EQ(attention.scale(), 0.25);
    EXPECT_EQ(attention.causal(), causal);
    EXPECT_FALSE(attention.score_bias());
  }
}

TEST(ImportOperatorsTest, AttendsWithAMaskOfOneNumber) {
  for (const char* filled : {"zeros.default", "ones.default"}) {
    Program program({2, 3, 5, 4});
    program.Node("transpose.int", {{"self", "x"}, {"dim0", -2}, {"dim1", -1}}, "k", {2, 3, 4, 5});
    program.Node("matmul.default", {{"self", "x"}, {"other", "k"}}, "scores", {2, 3, 5, 5});
    program.Node(filled, {{"size", json::array()}}, "mask", {}, "", 12);
    program.Node("masked_fill.Scalar", {{"self", "scores"}, {"mask", "mask"}, {"value", -3e38}}, "m", {2, 3, 5, 5});
    program.Node("softmax.int", {{"self", "m"}, {"dim", -1}}, "p", {2, 3, 5, 5});
    program.Node("matmul.default", {{"self", "p"}, {"other", "x"}}, "y", {2, 3, 5, 4});
    const std::string text = Text(program.Import());
    // Where all scores are the same number, the mask stays one of its own.
    EXPECT_EQ(absl::StrContains(text, "matmul: attention("), std::string(filled) == "zeros.default") << text;
    EXPECT_EQ(absl::StrContains(text, "softmax(masked_fill"), std::string(filled) == "ones.default") << text;
  }
}

// The bias has two dims, which is found when the queries and keys have been turned.
TEST(ImportOperatorsTest, LeavesNothingOfWhatIsNoAttention) {
  Program program({2, 8, 5});
  program.Parameter("p_bias", "bias", {5, 5});
  program.Node("exp.default", {{"self", "p_bias"}}, "bias", {5, 5});
  program.Node("view.default", {{"self", "x"}, {"size", {2, 2, 4, 5}}}, "a", {2, 2, 4, 5});
  program.Node("transpose.int", {{"self", "a"}, {"dim0", 2}, {"dim1", 3}}, "q", {2, 2, 5, 4});
  program.Node("transpose.int", {{"self", "q"}, {"dim0", 2}, {"dim1", 3}}, "k", {2, 2, 4, 5});
  program.Node("tanh.default", {{"self", "q"}}, "v", {2, 2, 5, 4});
  program.Node("matmul.default", {{"self", "q"}, {"other", "k"}}, "scores", {2, 2, 5, 5});
  program.Node("add.Tensor", {{"self", "scores"}, {"other", "bias"}}, "biased", {2, 2, 5, 5});
  program.Node("softmax.int", {{"self", "biased"}, {"dim", -1}}, "p", {2, 2, 5, 5});
  program.Node("matmul.default", {{"self", "p"}, {"other", "v"}}, "y", {2, 2, 5, 4});
  const auto model = program.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  std::set<std::string> read;
  for (const Layer& layer : model->layers) read.insert(layer.input().begin(), layer.input().end());
  for (const Layer& layer : model->layers) {
    EXPECT_FALSE(layer.has_attention());
    EXPECT_TRUE(layer.name() == model->outputs[0] || read.count(layer.name()) == 1) << Text(model);
  }
}

TEST(ImportOperatorsTest, AttendsWithABiasOfTheScores) {
  Program program({2, 3, 5, 4});
  program.Parameter("p_bias", "bias", {1, 3, 5, 5});
  program.Node("scaled_dot_product_attention.default",
               {{"query", "x"}, {"key", "x"}, {"value", "x"}, {"attn_mask", "p_bias"}}, "y", {2, 3, 5, 4});
  const auto model = program.Import();
  EXPECT_THAT(Text(model), HasSubstr("scaled_dot_product_attention: attention("));
  ASSERT_TRUE(model.ok());
  bool found = false;
  for (const Layer& layer : model->layers) {
    if (!layer.has_attention()) continue;
    found = true;
    EXPECT_TRUE(layer.attention().score_bias());
    EXPECT_FALSE(layer.attention().has_scale());
    EXPECT_EQ(layer.input(3), "bias");
  }
  EXPECT_TRUE(found);
}

TEST(ImportOperatorsTest, RefusesResultsOfAnotherShapeThanTheyHave) {
  Program program({2, 3});
  program.Node("relu.default", {{"self", "x"}}, "a", {2, 3, 4, 5, 6});
  program.Node("select.int", {{"self", "a"}, {"dim", 4}, {"index", 0}}, "b", {2, 3, 4, 5});
  EXPECT_THAT(program.Error(), HasSubstr("another shape than the program says"));
  Program parameter({2, 3});
  parameter.Parameter("p", "p", {3});
  parameter.Node("alias.default", {{"self", "p"}}, "a", {1, 1, 3});
  parameter.Node("select.int", {{"self", "a"}, {"dim", 0}, {"index", 0}}, "b", {1, 3});
  parameter.Node("add.Tensor", {{"self", "x"}, {"other", "b"}}, "y", {2, 3});
  EXPECT_THAT(parameter.Error(), HasSubstr("another shape than the program says"));
}

TEST(ImportOperatorsTest, RefusesDimsThatOnlyTheProgramSays) {
  Program program({2, 4});
  program.Parameter("p", "p", {4});
  program.Node("unsqueeze.default", {{"self", "p"}, {"dim", 0}}, "u", {1, 1, 1, 1, 1, 1, 1, 4});
  program.Node("permute.default", {{"self", "u"}, {"dims", {7, 6, 5, 4, 3, 2, 1, 0}}}, "v", {4, 1, 1, 1, 1, 1, 1, 1});
  program.Node("add.Tensor", {{"self", "x"}, {"other", "v"}}, "y", {2, 4});
  EXPECT_FALSE(program.Import().ok());
  Program in_place({2, 4});
  in_place.Node("relu.default", {{"self", "x"}}, "a", {2, 4});
  in_place.Node("unsqueeze.default", {{"self", "x"}, {"dim", 1}}, "b", {2, 1, 4});
  in_place.Node("add_.Tensor", {{"self", "a"}, {"other", "b"}}, "c", {2, 2, 4});
  EXPECT_FALSE(in_place.Import().ok());
}

TEST(ImportOperatorsTest, RefusesValuesThatAreReadBeforeTheyAreDefined) {
  Program cycle({2, 4});
  cycle.Node("contiguous.default", {{"self", "a"}}, "a", {2, 4}, "b,block,torchvision.ShiftedWindowAttention");
  EXPECT_THAT(cycle.Error(), HasSubstr("torch.ops.aten.contiguous.default reads the value a before it is defined"));
  Program twice({2, 4});
  twice.Node("relu.default", {{"self", "x"}}, "a", {2, 4});
  twice.Node("neg.default", {{"self", "x"}}, "a", {2, 4});
  EXPECT_THAT(twice.Error(), HasSubstr("defines the value a twice"));
  Program parameter({2, 4});
  parameter.Parameter("x", "weight", {2, 4});
  parameter.Node("relu.default", {{"self", "x"}}, "a", {2, 4});
  EXPECT_THAT(parameter.Error(), HasSubstr("defines the value x twice"));
}

TEST(ImportOperatorsTest, JoinsValuesOfLongProgramsInTime) {
  Program program({2, 3});
  std::string last = "x";
  for (int i = 0; i < 4000; ++i) {
    const std::string next = absl::StrCat("v", i);
    program.Node("alias.default", {{"self", next == "v0" ? "x" : absl::StrCat("v", i - 1)}}, next, {2, 3});
    last = next;
  }
  program.Node("relu.default", {{"self", last}}, "y", {2, 3});
  EXPECT_EQ(Text(program.Import()), "relu: relu(x)");
}

TEST(ImportOperatorsTest, RefusesConstantsThatDoNotFit) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0}, {0, 4}, {3}, {3, 1}}) {
    Program program({2, 4});
    program.Node("ones.default", {{"size", shape}}, "ones", shape);
    program.Node("cumsum.default", {{"self", "ones"}, {"dim", 0}}, "c", shape);
    program.Node("add.Tensor", {{"self", "x"}, {"other", "c"}}, "y", {2, 4});
    EXPECT_FALSE(program.Import().ok());
    Program masked({2, 4});
    masked.Node("ones.default", {{"size", shape}}, "ones", shape, "", 12);
    masked.Node("triu.default", {{"self", "ones"}}, "mask", shape, "", 12);
    masked.Node("masked_fill.Scalar", {{"self", "x"}, {"mask", "mask"}, {"value", -2.0}}, "y", {2, 4});
    EXPECT_FALSE(masked.Import().ok());
  }
}

TEST(ImportOperatorsTest, RefusesLongPathsOfModules) {
  std::string path;
  for (int i = 0; i < 20000; ++i) path += "getattr(";
  Program program({2, 4});
  program.Node("relu.default", {{"self", "x"}}, "a", {2, 4}, absl::StrCat("k,", path, ",type"));
  EXPECT_THAT(program.Error(), HasSubstr("of a name of more than"));
}

TEST(ImportOperatorsTest, FreezesLayersWhoseWeightsAreBuffers) {
  Program program({2, 3, 8, 8});
  program.Buffer("b_k", "k", {4, 3, 3, 3});
  program.Node("conv2d.default", {{"input", "x"}, {"weight", "b_k"}}, "y", {2, 4, 6, 6});
  const auto model = program.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->layers[0].frozen());
  Program mixed({2, 3, 8, 8});
  mixed.Buffer("b_k", "k", {4, 3, 3, 3});
  mixed.Parameter("p_bias", "bias", {4});
  mixed.Node("conv2d.default", {{"input", "x"}, {"weight", "b_k"}, {"bias", "p_bias"}}, "y", {2, 4, 6, 6});
  EXPECT_THAT(mixed.Error(), HasSubstr("its parameter k has no gradient (a buffer, or requires_grad=False), and bias"));
}

TEST(ImportOperatorsTest, ReadsWhatChangesWithinAttentionInTheProgramsOrder) {
  Program program({2, 3, 5, 4});
  program.Node("neg.default", {{"self", "x"}}, "a", {2, 3, 5, 4});
  program.Node("transpose.int", {{"self", "x"}, {"dim0", -2}, {"dim1", -1}}, "t", {2, 3, 4, 5});
  program.Node("matmul.default", {{"self", "a"}, {"other", "t"}}, "s", {2, 3, 5, 5});
  program.Node("softmax.int", {{"self", "s"}, {"dim", -1}}, "p", {2, 3, 5, 5});
  program.Node("mul_.Tensor", {{"self", "a"}, {"other", 2.0}}, "b", {2, 3, 5, 4});
  program.Node("matmul.default", {{"self", "p"}, {"other", "x"}}, "y", {2, 3, 5, 4});
  program.Node("add.Tensor", {{"self", "y"}, {"other", "b"}}, "z", {2, 3, 5, 4});
  EXPECT_THAT(Text(program.Import()), HasSubstr("matmul: matmul(neg,transpose); softmax: softmax(matmul); mul"));
}

TEST(ImportOperatorsTest, RefusesParametersThatAreSharedInOtherRoles) {
  Program program({2, 3, 4});
  program.Parameter("a", "a", {4});
  program.Parameter("b", "b", {4});
  const auto norm = [&](const char* weight, const char* bias, const char* of, const char* to) {
    program.Node("layer_norm.default",
                 {{"input", of}, {"normalized_shape", json::array({4})}, {"weight", weight}, {"bias", bias}}, to,
                 {2, 3, 4});
  };
  norm("a", "b", "x", "y");
  norm("a", "b", "y", "z");
  ASSERT_TRUE(program.Import().ok()) << program.Error();
  norm("b", "a", "z", "w");
  EXPECT_THAT(program.Error(), HasSubstr("its weight, b, is also the bias of"));
}

TEST(ImportOperatorsTest, RefusesAttentionThatIsRandomOrOfNoScores) {
  for (const auto& [name, value, why] : {std::tuple("dropout_p", 0.1, "its result is random in the exported program"),
                                         {"scale", 0.0, "its scores are multiplied by 0"}}) {
    Program program({2, 3, 5, 4});
    program.Node("scaled_dot_product_attention.default",
                 {{"query", "x"}, {"key", "x"}, {"value", "x"}, {name, json(value)}}, "y", {2, 3, 5, 4});
    EXPECT_THAT(program.Error(), HasSubstr(why));
  }
}

TEST(ImportOperatorsTest, RefusesFixedRowsOfWhichOneHasNoGradient) {
  for (int padding : {1, 5}) {
    Program program({2, 3, 4});
    program.Parameter("p_table", "table", {8, 4});
    program.Node("arange.default", {{"end", 3}}, "rows", {3}, "", 5);
    program.Node("embedding.default", {{"weight", "p_table"}, {"indices", "rows"}, {"padding_idx", padding}}, "e",
                 {3, 4});
    program.Node("add.Tensor", {{"self", "x"}, {"other", "e"}}, "y", {2, 3, 4});
    EXPECT_EQ(program.Import().ok(), padding == 5) << program.Error();
    EXPECT_THAT(program.Error(), HasSubstr(padding == 5 ? "" : "its padding_idx is a row that it reads"));
  }
}

TEST(ImportOperatorsTest, RefusesMeansOfAnotherType) {
  Program program({2, 3, 4, 4});
  program.Node("mean.dim", {{"self", "x"}, {"dim", {2, 3}}, {"dtype", 8}}, "y", {2, 3}, "", 8);
  EXPECT_THAT(program.Error(), HasSubstr("it changes the type of its tensor"));
}

TEST(ImportOperatorsTest, NamesConstantsThatNoModuleHas) {
  Program program({2, 4, 3, 2});
  program.Parameter("p", "computed_constant_0", {2});
  program.Node("arange.default", {{"end", 24}}, "row", {24});
  program.Node("view.default", {{"self", "row"}, {"size", {2, 3, 4}}}, "cube", {2, 3, 4});
  program.Node("numpy_T.default", {{"self", "cube"}}, "turned", {4, 3, 2});
  program.Node("add.Tensor", {{"self", "x"}, {"other", "turned"}}, "y", {2, 4, 3, 2});
  program.Node("mul.Tensor", {{"self", "y"}, {"other", "p"}}, "z", {2, 4, 3, 2});
  const auto model = program.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers[0].parameter_name().at("weight"), "computed_constant_1");
  EXPECT_EQ(model->weights[0].name, "computed_constant_1");
  ASSERT_TRUE(model->weights[0].constant.has_value());
  EXPECT_THAT(model->weights[0].constant->shape, ElementsAre(4, 3, 2));
  EXPECT_EQ(model->weights[0].constant->At(1), 12);  // element (1, 0, 0) before
}

TEST(ImportOperatorsTest, RefusesByOperatorAndModule) {
  const std::string stack = "L__self__,,Model;L__self___part,part,Part";
  struct Case {
    std::string op;
    std::vector<std::pair<std::string, json>> arguments;
    std::string why;
    int dtype = 7;
  };
  const std::vector<Case> cases = {
      {"cumsum.default", {{"self", "x"}, {"dim", 1}}, "it is not known"},
      {"cumsum.default", {{"self", "x"}, {"argument_1", {{"as_sym_int", "s0"}}}}, "it is not known"},
      {"to.dtype", {{"self", "x"}, {"dtype", 8}}, "it changes the type of its tensor", 8},
      {"exp.default", {{"self", "x"}}, "it changes the type of its tensor", 8},
      {"div.Tensor_mode", {{"self", "x"}, {"other", 2}, {"rounding_mode", {{"as_string", "floor"}}}}, "it rounds"},
      {"batch_norm.default", {{"input", "x"}, {"training", true}}, "it keeps no running statistics"},
      {"matmul.default", {{"self", "x"}, {"other", "x"}}, "it multiplies samples of the batch with each other"},
      {"select.int", {{"self", "x"}, {"dim", 0}, {"index", 0}}, "samples of the batch"},
      {"mean.default", {{"self", "x"}}, "it is over all dims"},
      {"dropout.default", {{"input", "x"}, {"p", 0.5}, {"train", true}}, "right would be an export after model.eval()"},
  };
  for (const Case& test : cases) {
    Program program({4, 4});
    program.Node(test.op, test.arguments, "y", {4, 4}, stack, test.dtype);
    EXPECT_THAT(program.Error(), testing::AllOf(HasSubstr(absl::StrCat("torch.ops.aten.", test.op)),
                                                HasSubstr("in module part"), HasSubstr(test.why)));
  }
}

}  // namespace
}  // namespace adjoin
