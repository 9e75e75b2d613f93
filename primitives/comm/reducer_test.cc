#include "primitives/comm/reducer.h"

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "gtest/gtest.h"
#include "primitives/comm/half_float.h"

namespace adjoin {
namespace {

template <typename T>
std::vector<T> Add(DType dtype, std::vector<T> from, std::vector<T> onto) {
  HostReducer reducer;
  EXPECT_TRUE(reducer.Add(dtype, from.data(), onto.data(), {1, static_cast<int64_t>(onto.size()), 0, 0}).ok());
  return onto;
}

TEST(ReducerTest, EveryType) {
  EXPECT_EQ(Add<double>(DType::kFloat64, {1, 2.5, 3}, {10, 20, 30}), (std::vector<double>{11, 22.5, 33}));
  EXPECT_EQ(Add<float>(DType::kFloat32, {1, 2.5f}, {10, 20}), (std::vector<float>{11, 22.5f}));
  using C64 = std::complex<float>;
  EXPECT_EQ(Add<C64>(DType::kComplex64, {{1, 2}, {3, 4}}, {{10, 20}, {30, 40}}), (std::vector<C64>{{11, 22}, {33, 44}}));
  using C128 = std::complex<double>;
  EXPECT_EQ(Add<C128>(DType::kComplex128, {{1, 2}}, {{10, 20}}), (std::vector<C128>{{11, 22}}));
  EXPECT_EQ(Add<int32_t>(DType::kInt32, {1, -2}, {10, 20}), (std::vector<int32_t>{11, 18}));
  EXPECT_EQ(Add<uint8_t>(DType::kUInt8, {200, 1}, {100, 2}), (std::vector<uint8_t>{44, 3}));
  EXPECT_EQ(Add<uint8_t>(DType::kBool, {1, 0, 1}, {1, 0, 0}), (std::vector<uint8_t>{1, 0, 1}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Add<int64_t>(DType::kInt64, {1, -2}, {most, 20}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 18}));
}

TEST(ReducerTest, RowsWithStrides) {
  std::vector<double> from = {1, 2, 3, 4, 5, 6};
  std::vector<double> onto(8, 100);
  HostReducer reducer;
  ASSERT_TRUE(reducer.Add(DType::kFloat64, from.data(), onto.data() + 1, {2, 2, 3, 4}).ok());
  EXPECT_EQ(onto, (std::vector<double>{100, 101, 102, 100, 100, 104, 105, 100}));
}

bool Same(float a, float b) { return (a != a && b != b) || BitsOfFloat(a) == BitsOfFloat(b); }

TEST(HalfFloatTest, EveryValueAsLibTorchReadsIt) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    ASSERT_TRUE(Same(FloatFromBFloat16(half), c10::detail::f32_from_bits(half))) << bits;
    ASSERT_TRUE(Same(FloatFromFloat16(half), c10::detail::fp16_ieee_to_fp32_value(half))) << bits;
  }
}

TEST(HalfFloatTest, RoundsAsLibTorchDoes) {
  // Every pattern of sign, exponent and the bits around where rounding happens.
  for (uint32_t high = 0; high < 65536; ++high) {
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x0fffu, 0x1000u, 0x1001u, 0xf000u}) {
      const float value = FloatOfBits(high << 16 | low);
      if (value != value) {
        ASSERT_NE(FloatFromBFloat16(BFloat16FromFloat(value)), FloatFromBFloat16(BFloat16FromFloat(value)));
        ASSERT_NE(FloatFromFloat16(Float16FromFloat(value)), FloatFromFloat16(Float16FromFloat(value)));
        continue;
      }
      ASSERT_EQ(BFloat16FromFloat(value), c10::detail::round_to_nearest_even(value)) << value;
      ASSERT_EQ(Float16FromFloat(value), c10::detail::fp16_ieee_from_fp32_value(value)) << value;
    }
  }
}

}  // namespace
}  // namespace adjoin
