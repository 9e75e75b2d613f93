// Constants against what PyTorch computed of them (testdata/constant_fixtures.py), and programs made by hand.
#include "importer/constants/constant_evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "importer/archive/pt2_archive.h"
#include "importer/graph/op_graph.h"
#include "primitives/geometry/box.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Pt2Archive> OpenFixture(const std::string& name) {
  auto archive = Pt2Archive::Open("importer/testdata/" + name);
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? *std::move(archive) : nullptr;
}

std::string OpOf(const OpGraph& graph, const std::string& value) {
  for (const OpNode& node : graph.nodes) {
    for (const std::string& output : node.outputs) {
      if (output == value) return node.target;
    }
  }
  return "";
}

// An element of a file, as a number.
double NumberAt(DType dtype, const std::string& bytes, size_t i) {
  switch (dtype) {
    case DType::kFloat64: {
      double value;
      memcpy(&value, bytes.data() + i * 8, 8);
      return value;
    }
    case DType::kFloat32: {
      float value;
      memcpy(&value, bytes.data() + i * 4, 4);
      return value;
    }
    case DType::kBFloat16: {
      uint16_t half;
      memcpy(&half, bytes.data() + i * 2, 2);
      const uint32_t bits = uint32_t{half} << 16;
      float value;
      memcpy(&value, &bits, 4);
      return value;
    }
    case DType::kFloat16: {
      uint16_t bits;
      memcpy(&bits, bytes.data() + i * 2, 2);
      return Float16Value(bits);
    }
    default: {
      int64_t value = 0;
      memcpy(&value, bytes.data() + i * static_cast<size_t>(SizeOf(dtype)), static_cast<size_t>(SizeOf(dtype)));
      return static_cast<double>(dtype == DType::kInt32 ? static_cast<int32_t>(value) : value);
    }
  }
}

// Functions such as sin, which PyTorch computes in float32 itself, to one or two of its last bits; all else as it is.
bool IsTranscendental(const std::string& op) {
  for (const char* name : {"sin", "cos", "exp", "pow", "tanh", "sigmoid", "log1p", "mul", "repeat_interleave", "outer",
                           "einsum", "unsqueeze", "matmul", "mean"}) {
    if (op.find(absl::StrCat("aten.", name)) != std::string::npos) return true;
  }
  return false;
}

TEST(ConstantEvaluatorTest, ComputesWhatPyTorchDoes) {
  const auto archive = OpenFixture("constants.pt2");
  const auto graph = ReadOpGraph(archive->program(), archive->path());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto expected = SafetensorsReader::Open("importer/testdata/constants.safetensors");
  ASSERT_TRUE(expected.ok()) << expected.status();
  ConstantEvaluator constants(*archive, *graph);
  ASSERT_EQ(graph->outputs.size(), (*expected)->entries().size() + 1);
  ASSERT_GT(graph->outputs.size(), 100u);
  EXPECT_FALSE(constants.IsConstant(graph->outputs[0]));
  for (size_t i = 1; i < graph->outputs.size(); ++i) {
    const std::string where = absl::StrCat(i, ": ", graph->outputs[i], " of ", OpOf(*graph, graph->outputs[i]));
    EXPECT_TRUE(constants.IsConstant(graph->outputs[i])) << where;
    const auto computed = constants.Evaluate(graph->outputs[i]);
    if (!computed.ok()) {
      ADD_FAILURE() << where << ": " << computed.status();
      continue;
    }
    const SafetensorsEntry* entry = (*expected)->Find(absl::StrCat(i));
    ASSERT_NE(entry, nullptr) << where;
    EXPECT_EQ(computed->dtype, entry->dtype) << where;
    ASSERT_EQ(computed->shape, entry->shape) << where;
    std::string bytes(static_cast<size_t>(entry->Bytes()), '\0');
    ASSERT_TRUE((*expected)->ReadBox(*entry, Box::Whole(entry->shape), bytes.data()).ok());
    const std::string own = computed->Bytes(entry->dtype);
    ASSERT_EQ(own.size(), bytes.size()) << where;
    const double close = IsTranscendental(OpOf(*graph, graph->outputs[i])) && IsFloatingPoint(entry->dtype) ? 3e-7 : 0;
    for (int64_t n = 0; n < computed->Elements(); ++n) {
      const double right = NumberAt(entry->dtype, bytes, static_cast<size_t>(n));
      const double found = NumberAt(entry->dtype, own, static_cast<size_t>(n));
      EXPECT_EQ(found, computed->At(n)) << where;
      if (found == right) continue;
      EXPECT_LE(std::fabs(found - right), close * std::max(1.0, std::fabs(right)))
          << where << " at " << n << ": " << found << " instead of " << right;
    }
  }
}

