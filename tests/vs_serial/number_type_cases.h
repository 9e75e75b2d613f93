// A small job around a layer of each kind, for tests that walk all of them.
//
//   for (const NumberTypeCase& c : NumberTypeCases()) PlanOf(JobTextOf(c, "bfloat16"), {{"data",
//   c.inputs[0].shape[0]}});
#ifndef ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_
#define ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "layers/pointwise/activation_functions.h"

namespace adjoin {

struct NumberTypeInput {
  std::vector<int64_t> shape;
  std::vector<int64_t> partition;  // on two ranks
  int64_t below = 0;               // of indices; 0: normal numbers
  ActivationDomain domain = ActivationDomain::kAll;
};

struct NumberTypeCase {
  std::string kind;     // the field of Layer.op: "pool"
  std::string variant;  // which of them, for people: "max, 3 dims"; empty: there is but one
  std::string op;       // "pool { mode: \"max\" window { kernel: 2 } }"
  std::vector<NumberTypeInput> inputs;
  // In bfloat16 each number of the result, or of the inputs' gradients, is that of float32, rounded once.
  bool float32_forward = false, float32_backward = false;
};

// At least one of every kind; of activations all functions.
std::vector<NumberTypeCase> NumberTypeCases();

// A training job on two ranks whose first layer, "y", is the case's. It reads the fields "x", "x1", ... Nothing reads
// it: the job's loss is of another layer, "other", which reads the field "side" [batch, 1]; its target "wanted" is
// [batch, 2].
std::string JobTextOf(const NumberTypeCase& of, const std::string& compute);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_
