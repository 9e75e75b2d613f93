// Programs that compute with parameters alone, with slices and with numbers of samples: which layers they become.
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "importer/testing/made_program.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ImportValuesTest, ChangesValuesOfLongProgramsInTime) {
  Program program({2, 3});
  program.Node("neg.default", {{"self", "x"}}, "v0", {2, 3});
  for (int i = 1; i < 10000; ++i) {
    const std::string last = absl::StrCat("v", i - 1);
    // Each also leaves a view of what is changed next.
    program.Node("view.default", {{"self", last}, {"size", {6}}}, absl::StrCat("view", i), {6});
    program.Node(i % 2 == 0 ? "relu_.default" : "tanh_.default", {{"self", last}}, absl::StrCat("v", i), {2, 3});
  }
  const std::clock_t before = std::clock();
  const auto model = program.Import();
  EXPECT_LT(std::clock() - before, 10 * CLOCKS_PER_SEC);  // of the processor, however busy the machine is
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers.size(), 10000u);
  program.Node("neg.default", {{"self", "view7"}}, "y", {6});
  EXPECT_THAT(program.Error(), HasSubstr("a view of what was changed in place"));
}

TEST(ImportValuesTest, ReadsOneNumberOfEachSample) {
  Program words({3});
  words.Tensor("x", {3}, /*dtype=*/5);
  words.Parameter("w", "words.weight", {9, 4});
  words.Node("embedding.default", {{"weight", "w"}, {"indices", "x"}}, "e", {3, 4});
  words.Node("sum.dim_IntList", {{"self", "e"}, {"dim", json::array({1})}}, "s", {3});
  words.Node("exp.default", {{"self", "s"}}, "f", {3});
  words.Node("unsqueeze.default", {{"self", "f"}, {"dim", 1}}, "u", {3, 1});
  words.Node("mul.Tensor", {{"self", "e"}, {"other", "u"}}, "y", {3, 4});
  const auto model = words.Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->inputs[0].shape, ElementsAre(3, 1));
  EXPECT_EQ(Text(model),
            "words: embedding(x); embedding: flatten(words); sum: reduce(embedding); exp: exp(sum); "
            "mul: multiply(embedding,exp)");
}

TEST(ImportValuesTest, ComputesWithParametersAlone) {
  Program scaled({2, 5, 4});
  scaled.Parameter("w", "block.weight", {6, 4});
  scaled.Parameter("g", "block.gain", {6, 1});
  scaled.Node("mul.Tensor", {{"self", "w"}, {"other", "g"}}, "v", {6, 4}, "0,L['self'].block,Block");
  scaled.Node("linear.default", {{"input", "x"}, {"weight", "v"}}, "y", {2, 5, 6}, "0,L['self'].block,Block");
  const auto model = scaled.Import();
  EXPECT_EQ(Text(model),
            "block.gain: parameter(x); block.weight: parameter(x); block.mul: multiply(block.weight,block.gain); "
            "block.mul_2: permute(block.mul); block.linear: matmul(x,block.mul_2)");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->layers[0].parameter().combine(), "value");
  EXPECT_EQ(model->weights[0].name, "block.gain");

  Program temperature({2, 4});
  temperature.Parameter("t", "temperature", {});
  temperature.Node("exp.default", {{"self", "t"}}, "e", {});
  temperature.Node("mul.Tensor", {{"self", "x"}, {"other", "e"}}, "y", {2, 4});
  EXPECT_EQ(Text(temperature.Import()), "temperature: parameter(x); exp: exp(temperature); mul: multiply(x,exp)");

  Program result({2, 4});
  result.Parameter("t", "temperature", {2, 4});
  result.Node("exp.default", {{"self", "t"}}, "e", {2, 4});
  EXPECT_THAT(result.Error(), HasSubstr("the model's result: it follows of parameters alone"));

  Program of_samples({2, 4});
  of_samples.Parameter("t", "t", {2, 4});
  of_samples.Node("exp.default", {{"self", "t"}}, "e", {2, 4});
  of_samples.Node("mul.Tensor", {{"self", "x"}, {"other", "e"}}, "y", {2, 4});
  EXPECT_THAT(of_samples.Error(), HasSubstr("elements for each sample"));

  Program convolution({2, 3, 8, 8});
  convolution.Parameter("w", "w", {4, 3, 3, 3});
  convolution.Node("neg.default", {{"self", "w"}}, "n", {4, 3, 3, 3});
  convolution.Node("conv2d.default", {{"input", "x"}, {"weight", "n"}}, "y", {2, 4, 6, 6}, "0,L['self'].conv,Conv");
  EXPECT_THAT(convolution.Error(),
              HasSubstr("aten.conv2d.default (1 time in module conv): its weight is n, which is computed"));
}

