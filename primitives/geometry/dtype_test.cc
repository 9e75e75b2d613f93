#include "primitives/geometry/dtype.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(DTypeTest, NamesAndSizes) {
  const struct {
    DType dtype;
    const char* name;
    int64_t bytes;
    bool floating;
  } cases[] = {{DType::kFloat64, "float64", 8, true},     {DType::kFloat32, "float32", 4, true},
               {DType::kBFloat16, "bfloat16", 2, true},   {DType::kFloat16, "float16", 2, true},
               {DType::kComplex64, "complex64", 8, true}, {DType::kComplex128, "complex128", 16, true},
               {DType::kInt64, "int64", 8, false},        {DType::kInt32, "int32", 4, false},
               {DType::kUInt8, "uint8", 1, false},        {DType::kBool, "bool", 1, false}};
  for (const auto& c : cases) {
    EXPECT_EQ(ToString(c.dtype), c.name);
    EXPECT_EQ(SizeOf(c.dtype), c.bytes) << c.name;
    EXPECT_EQ(IsFloatingPoint(c.dtype), c.floating) << c.name;
    ASSERT_TRUE(ParseDType(c.name).ok());
    EXPECT_EQ(*ParseDType(c.name), c.dtype);
  }
}

TEST(DTypeTest, RefusesAnUnknownNameAndListsTheKnownOnes) {
  const absl::Status status = ParseDType("float").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"float\""), absl::string_view::npos);
  EXPECT_NE(status.message().find("bfloat16"), absl::string_view::npos);
}

}  // namespace
}  // namespace adjoin