// -- Programs by hand.

OpArgument TensorArgument(std::vector<std::string> values) {
  OpArgument argument;
  argument.kind = OpArgument::Kind::kTensors;
  argument.tensors = std::move(values);
  return argument;
}
OpArgument IntArgument(std::vector<int64_t> values) {
  OpArgument argument;
  argument.kind = OpArgument::Kind::kInts;
  argument.ints = std::move(values);
  return argument;
}

// The fixture with other nodes: c_table is a buffer [6, 5], p_scale a parameter, x the argument.
class ByHandTest : public testing::Test {
 protected:
  void SetUp() override {
    archive_ = OpenFixture("constants.pt2");
    auto graph = ReadOpGraph(archive_->program(), archive_->path());
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    graph_.nodes.clear();
  }
  void Add(const std::string& op, const std::string& output, std::map<std::string, OpArgument> arguments,
           std::vector<int64_t> shape, DType dtype = DType::kFloat32, bool in_place = false) {
    OpNode node;
    node.op = op;
    node.target = absl::StrCat("torch.ops.aten.", op, in_place ? "_" : "", ".default");
    node.module = "encoder.0";
    node.in_place = in_place;
    node.arguments = std::move(arguments);
    node.outputs = {output};
    graph_.nodes.push_back(std::move(node));
    graph_.tensors[output] = TensorInfo{dtype, std::move(shape)};
  }
  void AddZeros(const std::string& output, std::vector<int64_t> shape) {
    Add("zeros", output, {{"size", IntArgument(shape)}}, shape);
  }
  std::string ErrorOf(const std::string& value, const ConstantLimits& limits = {}) {
    ConstantEvaluator constants(*archive_, graph_, limits);
    return std::string(constants.Evaluate(value).status().message());
  }

  std::unique_ptr<Pt2Archive> archive_;
  OpGraph graph_;
};

TEST_F(ByHandTest, WhatArgumentsAndParametersReachIsNotConstant) {
  AddZeros("z", {6, 5});
  Add("add", "sum", {{"self", TensorArgument({"z"})}, {"other", TensorArgument({"c_table"})}}, {6, 5});
  Add("mul", "scaled", {{"self", TensorArgument({"sum"})}, {"other", TensorArgument({"p_scale"})}}, {6, 5});
  Add("mul", "later", {{"self", TensorArgument({"scaled"})}, {"other", IntArgument({2})}}, {6, 5});
  const ConstantEvaluator constants(*archive_, graph_);
  for (const char* constant : {"z", "sum", "c_table"}) EXPECT_TRUE(constants.IsConstant(constant)) << constant;
  for (const char* other : {"scaled", "later", "x", "p_scale", "none"}) EXPECT_FALSE(constants.IsConstant(other));
  EXPECT_THAT(ErrorOf("later"), HasSubstr("later depends on an argument of forward or on a parameter"));
}

TEST_F(ByHandTest, WhatAnArgumentIsCopiedIntoIsNotConstant) {
  AddZeros("z", {2, 3});
  Add("select", "row", {{"self", TensorArgument({"z"})}, {"index", IntArgument({1})}}, {3});
  Add("copy", "row2", {{"self", TensorArgument({"row"})}, {"src", TensorArgument({"x"})}}, {3}, DType::kFloat32, true);
  AddZeros("other", {2, 3});
  const ConstantEvaluator constants(*archive_, graph_);
  for (const char* value : {"z", "row", "row2"}) EXPECT_FALSE(constants.IsConstant(value)) << value;
  EXPECT_TRUE(constants.IsConstant("other"));
}

