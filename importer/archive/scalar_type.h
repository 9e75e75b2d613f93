// The numbers by which exported programs, and traces, name element types.
#ifndef ADJOIN_IMPORTER_ARCHIVE_SCALAR_TYPE_H_
#define ADJOIN_IMPORTER_ARCHIVE_SCALAR_TYPE_H_

#include <cstdint>
#include <optional>

#include "primitives/geometry/dtype.h"

namespace adjoin {

// None for a type that is not supported. Source: ScalarType in torch/_export/serde/schema.py of PyTorch.
inline std::optional<DType> DTypeOfCode(uint64_t code) {
  switch (code) {
    case 1: return DType::kUInt8;
    case 4: return DType::kInt32;
    case 5: return DType::kInt64;
    case 6: return DType::kFloat16;
    case 7: return DType::kFloat32;
    case 8: return DType::kFloat64;
    case 12: return DType::kBool;
    case 13: return DType::kBFloat16;
    default: return std::nullopt;
  }
}

// Likewise of a trace. Source: c10/core/ScalarType.h of PyTorch.
inline std::optional<DType> DTypeOfScalarType(int64_t code) {
  switch (code) {
    case 0: return DType::kUInt8;
    case 3: return DType::kInt32;
    case 4: return DType::kInt64;
    case 5: return DType::kFloat16;
    case 6: return DType::kFloat32;
    case 7: return DType::kFloat64;
    case 11: return DType::kBool;
    case 15: return DType::kBFloat16;
    default: return std::nullopt;
  }
}

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_SCALAR_TYPE_H_
