#include "worker/data/cell_type.h"

#include <cmath>
#include <cstring>

#include <algorithm>
#include <limits>

namespace adjoin {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "cells are decoded for a little-endian machine");

template <typename Bits>
Bits Swapped(Bits bits) {
  if constexpr (sizeof(Bits) == 2) return __builtin_bswap16(bits);
  if constexpr (sizeof(Bits) == 4) return __builtin_bswap32(bits);
  if constexpr (sizeof(Bits) == 8) return __builtin_bswap64(bits);
  return bits;
}

template <typename Number, typename Bits>
void DecodeAs(bool big_endian, const unsigned char* in, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i, in += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, in, sizeof(bits));
    if (big_endian) bits = Swapped(bits);
    Number number;
    std::memcpy(&number, &bits, sizeof(number));
    out[i] = static_cast<double>(number);
  }
}

double FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double value;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

int64_t SizeOf(CellType type) {
  switch (type) {
    case CellType::kUInt8:
    case CellType::kInt8: return 1;
    case CellType::kUInt16:
    case CellType::kInt16:
    case CellType::kFloat16: return 2;
    case CellType::kUInt32:
    case CellType::kInt32:
    case CellType::kFloat32: return 4;
    case CellType::kUInt64:
    case CellType::kInt64:
    case CellType::kFloat64: return 8;
  }
  return 0;
}

std::string ToString(CellType type) {
  switch (type) {
    case CellType::kUInt8: return "uint8";
    case CellType::kInt8: return "int8";
    case CellType::kUInt16: return "uint16";
    case CellType::kInt16: return "int16";
    case CellType::kUInt32: return "uint32";
    case CellType::kInt32: return "int32";
    case CellType::kUInt64: return "uint64";
    case CellType::kInt64: return "int64";
    case CellType::kFloat16: return "float16";
    case CellType::kFloat32: return "float32";
    case CellType::kFloat64: return "float64";
  }
  return "unknown";
}

void DecodeCells(CellType type, bool big_endian, const unsigned char* in, int64_t count, double* out) {
  switch (type) {
    case CellType::kUInt8: std::copy(in, in + count, out); return;
    case CellType::kInt8: return DecodeAs<int8_t, uint8_t>(big_endian, in, count, out);
    case CellType::kUInt16: return DecodeAs<uint16_t, uint16_t>(big_endian, in, count, out);
    case CellType::kInt16: return DecodeAs<int16_t, uint16_t>(big_endian, in, count, out);
    case CellType::kUInt32: return DecodeAs<uint32_t, uint32_t>(big_endian, in, count, out);
    case CellType::kInt32: return DecodeAs<int32_t, uint32_t>(big_endian, in, count, out);
    case CellType::kUInt64: return DecodeAs<uint64_t, uint64_t>(big_endian, in, count, out);
    case CellType::kInt64: return DecodeAs<int64_t, uint64_t>(big_endian, in, count, out);
    case CellType::kFloat16:
      DecodeAs<uint16_t, uint16_t>(big_endian, in, count, out);
      for (int64_t i = 0; i < count; ++i) out[i] = FromHalf(static_cast<uint16_t>(out[i]));
      return;
    case CellType::kFloat32: return DecodeAs<float, uint32_t>(big_endian, in, count, out);
    case CellType::kFloat64: return DecodeAs<double, uint64_t>(big_endian, in, count, out);
  }
}

}  // namespace adjoin