TEST(ImportValuesTest, WritesNumbersToSlices) {
  Program program({2, 3, 4});
  program.Node("tanh.default", {{"self", "x"}}, "a", {2, 3, 4});
  program.Node("slice.Tensor", {{"self", "a"}, {"dim", 2}, {"start", 1}, {"end", 3}}, "s", {2, 3, 2});
  program.Node("fill_.Scalar", {{"self", "s"}, {"value", 5}}, "f", {2, 3, 2});
  program.Node("neg.default", {{"self", "a"}}, "y", {2, 3, 4});
  EXPECT_EQ(Text(program.Import()),
            "tanh: tanh(x); slice: crop(tanh); fill: parameter(tanh); fill_2: parameter(fill); neg: neg(fill_2)");
  program.Node("neg.default", {{"self", "s"}}, "z", {2, 3, 2});
  EXPECT_THAT(program.Error(), HasSubstr("a view of what was changed in place"));
  Program parameter({2, 4});
  parameter.Parameter("p", "p", {4});
  parameter.Node("slice.Tensor", {{"self", "p"}, {"dim", 0}, {"start", 1}, {"end", 3}}, "s", {2});
  parameter.Node("zero_.default", {{"self", "s"}}, "z", {2});
  parameter.Node("add.Tensor", {{"self", "x"}, {"other", "p"}}, "y", {2, 4});
  EXPECT_THAT(parameter.Error(), HasSubstr("in place"));
}

// What is computed of a parameter reads it by a layer of its own, which no other reader of it sees.
TEST(ImportValuesTest, RefusesWhatChangesPartsOfAParameterInPlace) {
  for (int64_t batch : {1, 4}) {  // the parameter of shape [1, 3, 2], as it is and expanded to the batch
    Program program({4, 3, 2});
    program.Parameter("p", "p", {1, 3, 2});
    program.Node("expand.default", {{"self", "p"}, {"size", {batch, -1, -1}}}, "e", {batch, 3, 2});
    program.Node("clone.default", {{"self", "e"}}, "q", {batch, 3, 2});
    program.Node("slice.Tensor", {{"self", "q"}, {"dim", 1}, {"start", 1}, {"end", 3}}, "s", {batch, 2, 2});
    program.Node("relu_.default", {{"self", "s"}}, "r", {batch, 2, 2});
    program.Node("add.Tensor", {{"self", "x"}, {"other", "q"}}, "y", {4, 3, 2});
    EXPECT_THAT(program.Error(), HasSubstr("in place")) << batch;
  }
}

TEST(ImportValuesTest, SaysWhatHelpsWhereATraceHasTheFastPathOfInference) {
  Program program({2, 5, 8});
  program.Node("_transformer_encoder_layer_fwd.default", {{"src", "x"}}, "y", {2, 5, 8});
  EXPECT_THAT(program.Error(), HasSubstr("outside of torch.no_grad()"));
}

