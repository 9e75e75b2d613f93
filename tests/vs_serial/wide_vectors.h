// Whether oneDNN computes with vectors of 16 numbers, which tests of memory depend on: its copies of tensors have
// channels in blocks of as many as a vector has.
#ifndef ADJOIN_TESTS_VS_SERIAL_WIDE_VECTORS_H_
#define ADJOIN_TESTS_VS_SERIAL_WIDE_VECTORS_H_

#include <cstdlib>

#include "absl/strings/match.h"

namespace adjoin {

inline bool ProcessorHasWideVectors() { return __builtin_cpu_supports("avx512f") != 0; }

// False also where the environment keeps oneDNN from what the processor has.
inline bool HasWideVectors() {
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");  // The name of an instruction set, or unset for all.
  return ProcessorHasWideVectors() && (most == nullptr || absl::StartsWith(most, "AVX512"));
}

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_WIDE_VECTORS_H_
