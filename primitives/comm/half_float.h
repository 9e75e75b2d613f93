// bfloat16 and float16 as bit patterns, to and from float, rounded to nearest with ties to even.
//
//   uint16_t bits = BFloat16FromFloat(1.5f);
//   float value = FloatFromBFloat16(bits);
#ifndef ADJOIN_PRIMITIVES_COMM_HALF_FLOAT_H_
#define ADJOIN_PRIMITIVES_COMM_HALF_FLOAT_H_

#include <cstdint>
#include <cstring>

namespace adjoin {

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float FloatFromBFloat16(uint16_t bits) { return FloatOfBits(static_cast<uint32_t>(bits) << 16); }

inline uint16_t BFloat16FromFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  // A NaN whose payload is in the low half alone would round to infinity.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float FloatFromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return FloatOfBits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // A float whose exponent is 112 too small, put right by an exact product; covers subnormals as well.
  const float scaled = FloatOfBits(magnitude << 13) * FloatOfBits((254u - 15u) << 23);
  return FloatOfBits(sign | BitsOfFloat(scaled));
}

inline uint16_t Float16FromFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below the smallest normal number, 2^-14: adding 0.5 leaves the result, rounded by the hardware, in the low bits.
    return sign | static_cast<uint16_t>(BitsOfFloat(FloatOfBits(magnitude) + 0.5f) - 0x3f000000u);
  }
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13);
}

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_HALF_FLOAT_H_
