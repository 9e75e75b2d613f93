// The most bytes that a rank's tensors take in one training step: forward, backward, gradients of parameters.
//
//   ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, StepPeak(plan, {{"x", x}, {"t", t}}, transport));   // on every rank
#ifndef ADJOIN_TESTS_VS_SERIAL_STEP_PEAK_H_
#define ADJOIN_TESTS_VS_SERIAL_STEP_PEAK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "primitives/transport/transport.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {

// `whole`: the fields of the data, by name. As LibTorch's allocator counts on this thread, parameters left out.
absl::StatusOr<int64_t> StepPeak(const Plan& plan, const Tensors& whole, Transport& transport);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_STEP_PEAK_H_
