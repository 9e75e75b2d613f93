#include "primitives/comm/local_memory.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/comm/half_float.h"

namespace adjoin {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and enough for any vector instruction

struct Sum {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};

// `a` where it is NaN, so that the first one met stays; else the comparison with a NaN `b` is false and gives `b`.
struct Max {
  template <typename T>
  static T Of(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

struct Min {
  template <typename T>
  static T Of(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

template <typename Op>
struct BFloat16 {
  template <typename T>
  static T Of(T a, T b) {
    return BFloat16FromFloat(Op::Of(FloatFromBFloat16(a), FloatFromBFloat16(b)));
  }
};

template <typename Op>
struct Float16 {
  template <typename T>
  static T Of(T a, T b) {
    return Float16FromFloat(Op::Of(FloatFromFloat16(a), FloatFromFloat16(b)));
  }
};

struct Or {
  template <typename T>
  static T Of(T a, T b) {
    return (a | b) != 0;
  }
};

// `scalars` per element: 2 for complex numbers.
template <typename T, typename Op>
absl::Status Rowwise(const void* from, const void* with, void* onto, const Rows& rows, int64_t scalars = 1) {
  const int64_t n = rows.row_elements * scalars;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const T* a = static_cast<const T*>(from) + row * rows.from_stride * scalars;
    const T* b = static_cast<const T*>(with) + row * rows.onto_stride * scalars;
    T* c = static_cast<T*>(onto) + row * rows.onto_stride * scalars;
    // a and b are each c or apart from it: no element depends on another.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (int64_t i = 0; i < n; ++i) c[i] = Op::Of(b[i], a[i]);
  }
  return absl::OkStatus();
}

template <typename Op>
absl::Status CombineRows(DType dtype, const void* from, const void* with, void* onto, const Rows& rows) {
  constexpr bool kSums = std::is_same_v<Op, Sum>;
  // Sums are unsigned, since signed overflow is undefined.
  using Int64 = std::conditional_t<kSums, uint64_t, int64_t>;
  using Int32 = std::conditional_t<kSums, uint32_t, int32_t>;
  using Bool = std::conditional_t<kSums, Or, Op>;
  switch (dtype) {
    case DType::kFloat64: return Rowwise<double, Op>(from, with, onto, rows);
    case DType::kFloat32: return Rowwise<float, Op>(from, with, onto, rows);
    case DType::kBFloat16: return Rowwise<uint16_t, BFloat16<Op>>(from, with, onto, rows);
    case DType::kFloat16: return Rowwise<uint16_t, Float16<Op>>(from, with, onto, rows);
    case DType::kComplex64:
      if constexpr (kSums) return Rowwise<float, Op>(from, with, onto, rows, 2);
      break;
    case DType::kComplex128:
      if constexpr (kSums) return Rowwise<double, Op>(from, with, onto, rows, 2);
      break;
    case DType::kInt64: return Rowwise<Int64, Op>(from, with, onto, rows);
    case DType::kInt32: return Rowwise<Int32, Op>(from, with, onto, rows);
    case DType::kUInt8: return Rowwise<uint8_t, Op>(from, with, onto, rows);
    case DType::kBool: return Rowwise<uint8_t, Bool>(from, with, onto, rows);
  }
  return absl::UnimplementedError(absl::StrCat(ToString(dtype), " has no order, and so no maximum or minimum"));
}

template <int kBytes>
void CopyElements(const char* from, char* to, const Rows& rows) {
  for (int64_t row = 0; row < rows.rows; ++row) {
    std::memcpy(to + row * rows.onto_stride * kBytes, from + row * rows.from_stride * kBytes, kBytes);
  }
}

}  // namespace

absl::Status LocalMemory::Move(std::optional<ReduceOp> op, DType dtype, const void* from, void* onto,
                               const Cells& cells) {
  const int64_t element_bytes = SizeOf(dtype);
  Rows rows{1, cells.row_elements, 0, 0};
  if (!cells.loops.empty()) {
    rows = {cells.loops[0].count, cells.row_elements, cells.loops[0].from_stride, cells.loops[0].onto_stride};
  }
  absl::InlinedVector<int64_t, 8> at(cells.loops.size(), 0);
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(onto);
  while (true) {
    ADJOIN_RETURN_IF_ERROR(op.has_value() ? Combine(*op, dtype, source, target, target, rows)
                                          : Copy(element_bytes, source, target, rows));
    std::size_t i = 1;
    for (; i < cells.loops.size(); ++i) {
      const CellLoop& loop = cells.loops[i];
      source += loop.from_stride * element_bytes;
      target += loop.onto_stride * element_bytes;
      if (++at[i] < loop.count) break;
      source -= loop.from_stride * loop.count * element_bytes;
      target -= loop.onto_stride * loop.count * element_bytes;
      at[i] = 0;
    }
    if (i >= cells.loops.size()) return absl::OkStatus();
  }
}

absl::StatusOr<Buffer> HostMemory::Allocate(int64_t bytes) {
  Buffer buffer;
  buffer.bytes = static_cast<std::size_t>(bytes);
  if (bytes == 0) return buffer;
  buffer.data = ::operator new(buffer.bytes, std::align_val_t(kAlignment), std::nothrow);
  if (buffer.data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  buffer.keepalive =
      std::shared_ptr<void>(buffer.data, [](void* data) { ::operator delete(data, std::align_val_t(kAlignment)); });
  return buffer;
}

absl::Status HostMemory::Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) {
  const char* source = static_cast<const char*>(from);
  char* target = static_cast<char*>(onto);
  if (rows.row_elements == 1) {  // columns: a call of memcpy for each element would cost more than the copying
    switch (element_bytes) {
      case 1: CopyElements<1>(source, target, rows); return absl::OkStatus();
      case 2: CopyElements<2>(source, target, rows); return absl::OkStatus();
      case 4: CopyElements<4>(source, target, rows); return absl::OkStatus();
      case 8: CopyElements<8>(source, target, rows); return absl::OkStatus();
      case 16: CopyElements<16>(source, target, rows); return absl::OkStatus();
      default: break;
    }
  }
  const int64_t from_stride = rows.from_stride * element_bytes;
  const int64_t onto_stride = rows.onto_stride * element_bytes;
  const std::size_t bytes = static_cast<std::size_t>(rows.row_elements * element_bytes);
  if (bytes == 0) return absl::OkStatus();
  for (int64_t row = 0; row < rows.rows; ++row)
    std::memcpy(target + row * onto_stride, source + row * from_stride, bytes);
  return absl::OkStatus();
}

absl::Status HostMemory::Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                                 const Rows& rows) {
  switch (op) {
    case ReduceOp::kSum: return CombineRows<Sum>(dtype, from, with, onto, rows);
    case ReduceOp::kMax: return CombineRows<Max>(dtype, from, with, onto, rows);
    case ReduceOp::kMin: return CombineRows<Min>(dtype, from, with, onto, rows);
  }
  return absl::InternalError("no such reduction");
}

}  // namespace adjoin
