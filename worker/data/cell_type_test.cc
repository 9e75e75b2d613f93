#include "worker/data/cell_type.h"

#include <cmath>
#include <cstring>

#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "worker/data/encode_cells.h"

namespace adjoin {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> There(CellType type, const std::vector<double>& values) {
  std::vector<unsigned char> bytes(values.size() * static_cast<size_t>(SizeOf(type)));
  EncodeCells(type, values.data(), static_cast<int64_t>(values.size()), bytes.data());
  std::vector<double> back(values.size());
  DecodeCells(type, false, bytes.data(), static_cast<int64_t>(values.size()), back.data());
  return back;
}

TEST(CellTypeTest, IntegersAreEncodedRoundedAndLimited) {
  const std::vector<double> in = {-1e30, -3.5, -0.4, 0.5, 1.5, 254.7, 1e30, kInfinity, -kInfinity, std::nan("")};
  EXPECT_EQ(There(CellType::kUInt8, in), (std::vector<double>{0, 0, 0, 0, 2, 255, 255, 255, 0, 0}));
  EXPECT_EQ(There(CellType::kInt8, in), (std::vector<double>{-128, -4, 0, 0, 2, 127, 127, 127, -128, 0}));
  const double most = std::ldexp(1, 63);
  EXPECT_EQ(There(CellType::kInt64, {-1e30, 1e30, most - 1024}), (std::vector<double>{-most, most, most - 1024}));
  EXPECT_EQ(There(CellType::kUInt64, {-5, 1e30, 2 * most - 2048}), (std::vector<double>{0, 2 * most, 2 * most - 2048}));
}

TEST(CellTypeTest, DecodesAndEncodesEveryFloat16) {
  for (int code = 0; code < 1 << 16; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const unsigned char bytes[2] = {static_cast<unsigned char>(bits >> 8), static_cast<unsigned char>(bits & 0xff)};
    double value;
    DecodeCells(CellType::kFloat16, /*big_endian=*/true, bytes, 1, &value);
    const int exponent = bits >> 10 & 31;
    const double fraction = (bits & 1023) / 1024.0;
    double wanted = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    if (exponent == 31) wanted = fraction == 0 ? kInfinity : std::nan("");
    if (bits >> 15) wanted = -wanted;
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    ASSERT_EQ(value, wanted) << code;
    uint16_t back;
    EncodeCells(CellType::kFloat16, &value, 1, reinterpret_cast<unsigned char*>(&back));
    ASSERT_EQ(back, bits);
  }
}

TEST(CellTypeTest, Float16RoundsToTheNearestEven) {
  const double step = std::ldexp(1, -10);  // between 1 and 2
  EXPECT_EQ(
      There(CellType::kFloat16, {1 + step / 2, 1 + 3 * step / 2, 1 + step * 0.51, 65519, 65520, -65520, 2.9e-8, 3e-8}),
      (std::vector<double>{1, 1 + 2 * step, 1 + step, 65504, kInfinity, -kInfinity, 0, std::ldexp(1, -24)}));
}

TEST(CellTypeTest, DecodesBothByteOrders) {
  const unsigned char bytes[8] = {0x3f, 0x80, 0, 0, 0, 0, 0x80, 0x3f};
  double value;
  DecodeCells(CellType::kFloat32, true, bytes, 1, &value);
  EXPECT_EQ(value, 1);
  DecodeCells(CellType::kFloat32, false, bytes + 4, 1, &value);
  EXPECT_EQ(value, 1);
  DecodeCells(CellType::kInt16, true, bytes + 6, 1, &value);
  EXPECT_EQ(value, -32705);
  DecodeCells(CellType::kUInt64, true, bytes, 1, &value);
  EXPECT_EQ(value, static_cast<double>(0x3f8000000000803fULL));
}

}  // namespace
}  // namespace adjoin
