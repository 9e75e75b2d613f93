// What a layer loses where it computes in float32 or bfloat16, next to what serial LibTorch loses.
//
//   const RoundedStep step = {job, "bfloat16", x, cotangent, parameters, serial};
//   Errors ours = *ErrorsOnRanks(step);       // {{"y", 0.003}, {"x", 0.002}, {"y.weight", 0.001}}
//   Errors theirs = SerialErrors(step);
#ifndef ADJOIN_TESTS_VS_SERIAL_ROUNDED_COMPARISON_H_
#define ADJOIN_TESTS_VS_SERIAL_ROUNDED_COMPARISON_H_

#include <functional>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

struct RoundedStep {
  JobParts job;             // reads the field "x"; its last layer is called "y"
  std::string compute;      // "float32" or "bfloat16"; parameters are float32
  at::Tensor x, cotangent;  // rounded to the type before anything else
  Tensors parameters;       // the same
  std::function<at::Tensor(const at::Tensor& x, const Tensors& parameters)> serial;  // in its arguments' type
};

// The largest distance from serial float64 of "y", of "x"'s gradient and of each parameter's gradient, relative to the
// largest element of what it should be.
using Errors = std::map<std::string, double>;

// The errors of the step on all ranks. Errors: as PlanOf and RunStep.
absl::StatusOr<Errors> ErrorsOnRanks(const RoundedStep& step);

// The errors of `step.serial` in the step's type.
Errors SerialErrors(const RoundedStep& step);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_ROUNDED_COMPARISON_H_