TEST_F(ByHandTest, ABufferThatTheProgramChangesIsNotConstant) {
  Add("add", "next", {{"self", TensorArgument({"c_table"})}, {"other", IntArgument({1})}}, {6, 5}, DType::kFloat32,
      true);
  const ConstantEvaluator constants(*archive_, graph_);
  EXPECT_FALSE(constants.IsConstant("c_table"));
  EXPECT_FALSE(constants.IsConstant("next"));
}

TEST_F(ByHandTest, ChangesThroughViewsAreSeenByAll) {
  AddZeros("z", {2, 3});
  Add("select", "row", {{"self", TensorArgument({"z"})}, {"index", IntArgument({1})}}, {3});
  Add("fill", "filled", {{"self", TensorArgument({"row"})}, {"value", IntArgument({4})}}, {3}, DType::kFloat32, true);
  ConstantEvaluator constants(*archive_, graph_);
  const auto whole = constants.Evaluate("z");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->reals, ElementsAre(0, 0, 0, 4, 4, 4));
}

TEST_F(ByHandTest, AChangeAfterALayerHasReadIsRefused) {
  AddZeros("z", {2, 3});
  Add("add", "y", {{"self", TensorArgument({"x"})}, {"other", TensorArgument({"z"})}}, {2, 3});
  EXPECT_EQ(ErrorOf("z"), "");
  Add("fill", "filled", {{"self", TensorArgument({"z"})}, {"value", IntArgument({4})}}, {2, 3}, DType::kFloat32, true);
  EXPECT_THAT(ErrorOf("z"), HasSubstr("z is changed in place after an operator has read it"));
}

TEST_F(ByHandTest, RefusalsTellOperatorAndModule) {
  Add("rand", "r", {{"size", IntArgument({2})}}, {2});
  Add("add", "r2", {{"self", TensorArgument({"r"})}, {"other", IntArgument({1})}}, {2});
  Add("bincount", "c", {{"self", TensorArgument({"c_words"})}}, {2}, DType::kInt64);
  Add("empty", "e", {{"size", IntArgument({2})}}, {2});
  EXPECT_THAT(ErrorOf("r2"), AllOf(HasSubstr("torch.ops.aten.rand.default in module encoder.0"), HasSubstr("random")));
  EXPECT_THAT(ErrorOf("c"), AllOf(HasSubstr("torch.ops.aten.bincount.default"), HasSubstr("none of the operators")));
  EXPECT_THAT(ErrorOf("e"), HasSubstr("no defined values"));
}

TEST_F(ByHandTest, WhatAProgramClaimsIsBounded) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  AddZeros("huge", {kHuge, kHuge});
  AddZeros("one", {1});
  Add("expand", "wide", {{"self", TensorArgument({"one"})}, {"size", IntArgument({kHuge})}}, {kHuge});
  Add("clone", "copy", {{"self", TensorArgument({"wide"})}}, {kHuge});
  Add("expand", "wider", {{"self", TensorArgument({"one"})}, {"size", IntArgument({kHuge, kHuge})}}, {kHuge, kHuge});
  Add("slice", "far",
      {{"self", TensorArgument({"one"})}, {"start", IntArgument({-kHuge})}, {"end", IntArgument({kHuge})}}, {kHuge});
  Add("zeros", "lies", {{"size", IntArgument({2})}}, {-1});
  Add("select", "none", {{"self", TensorArgument({"one"})}, {"index", IntArgument({kHuge})}}, {});
  Add("index", "outside", {{"self", TensorArgument({"c_table"})}, {"indices", TensorArgument({"one"})}}, {1, 5});
  EXPECT_THAT(ErrorOf("huge"), HasSubstr("a constant of more than 16777216 elements"));
  EXPECT_THAT(ErrorOf("copy"), HasSubstr("more than 16777216 elements"));
  EXPECT_THAT(ErrorOf("wide"), HasSubstr("more than 16777216 elements"));
  EXPECT_THAT(ErrorOf("wider"), HasSubstr("its shapes do not fit"));
  EXPECT_THAT(ErrorOf("far"), HasSubstr("not of the type and shape that the program says"));
  EXPECT_THAT(ErrorOf("lies"), HasSubstr("an extent that is not fixed"));
  EXPECT_THAT(ErrorOf("none"), HasSubstr("takes what its input does not have"));
  EXPECT_THAT(ErrorOf("outside"), HasSubstr("its indices are of float32"));
}

