// Conditions on the values of a step that must not hold, such as an index that a table does not have.
//
//   // In a layer's Forward:
//   const at::Tensor bad = (x < 0) | (x >= rows);
//   checks().Refuse(bad.any(), [=] { return absl::OutOfRangeError(...); });      // may read `bad`
//   // After the step, with all else that the host wants to know of it:
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> numbers, checks.Read({loss}));
//
// On the CPU a condition is looked at in its place. On a device that would make the host wait in the middle of the
// step, so conditions are kept, and read once with the step's numbers: until then the layer goes on with values that do
// no harm. One thread.
#ifndef ADJOIN_LAYERS_STEP_CHECKS_H_
#define ADJOIN_LAYERS_STEP_CHECKS_H_

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

class StepChecks {
 public:
  using Error = std::function<absl::Status()>;

  // `bad`: one bool. Throws StatusException with the error where it is true and on the CPU. A second run (Recompute)
  // adds none.
  void Refuse(const at::Tensor& bad, Error error);

  // Returns the elements of `numbers`, tensors of one device, as doubles, in one transfer with the conditions so far,
  // which are then forgotten. Waits for the device. Errors: that of the first condition that is true.
  absl::StatusOr<std::vector<double>> Read(const std::vector<at::Tensor>& numbers);

  // Forgets the conditions so far.
  void Clear() { kept_.clear(); }

 private:
  struct Check {
    at::Tensor bad;
    Error error;
  };
  std::vector<Check> kept_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_STEP_CHECKS_H_
