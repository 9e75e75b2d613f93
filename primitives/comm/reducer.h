// Adds elements in memory: what a movement needs besides copying. Injected into the Communicator, so that memory other
// than the host's brings its own arithmetic.
//
//   HostReducer reducer;
//   ADJOIN_RETURN_IF_ERROR(reducer.Add(DType::kFloat64, from, onto, {.rows = 1, .row_elements = n}));
//
// One addition per element, rounded to the element's type (bfloat16 and float16: computed in float32, rounded to
// nearest, ties to even). Integers wrap; bool is "or", as in LibTorch. Any thread.
#ifndef ADJOIN_PRIMITIVES_COMM_REDUCER_H_
#define ADJOIN_PRIMITIVES_COMM_REDUCER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

// Rows of contiguous elements; strides between rows in elements.
struct Rows {
  int64_t rows = 1;
  int64_t row_elements = 0;
  int64_t from_stride = 0;
  int64_t onto_stride = 0;
};

class Reducer {
 public:
  virtual ~Reducer() = default;

  // onto[r * onto_stride + i] += from[r * from_stride + i] for every row r and element i. The two do not overlap and
  // are aligned to the element (to its real part if it is complex).
  // Errors: kUnimplemented for a type that this reducer cannot add.
  virtual absl::Status Add(DType dtype, const void* from, void* onto, const Rows& rows) = 0;
};

// Host memory, every DType.
class HostReducer : public Reducer {
 public:
  absl::Status Add(DType dtype, const void* from, void* onto, const Rows& rows) override;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_REDUCER_H_
