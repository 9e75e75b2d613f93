#include "primitives/comm/local_memory.h"

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
std::vector<T> Combine(ReduceOp op, DType dtype, std::vector<T> from, std::vector<T> onto) {
  HostMemory memory;
  const Rows rows = {1, static_cast<int64_t>(onto.size()), 0, 0};
  EXPECT_TRUE(memory.Combine(op, dtype, from.data(), onto.data(), onto.data(), rows).ok());
  return onto;
}

template <typename T>
std::vector<T> Add(DType dtype, std::vector<T> from, std::vector<T> onto) {
  return Combine<T>(ReduceOp::kSum, dtype, std::move(from), std::move(onto));
}

TEST(LocalMemoryTest, SumsEveryType) {
  EXPECT_EQ(Add<double>(DType::kFloat64, {1, 2.5, 3}, {10, 20, 30}), (std::vector<double>{11, 22.5, 33}));
  EXPECT_EQ(Add<float>(DType::kFloat32, {1, 2.5f}, {10, 20}), (std::vector<float>{11, 22.5f}));
  using C64 = std::complex<float>;
  EXPECT_EQ(Add<C64>(DType::kComplex64, {{1, 2}, {3, 4}}, {{10, 20}, {30, 40}}),
            (std::vector<C64>{{11, 22}, {33, 44}}));
  using C128 = std::complex<double>;
  EXPECT_EQ(Add<C128>(DType::kComplex128, {{1, 2}}, {{10, 20}}), (std::vector<C128>{{11, 22}}));
  EXPECT_EQ(Add<int32_t>(DType::kInt32, {1, -2}, {10, 20}), (std::vector<int32_t>{11, 18}));
  EXPECT_EQ(Add<uint8_t>(DType::kUInt8, {200, 1}, {100, 2}), (std::vector<uint8_t>{44, 3}));
  EXPECT_EQ(Add<uint8_t>(DType::kBool, {1, 0, 1}, {1, 0, 0}), (std::vector<uint8_t>{1, 0, 1}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Add<int64_t>(DType::kInt64, {1, -2}, {most, 20}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 18}));
}

TEST(LocalMemoryTest, TakesMaximumAndMinimumOfEveryOrderedType) {
  constexpr ReduceOp kMax = ReduceOp::kMax, kMin = ReduceOp::kMin;
  EXPECT_EQ(Combine<double>(kMax, DType::kFloat64, {1, -2.5}, {-10, 20}), (std::vector<double>{1, 20}));
  EXPECT_EQ(Combine<float>(kMin, DType::kFloat32, {1, -2.5f}, {-10, 20}), (std::vector<float>{-10, -2.5f}));
  EXPECT_EQ(Combine<int64_t>(kMin, DType::kInt64, {-1, 2}, {1, 20}), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(Combine<int32_t>(kMax, DType::kInt32, {-1, 2}, {-5, 20}), (std::vector<int32_t>{-1, 20}));
  EXPECT_EQ(Combine<uint8_t>(kMax, DType::kUInt8, {200, 1}, {100, 2}), (std::vector<uint8_t>{200, 2}));
  EXPECT_EQ(Combine<uint8_t>(kMin, DType::kBool, {1, 0, 1}, {1, 1, 0}), (std::vector<uint8_t>{1, 0, 0}));
  const uint16_t one = BFloat16FromFloat(1), minus = BFloat16FromFloat(-2);
  EXPECT_EQ(Combine<uint16_t>(kMax, DType::kBFloat16, {one, minus}, {minus, one}), (std::vector<uint16_t>{one, one}));
  const uint16_t half = Float16FromFloat(0.5f), third = Float16FromFloat(-3);
  EXPECT_EQ(Combine<uint16_t>(kMin, DType::kFloat16, {half, third}, {third, half}),
            (std::vector<uint16_t>{third, third}));
  std::complex<float> a, b;
  EXPECT_EQ(HostMemory().Combine(kMax, DType::kComplex64, &a, &b, &b, {1, 1, 0, 0}).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(LocalMemoryTest, KeepsNans) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum}) {
    for (const double value : Combine<double>(op, DType::kFloat64, {nan, 1, nan}, {1, nan, nan})) {
      EXPECT_TRUE(value != value);
    }
  }
}

TEST(LocalMemoryTest, HandlesRowsWithStrides) {
  std::vector<double> from = {1, 2, 3, 4, 5, 6};
  std::vector<double> onto(8, 100);
  HostMemory memory;
  ASSERT_TRUE(
      memory.Combine(ReduceOp::kSum, DType::kFloat64, from.data(), onto.data() + 1, onto.data() + 1, {2, 2, 3, 4})
          .ok());
  EXPECT_EQ(onto, (std::vector<double>{100, 101, 102, 100, 100, 104, 105, 100}));
}

TEST(LocalMemoryTest, WritesTheResultToOtherMemory) {
  const std::vector<float> from = {1, 2, 3}, with = {10, 20, 30};
  std::vector<float> onto(3, -1);
  HostMemory memory;
  ASSERT_TRUE(
      memory.Combine(ReduceOp::kSum, DType::kFloat32, from.data(), with.data(), onto.data(), {1, 3, 0, 0}).ok());
  EXPECT_EQ(onto, (std::vector<float>{11, 22, 33}));
}

bool Same(float a, float b) { return (a != a && b != b) || BitsOfFloat(a) == BitsOfFloat(b); }

TEST(HalfFloatTest, ReadsEveryValueAsLibTorchDoes) {
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
