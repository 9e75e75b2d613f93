#include "worker/data/encode_cells.h"

#include <cmath>
#include <cstring>

#include <algorithm>
#include <limits>

namespace adjoin {
namespace {

// Rounds once, from the double.
uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (size >= 65520) return sign | 0x7c00;  // half a step above the largest, 65504
  int exponent = 0;
  std::frexp(size, &exponent);                    // size = f 2^exponent, 0.5 <= f < 1
  const int step = std::max(exponent - 11, -24);  // what the last bit is worth: 2^step
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, -step)));
  // Units from 1024 carry into the exponent's bits by themselves.
  return static_cast<uint16_t>(sign | (units + (int64_t{step} + 24) * 1024));
}

template <typename Number>
void EncodeAs(const double* in, int64_t count, unsigned char* out) {
  for (int64_t i = 0; i < count; ++i, out += sizeof(Number)) {
    Number number = 0;
    if constexpr (std::numeric_limits<Number>::is_integer) {
      const double value = std::nearbyint(in[i]);
      // The largest 64-bit number has no double of its own: compare with the power of two beyond it.
      const double beyond = std::ldexp(1.0, std::numeric_limits<Number>::digits);
      if (value >= beyond) {
        number = std::numeric_limits<Number>::max();
      } else if (value <= static_cast<double>(std::numeric_limits<Number>::min())) {
        number = std::numeric_limits<Number>::min();
      } else if (!std::isnan(value)) {
        number = static_cast<Number>(value);
      }
    } else {
      number = static_cast<Number>(in[i]);
    }
    std::memcpy(out, &number, sizeof(number));
  }
}

}  // namespace

void EncodeCells(CellType type, const double* in, int64_t count, unsigned char* out) {
  switch (type) {
    case CellType::kUInt8: return EncodeAs<uint8_t>(in, count, out);
    case CellType::kInt8: return EncodeAs<int8_t>(in, count, out);
    case CellType::kUInt16: return EncodeAs<uint16_t>(in, count, out);
    case CellType::kInt16: return EncodeAs<int16_t>(in, count, out);
    case CellType::kUInt32: return EncodeAs<uint32_t>(in, count, out);
    case CellType::kInt32: return EncodeAs<int32_t>(in, count, out);
    case CellType::kUInt64: return EncodeAs<uint64_t>(in, count, out);
    case CellType::kInt64: return EncodeAs<int64_t>(in, count, out);
    case CellType::kFloat16:
      for (int64_t i = 0; i < count; ++i) {
        const uint16_t bits = ToHalf(in[i]);
        std::memcpy(out + 2 * i, &bits, 2);
      }
      return;
    case CellType::kFloat32: return EncodeAs<float>(in, count, out);
    case CellType::kFloat64: return EncodeAs<double>(in, count, out);
  }
}

}  // namespace adjoin