// As PyTorch, which takes both for masks.
TEST_F(ByHandTest, BytesAreNoIndices) {
  for (const DType dtype : {DType::kUInt8, DType::kBool}) {
    const std::string mask = ToString(dtype), result = absl::StrCat("of_", mask);
    Add("ones", mask, {{"size", IntArgument({6})}}, {6}, dtype);
    Add("index", result, {{"self", TensorArgument({"c_table"})}, {"indices", TensorArgument({mask})}}, {6, 5});
    EXPECT_THAT(ErrorOf(result), AllOf(HasSubstr(absl::StrCat("its indices are of ", mask)), HasSubstr("of int64")));
  }
  Add("ones", "row", {{"size", IntArgument({6})}}, {6}, DType::kInt32);
  Add("index", "rows", {{"self", TensorArgument({"c_table"})}, {"indices", TensorArgument({"row"})}}, {6, 5});
  EXPECT_EQ(ErrorOf("rows"), "");
}

// Would take minutes if each pass over the program found one more value.
TEST_F(ByHandTest, ProgramsInReverseOrderTakeNoLonger) {
  for (int i = 0; i < 20000; ++i) {
    const std::string next = i == 19999 ? "x" : absl::StrCat("v", i + 1);
    Add("view", absl::StrCat("v", i), {{"self", TensorArgument({next})}}, {2, 3});
    Add("add", absl::StrCat("w", i), {{"self", TensorArgument({i == 19999 ? "x" : absl::StrCat("w", i + 1)})}}, {2, 3});
  }
  const ConstantEvaluator constants(*archive_, graph_);
  EXPECT_FALSE(constants.IsConstant("v0"));
  EXPECT_FALSE(constants.IsConstant("w0"));
}

TEST_F(ByHandTest, ManyConstantsAreBoundedTogether) {
  for (int i = 0; i < 10; ++i) AddZeros(absl::StrCat("z", i), {100});
  EXPECT_EQ(ErrorOf("z9"), "");
  EXPECT_EQ(ErrorOf("z4", {100, 4040, 100, 100000}), "");
  EXPECT_THAT(ErrorOf("z5", {100, 4040, 100, 100000}), HasSubstr("more than 505 elements together"));
  EXPECT_THAT(ErrorOf("z5", {100, 40000, 5, 100000}), HasSubstr("more than 5 operators compute"));
  EXPECT_THAT(ErrorOf("z5", {100, 40000, 100, 1300}), HasSubstr("more than 1300 steps to compute"));
}

TEST(ConstantTensorTest, RoundsToTheNearestValueOfAType) {
  EXPECT_EQ(RoundedTo(DType::kFloat32, 0.1), 0.1f);
  EXPECT_EQ(RoundedTo(DType::kBFloat16, 1.00390625), 1.0);  // halfway, to even
  EXPECT_EQ(RoundedTo(DType::kBFloat16, 1.01171875), 1.015625);
  EXPECT_EQ(RoundedTo(DType::kFloat16, 2049), 2048);
  EXPECT_EQ(RoundedTo(DType::kFloat16, 65520), std::numeric_limits<double>::infinity());
  EXPECT_EQ(RoundedTo(DType::kFloat16, std::ldexp(3, -25)), std::ldexp(1, -23));
  EXPECT_TRUE(std::isnan(RoundedTo(DType::kBFloat16, NAN)));
  EXPECT_EQ(WrappedTo(DType::kInt32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(Truncated(1e30), std::numeric_limits<int64_t>::min());
  // Every float16 as bytes is itself again.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = Float16Value(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    const std::string bytes = ConstantTensor{DType::kFloat64, {1}, {value}, {}}.Bytes(DType::kFloat16);
    uint16_t again;
    memcpy(&again, bytes.data(), sizeof(again));
    ASSERT_EQ(again, bits);
  }
}

}  // namespace
}  // namespace adjoin
