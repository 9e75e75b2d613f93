#include "primitives/comm/reducer.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "primitives/comm/half_float.h"

namespace adjoin {
namespace {

template <typename T>
struct Plus {
  static T Of(T a, T b) { return a + b; }
};

struct BFloat16Plus {
  static uint16_t Of(uint16_t a, uint16_t b) { return BFloat16FromFloat(FloatFromBFloat16(a) + FloatFromBFloat16(b)); }
};

struct Float16Plus {
  static uint16_t Of(uint16_t a, uint16_t b) { return Float16FromFloat(FloatFromFloat16(a) + FloatFromFloat16(b)); }
};

struct Or {
  static uint8_t Of(uint8_t a, uint8_t b) { return (a | b) != 0; }
};

// `scalars` per element: 2 for complex numbers.
template <typename T, typename Op = Plus<T>>
void AddRows(const void* from, void* onto, const Rows& rows, int64_t scalars = 1) {
  const int64_t n = rows.row_elements * scalars;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const T* __restrict a = static_cast<const T*>(from) + row * rows.from_stride * scalars;
    T* __restrict b = static_cast<T*>(onto) + row * rows.onto_stride * scalars;
    for (int64_t i = 0; i < n; ++i) b[i] = Op::Of(b[i], a[i]);
  }
}

}  // namespace

absl::Status HostReducer::Add(DType dtype, const void* from, void* onto, const Rows& rows) {
  switch (dtype) {
    case DType::kFloat64: AddRows<double>(from, onto, rows); return absl::OkStatus();
    case DType::kFloat32: AddRows<float>(from, onto, rows); return absl::OkStatus();
    case DType::kBFloat16: AddRows<uint16_t, BFloat16Plus>(from, onto, rows); return absl::OkStatus();
    case DType::kFloat16: AddRows<uint16_t, Float16Plus>(from, onto, rows); return absl::OkStatus();
    case DType::kComplex64: AddRows<float>(from, onto, rows, 2); return absl::OkStatus();
    case DType::kComplex128: AddRows<double>(from, onto, rows, 2); return absl::OkStatus();
    // Unsigned, since signed overflow is undefined.
    case DType::kInt64: AddRows<uint64_t>(from, onto, rows); return absl::OkStatus();
    case DType::kInt32: AddRows<uint32_t>(from, onto, rows); return absl::OkStatus();
    case DType::kUInt8: AddRows<uint8_t>(from, onto, rows); return absl::OkStatus();
    case DType::kBool: AddRows<uint8_t, Or>(from, onto, rows); return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("no addition for ", ToString(dtype)));
}

}  // namespace adjoin
