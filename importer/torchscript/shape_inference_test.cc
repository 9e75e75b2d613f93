// What PyTorch 1.13 returns for operators of a few tensors: types and extents.
#include "importer/torchscript/shape_inference.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "importer/graph/op_graph.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

using Arguments = std::map<std::string, OpArgument>;

OpArgument Tensors(const std::vector<std::string>& names) {
  OpArgument argument;
  argument.kind = OpArgument::Kind::kTensors;
  argument.tensors = names;
  return argument;
}

OpArgument Ints(const std::vector<int64_t>& numbers) {
  OpArgument argument;
  argument.kind = OpArgument::Kind::kInts;
  argument.ints = numbers;
  return argument;
}

OpArgument Flag(bool value) {
  OpArgument argument = Ints({value});
  argument.kind = OpArgument::Kind::kBool;
  return argument;
}

// Tensors of 2x3 by their types, "number" without dims, and a picture.
std::map<std::string, TensorInfo> Known() {
  std::map<std::string, TensorInfo> known = {{"number", {DType::kInt64, {}}},
                                             {"column", {DType::kFloat32, {2, 1}}},
                                             {"picture", {DType::kFloat32, {1, 1, 2, 2}}}};
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64,
                            DType::kInt32, DType::kUInt8, DType::kBool}) {
    known[ToString(dtype)] = {dtype, {2, 3}};
  }
  return known;
}

// "int64 [2, 3]" of each result, or the error.
std::string Infer(const std::string& target, const Arguments& arguments) {
  OpNode node;
  SetTarget(absl::StrCat("torch.ops.aten.", target), node);
  node.arguments = arguments;
  const Results results = InferResults(node, Known());
  if (!results.ok()) return std::string(results.status().message());
  std::vector<std::string> shown;
  for (const TensorInfo& info : *results) {
    shown.push_back(absl::StrCat(ToString(info.dtype), " ", ShownExtents(info.shape)));
  }
  return absl::StrJoin(shown, ", ");
}

TEST(ShapeInferenceTest, ReductionsCountWholeNumbersInInt64) {
  for (const char* op : {"cumsum", "sum"}) {
    const std::string extents = op == std::string("sum") ? " [2]" : " [2, 3]";
    for (const char* whole : {"bool", "uint8", "int32", "int64"}) {
      EXPECT_EQ(Infer(op, {{"self", Tensors({whole})}, {"dim", Ints({1})}}), absl::StrCat("int64", extents)) << whole;
    }
    for (const char* real : {"float16", "bfloat16", "float32", "float64"}) {
      EXPECT_EQ(Infer(op, {{"self", Tensors({real})}, {"dim", Ints({1})}}), absl::StrCat(real, extents));
    }
    const OpArgument to_float32 = Ints({6}), to_int32 = Ints({3});
    EXPECT_EQ(Infer(op, {{"self", Tensors({"bool"})}, {"dim", Ints({1})}, {"dtype", to_int32}}),
              absl::StrCat("int32", extents));
    EXPECT_EQ(Infer(op, {{"self", Tensors({"int64"})}, {"dim", Ints({1})}, {"dtype", to_float32}}),
              absl::StrCat("float32", extents));
  }
  EXPECT_EQ(Infer("cumsum_", {{"self", Tensors({"int32"})}, {"dim", Ints({1})}}), "int32 [2, 3]") << "in place";
}

TEST(ShapeInferenceTest, OtherReductionsKeepTheirTypes) {
  for (const char* type : {"bool", "uint8", "int32", "float32"}) {
    const Arguments over_rows = {{"self", Tensors({type})}, {"dim", Ints({1})}};
    EXPECT_EQ(Infer("amax", over_rows), absl::StrCat(type, " [2]"));
    EXPECT_EQ(Infer("max", over_rows), absl::StrCat(type, " [2], int64 [2]"));
    EXPECT_EQ(Infer("argmax", over_rows), "int64 [2]");
    for (const char* op : {"all", "any"}) {
      EXPECT_EQ(Infer(op, over_rows), type == std::string("uint8") ? "uint8 [2]" : "bool [2]");
    }
  }
  EXPECT_EQ(Infer("mean", {{"self", Tensors({"float32"})}, {"dim", Ints({1})}, {"keepdim", Flag(true)}}),
            "float32 [2, 1]");
  EXPECT_EQ(Infer("square", {{"self", Tensors({"bool"})}}), "int64 [2, 3]");
  EXPECT_EQ(Infer("square", {{"self", Tensors({"uint8"})}}), "uint8 [2, 3]");
}