TEST(ImportValuesTest, RefusesProductsOfOtherShapes) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {2}, {5, 2}, {5, 2, 6, 1}}) {
    Program program({2, 5, 8});
    program.Parameter("w", "w", {6, 8});
    program.Node("exp.default", {{"self", "w"}}, "e", {6, 8});
    program.Node("transpose.int", {{"self", "x"}, {"dim0", 0}, {"dim1", 1}}, "t", {5, 2, 8});
    program.Node("linear.default", {{"input", "t"}, {"weight", "e"}}, "y", shape);
    EXPECT_THAT(program.Error(), HasSubstr("other dims than follow from its tensors")) << shape.size();
    Program product({2, 5, 8});
    product.Node("transpose.int", {{"self", "x"}, {"dim0", 1}, {"dim1", 2}}, "t", {2, 8, 5});
    product.Node("matmul.default", {{"self", "x"}, {"other", "t"}}, "y", shape);
    EXPECT_THAT(product.Error(), HasSubstr("other dims than follow from its tensors")) << shape.size();
  }
}

// A product with 0 would be NaN where the element is infinite.
TEST(ImportValuesTest, RefusesToReplaceWhatMayNotBeFinite) {
  const auto error = [](const std::vector<std::pair<std::string, json>>& functions, bool slice, json number) {
    Program program({2, 3, 4});
    std::string last = "x";
    for (const auto& [op, argument] : functions) {
      const std::string next = absl::StrCat(last, "f");
      std::vector<std::pair<std::string, json>> arguments = {{"self", last}};
      if (!argument.is_null()) arguments.emplace_back(op == "pow.Tensor_Scalar" ? "exponent" : "other", argument);
      if (op == "clamp.default") arguments.back().first = "min";
      program.Node(op, arguments, next, {2, 3, 4}, "0,L['self'].block,Block");
      last = next;
    }
    if (slice) {
      program.Node("select.int", {{"self", last}, {"dim", 1}, {"index", 0}}, "s", {2, 4});
      program.Node("fill_.Scalar", {{"self", "s"}, {"value", number}}, "f", {2, 4});
    } else {
      program.Node("ones.default", {{"size", {3, 4}}}, "ones", {3, 4}, "", 12);
      program.Node("triu.default", {{"self", "ones"}}, "mask", {3, 4}, "", 12);
      program.Node("masked_fill.Scalar", {{"self", last}, {"mask", "mask"}, {"value", number}}, last + "m", {2, 3, 4});
      last += "m";
    }
    program.Node("neg.default", {{"self", last}}, "y", {2, 3, 4});
    return program.Error();
  };
  const json infinite = {{"as_float", "-Infinity"}};
  for (const bool slice : {false, true}) {
    for (const json& number : {json(0.0), json(2.5)}) {
      for (const char* op : {"log.default", "reciprocal.default", "rsqrt.default", "sqrt.default", "log1p.default"}) {
        EXPECT_THAT(error({{op, nullptr}}, slice, number), HasSubstr("may be infinite or NaN since block.")) << op;
        EXPECT_THAT(error({{op, nullptr}, {"tanh.default", nullptr}}, slice, number), HasSubstr("infinite or NaN"));
        EXPECT_EQ(error({{"clamp.default", 0.5}, {op, nullptr}}, slice, number), "") << op;
        EXPECT_EQ(error({{"square.default", nullptr}, {"add.Scalar", 1e-5}, {op, nullptr}}, slice, number), "") << op;
      }
      EXPECT_THAT(error({{"pow.Tensor_Scalar", -1.5}}, slice, number), HasSubstr("infinite or NaN"));
      EXPECT_THAT(error({{"pow.Tensor_Scalar", 1.5}}, slice, number), HasSubstr("infinite or NaN"));
      EXPECT_EQ(error({{"pow.Tensor_Scalar", 3}}, slice, number), "");
      EXPECT_EQ(error({{"sin.default", nullptr}, {"exp.default", nullptr}}, slice, number), "");
    }
  }
  EXPECT_THAT(error({{"log.default", nullptr}}, false, infinite), HasSubstr("infinite or NaN"));
  EXPECT_EQ(error({{"tanh.default", nullptr}}, false, infinite), "");
}

