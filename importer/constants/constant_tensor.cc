#include "importer/constants/constant_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace adjoin {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The upper half of a float32, rounded.
uint16_t BFloat16Bits(double value) {
  const float single = static_cast<float>(value);
  if (std::isnan(single)) return 0x7fc0;
  const uint32_t bits = BitsOf(single);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double FromBFloat16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// float16 has 11 bits from 2^-14 on, and steps of 2^-24 below.
double ToFloat16(double value) {
  const double single = static_cast<float>(value);
  if (!std::isfinite(single) || single == 0) return single;
  int exponent = 0;
  std::frexp(single, &exponent);  // in [0.5, 1) * 2^exponent
  const int step = exponent < -13 ? -24 : exponent - 11;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(single, -step)), step);
  return std::fabs(rounded) > 65504 ? std::copysign(std::numeric_limits<double>::infinity(), rounded) : rounded;
}

uint16_t Float16Bits(double value) {
  const double rounded = ToFloat16(value);
  const uint16_t sign = std::signbit(rounded) ? 0x8000 : 0;
  if (std::isnan(rounded)) return 0x7e00;
  if (std::isinf(rounded)) return sign | 0x7c00;
  const double size = std::fabs(rounded);
  if (size < std::ldexp(1, -14)) return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);
  const int bits = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | bits);
}

template <typename T>
void Append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

double RoundedTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32: return static_cast<float>(value);
    case DType::kBFloat16: return FromBFloat16(BFloat16Bits(value));
    case DType::kFloat16: return ToFloat16(value);
    default: return value;
  }
}

double Float16Value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

int64_t WrappedTo(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kInt32: return static_cast<int32_t>(static_cast<uint32_t>(value));
    case DType::kUInt8: return static_cast<uint8_t>(value);
    case DType::kBool: return value != 0;
    default: return value;
  }
}

int64_t Truncated(double value) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t ConstantTensor::Elements() const {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

double ConstantTensor::At(int64_t i) const {
  const size_t at = static_cast<size_t>(i);
  return IsFloatingPoint(dtype) ? reals[at] : static_cast<double>(wholes[at]);
}

std::string ConstantTensor::Bytes(DType type) const {
  std::string bytes;
  const int64_t count = Elements();
  bytes.reserve(static_cast<size_t>(count * SizeOf(type)));
  const bool real = IsFloatingPoint(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    const double value = real ? reals[at] : static_cast<double>(wholes[at]);
    int64_t whole = 0;
    if (!IsFloatingPoint(type)) {
      // Every number but 0 is true, also one half.
      whole = type == DType::kBool ? value != 0 : WrappedTo(type, real ? Truncated(value) : wholes[at]);
    }
    switch (type) {
      case DType::kFloat64: Append(value, bytes); break;
      case DType::kFloat32: Append(static_cast<float>(value), bytes); break;
      case DType::kBFloat16: Append(BFloat16Bits(value), bytes); break;
      case DType::kFloat16: Append(Float16Bits(value), bytes); break;
      case DType::kInt64: Append(whole, bytes); break;
      case DType::kInt32: Append(static_cast<int32_t>(whole), bytes); break;
      default: Append(static_cast<uint8_t>(whole), bytes); break;
    }
  }
  return bytes;
}

}  // namespace adjoin