TEST(ShapeInferenceTest, WhatIsPutTogetherHasTheTypeOfAll) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"bool", "int64"}, "int64"},        {{"int32", "uint8"}, "int32"},        {{"int64", "float32"}, "float32"},
      {{"float32", "float64"}, "float64"}, {{"float16", "bfloat16"}, "float32"}, {{"bool", "uint8", "bool"}, "uint8"},
      {{"float64", "float64"}, "float64"}};
  for (const auto& [names, type] : cases) {
    const std::string parts = absl::StrCat(names.size());
    EXPECT_EQ(Infer("stack", {{"tensors", Tensors(names)}, {"dim", Ints({0})}}),
              absl::StrCat(type, " [", parts, ", 2, 3]"));
    for (const char* op : {"cat", "concat", "concatenate"}) {
      EXPECT_EQ(Infer(op, {{"tensors", Tensors(names)}, {"dim", Ints({1})}}),
                absl::StrCat(type, " [2, ", 3 * names.size(), "]"));
    }
    if (names.size() != 2) continue;
    for (const char* op : {"max", "min", "maximum", "minimum"}) {
      EXPECT_EQ(Infer(op, {{"self", Tensors({names[0]})}, {"other", Tensors({names[1]})}}),
                absl::StrCat(type, " [2, 3]"));
      EXPECT_EQ(Infer(op, {{"self", Tensors({names[1]})}, {"other", Tensors({names[0]})}}),
                absl::StrCat(type, " [2, 3]"));
    }
  }
  // A tensor without dims counts for less.
  EXPECT_EQ(Infer("max", {{"self", Tensors({"uint8"})}, {"other", Tensors({"number"})}}), "uint8 [2, 3]");
  EXPECT_EQ(Infer("max", {{"self", Tensors({"bool"})}, {"other", Tensors({"number"})}}), "int64 [2, 3]");
}

TEST(ShapeInferenceTest, WindowsMayGoBeyondTheEndWithCeilMode) {
  const auto pool = [](int64_t kernel, int64_t stride, int64_t padding, bool ceil) {
    return Infer("max_pool2d", {{"self", Tensors({"picture"})},
                                {"kernel_size", Ints({kernel})},
                                {"stride", Ints({stride})},
                                {"padding", Ints({padding})},
                                {"ceil_mode", Flag(ceil)}});
  };
  EXPECT_EQ(pool(3, 2, 0, true), "float32 [1, 1, 1, 1]");
  EXPECT_EQ(pool(2, 2, 0, true), "float32 [1, 1, 1, 1]");
  EXPECT_EQ(pool(1, 2, 0, true), "float32 [1, 1, 1, 1]") << "the second window would begin beyond the end";
  EXPECT_EQ(pool(2, 2, 1, true), "float32 [1, 1, 2, 2]");
  EXPECT_EQ(pool(2, 3, 1, true), "float32 [1, 1, 1, 1]");
  EXPECT_EQ(pool(2, 1, 0, false), "float32 [1, 1, 1, 1]");
  EXPECT_EQ(pool(3, 2, 0, false), "its input has 2 cells where its window has 3");
  EXPECT_EQ(pool(4, 2, 0, true), "its input has 2 cells where its window has 4");
}

TEST(ShapeInferenceTest, BytesAndBoolsAreMasks) {
  for (const char* mask : {"uint8", "bool"}) {
    EXPECT_EQ(Infer("index", {{"self", Tensors({"float32"})}, {"indices", Tensors({mask})}}), "its indices are a mask");
  }
  EXPECT_EQ(Infer("index", {{"self", Tensors({"float32"})}, {"indices", Tensors({"int32"})}}), "float32 [2, 3, 3]");
}

}  // namespace
}  // namespace adjoin
