// What a layer makes of a batch, or of one of its micro-batches, at a step of the training: for layers that draw random
// numbers by place.
//
//   Tensor second = *OutputAt({/*step=*/5, /*first_sample=*/4}, plan, "train", x.narrow(0, 4, 4));
#ifndef ADJOIN_TESTS_VS_SERIAL_PLACED_OUTPUT_H_
#define ADJOIN_TESTS_VS_SERIAL_PLACED_OUTPUT_H_

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct StepAt {
  int64_t step = 0;
  int64_t first_sample = 0;
};

// What layer "y", the program's first, makes of the field "x", brought together from all ranks; of x's shape.
// Parameters are drawn from the plan's seed. Errors: kInternal where copies differ; else of whichever rank failed
// first.
absl::StatusOr<at::Tensor> OutputAt(StepAt at, const Plan& plan, const std::string& program, const at::Tensor& x);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_PLACED_OUTPUT_H_