// Minus infinity may be written over itself, but not a number over it.
TEST(ImportValuesTest, FillsOneMaskAfterAnother) {
  Program program({2, 4, 4});
  program.Node("ones.default", {{"size", {4, 4}}}, "ones", {4, 4}, "", 12);
  program.Node("triu.default", {{"self", "ones"}, {"diagonal", 1}}, "mask", {4, 4}, "", 12);
  program.Node("tril.default", {{"self", "ones"}, {"diagonal", -2}}, "other", {4, 4}, "", 12);
  const json infinite = {{"as_float", "-Infinity"}};
  program.Node("masked_fill.Scalar", {{"self", "x"}, {"mask", "mask"}, {"value", infinite}}, "a", {2, 4, 4});
  program.Node("masked_fill.Scalar", {{"self", "a"}, {"mask", "other"}, {"value", infinite}}, "b", {2, 4, 4});
  program.Node("softmax.int", {{"self", "b"}, {"dim", -1}}, "y", {2, 4, 4});
  EXPECT_EQ(Text(program.Import()),
            "masked_fill: parameter(x); masked_fill_2: parameter(masked_fill); softmax: softmax(masked_fill_2)");
  // A row of minus infinities would be NaN.
  program.Node("masked_fill.Scalar", {{"self", "y"}, {"mask", "mask"}, {"value", 0.0}}, "z", {2, 4, 4});
  EXPECT_THAT(program.Error(), HasSubstr("may be infinite or NaN since masked_fill,"));
}

TEST(ImportValuesTest, TakesElementsByFixedIndices) {
  Program program({2, 3, 4});
  program.Node("arange.start_step", {{"start", 3}, {"end", -1}, {"step", -1}}, "i", {4}, "", 5);
  program.Node("index_select.default", {{"self", "x"}, {"dim", 2}, {"index", "i"}}, "y", {2, 3, 4});
  const auto model = program.Import();
  EXPECT_EQ(Text(model), "index_select: index_select(x)");
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->layers[0].index_select().arg(), ElementsAre(2, 3, 2, 1, 0));
}

// As PyTorch, which takes them for masks.
TEST(ImportValuesTest, RefusesMasksAsIndices) {
  const json indices = {{"as_optional_tensors", {{{"as_none", true}}, {{"as_tensor", {{"name", "i"}}}}}}};
  for (const auto& [dtype, name] : std::vector<std::pair<int, std::string>>{{1, "uint8"}, {12, "bool"}}) {
    Program program({2, 3, 4});
    program.Node("ones.default", {{"size", {3}}}, "i", {3}, "", dtype);
    program.Node("index.Tensor", {{"self", "x"}, {"indices", indices}}, "y", {2, 3, 4});
    EXPECT_THAT(program.Error(), HasSubstr(absl::StrCat("its indices are of ", name, "; right would be whole")));
  }
  Program program({2, 3, 4});
  program.Node("ones.default", {{"size", {3}}}, "i", {3}, "", 4);
  program.Node("index.Tensor", {{"self", "x"}, {"indices", indices}}, "y", {2, 3, 4});
  EXPECT_EQ(Text(program.Import()), "index: index_select(x)");
}

TEST(ImportValuesTest, StacksAndGates) {
  Program program({2, 3, 4});
  program.Node("neg.default", {{"self", "x"}}, "n", {2, 3, 4});
  program.Node("stack.default", {{"tensors", {{"as_tensors", {{{"name", "n"}}, {{"name", "x"}}}}}}, {"dim", 1}}, "s",
               {2, 2, 3, 4});
  program.Node("glu.default", {{"self", "s"}}, "y", {2, 2, 3, 2});
  EXPECT_EQ(Text(program.Import()),
            "neg: neg(x); stack: reshape(neg); stack_2: reshape(x); stack_3: concat(stack,stack_2); "
            "glu: crop(stack_3); glu_2: crop(stack_3); glu_3: sigmoid(glu_2); glu_4: multiply(glu,glu_3)");
}

}  // namespace
}  // namespace adjoin
