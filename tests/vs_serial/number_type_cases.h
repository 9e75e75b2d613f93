// A small job around a layer of each kind, for tests that walk all of them.
//
//   for (const LayerCase& c : LayerCases()) PlanOf(JobTextOf(c, "bfloat16"), {{"data", c.inputs[0].shape[0]}});
#ifndef ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_
#define ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace adjoin {

struct LayerCaseInput {
  std::vector<int64_t> shape;
  std::vector<int64_t> partition;  // on two ranks
  int64_t below = 0;               // of indices; 0: normal numbers
  bool positive = false;           // numbers from 1/2 on
};

struct LayerCase {
  std::string kind;     // the field of Layer.op: "pool"
  std::string variant;  // which of them, for people: "max, 3 dims"; empty: there is but one
  std::string op;       // "pool { mode: \"max\" window { kernel: 2 } }"
  std::vector<LayerCaseInput> inputs;
  // In bfloat16 each number of the result, or of the inputs' gradients, is that of float32, rounded once.
  bool float32_forward = false, float32_backward = false;
};

// At least one of every kind; of activations all functions.
std::vector<LayerCase> LayerCases();

// A training job on two ranks whose first layer, "y", is the case's. It reads the fields "x", "x1", ... Nothing reads
// it: the job's loss is of another layer, "other", which reads the field "side" [batch, 1]; its target "wanted" is
// [batch, 2].
std::string JobTextOf(const LayerCase& of, const std::string& compute);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_CASES_H_
