// The operations of a movement on the memory of a rank's tensors: allocate, copy rows, combine rows. Injected into
// the Communicator, so that memory other than the host's brings its own.
//
//   HostMemory memory;
//   ADJOIN_RETURN_IF_ERROR(memory.Combine(ReduceOp::kSum, DType::kFloat64, x, y, y, {.rows = 1, .row_elements = n}));
//
// One operation per element, rounded to the element's type (bfloat16 and float16: computed in float32, rounded to
// nearest, ties to even). Integers wrap; the sum of bools is "or", as in LibTorch. The maximum or minimum of a number
// and NaN is NaN, as in LibTorch; complex numbers have neither. Any thread.
#ifndef ADJOIN_PRIMITIVES_COMM_LOCAL_MEMORY_H_
#define ADJOIN_PRIMITIVES_COMM_LOCAL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

// Rows of contiguous elements; strides between rows in elements.
struct Rows {
  int64_t rows = 1;
  int64_t row_elements = 0;
  int64_t from_stride = 0;
  int64_t onto_stride = 0;
};

// Cells that are rows, rows of rows, and so on: loops around a row of contiguous elements, the innermost first.
struct CellLoop {
  int64_t count = 1;
  int64_t from_stride = 0;  // in elements
  int64_t onto_stride = 0;
};
struct Cells {
  int64_t row_elements = 0;
  absl::Span<const CellLoop> loops;
};

class LocalMemory {
 public:
  virtual ~LocalMemory() = default;

  // The kind of every buffer that the functions below take.
  virtual MemoryKind kind() const = 0;

  // The stream of a device on which Copy and Combine queue their work now; null where they are done when they return.
  virtual std::shared_ptr<DeviceStream> stream() const { return nullptr; }

  // Memory that lives as long as somebody keeps it, aligned for any element; no bytes give a null pointer.
  // Errors: kResourceExhausted.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes) = 0;

  // onto[r * onto_stride + i] = from[r * from_stride + i] for every row r and element i of `element_bytes`. The two do
  // not overlap.
  virtual absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) = 0;

  // The same with onto = with + from, max(with, from) or min(with, from); `with` has the strides of `onto` and may be
  // the same memory, and so may `from` of one row. All are aligned to the element (to its real part if it is complex).
  // Errors: kUnimplemented for a type that has no such operation.
  virtual absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                               const Rows& rows) = 0;

  // Copy, or with `op` Combine onto what is there, of cells in any number of dims: row after row, unless a device has
  // something better.
  virtual absl::Status Move(std::optional<ReduceOp> op, DType dtype, const void* from, void* onto, const Cells& cells);
};

// Host memory, every DType.
class HostMemory : public LocalMemory {
 public:
  MemoryKind kind() const override { return MemoryKind::kHost; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override;
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override;
  absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                       const Rows& rows) override;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_LOCAL_MEMORY_H_
