// What the ranks have, part by part, against the serial model's whole tensors: the largest difference of everything,
// and the layer in which the first one arises.
//
//   ADJOIN_ASSIGN_OR_RETURN(Comparison comparison, Compare(plan, serial_steps, initial, ranks));
//   std::optional<Finding> first = FirstDeviation(plan, comparison, 1e-10);
//   first->layer;        // "conv2"
#ifndef ADJOIN_VERIFY_COMPARISON_H_
#define ADJOIN_VERIFY_COMPARISON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "proto/plan.pb.h"
#include "verify/partitioned_run.h"
#include "verify/serial_model.h"

namespace adjoin {

// The largest difference of one tensor over all cells, ranks and steps. Its scale is the largest |expected| of the
// tensor, or 1 if that is less; for gradients, or the largest of all gradients of the step, if that is less than 1; of
// a parameter's gradient at least the largest cotangent of its layer, of whose products it is a sum.
struct Difference {
  bool compared = false;
  double relative = 0;  // |found - expected| / the scale; infinite for NaN
  double found = 0;
  double expected = 0;
  int rank = -1;                  // -1: not of one rank
  std::vector<int64_t> position;  // global index
  int64_t step = 0;               // from 1
  std::string shape;              // where the shapes differ: how

  bool deviates(double tolerance) const { return compared && !(relative <= tolerance); }
};

// Compares the ranks' parts of a tensor, in order of rank, with the whole. The scale is the largest |whole|, or
// `least_scale` if that is less, or 1 if both are 0.
Difference CompareParts(const at::Tensor& whole, const Layout& layout, const std::vector<at::Tensor>& parts,
                        double least_scale);

struct LayerComparison {
  std::string name;
  std::string kind;
  Difference output;
  // The difference of the gradients of its output; not compared where the output is its input's very tensor, or needs
  // no gradient.
  Difference cotangent;
  std::map<std::string, Difference> gradients;  // of its parameters, by name, after GradientSync
  // After the optimizer's step: what it made of the rank's own gradients, against what LibTorch's makes of them. Of
  // buffers, against the serial model's.
  std::map<std::string, Difference> parameters;
};

struct Comparison {
  std::vector<LayerComparison> layers;  // in the plan's order
  Difference loss;
  // Layers by name whose output is the very tensor of another value.
  std::map<std::string, std::string> same_as;
};

// `initial`: the parameters before the first step. Errors: kInvalidArgument where the plan holds what is no layout.
absl::StatusOr<Comparison> Compare(const Plan& plan, const std::vector<SerialStep>& serial, const NamedTensors& initial,
                                   const std::vector<RankSteps>& ranks);

struct Finding {
  std::string layer;  // "conv2"; several by name where it may be any of them; "the loss"
  std::string what;  // "output", "gradient of its input, which is the output of pool1", "gradient of conv2.weight", ...
  Difference difference;
};

// In the order of computing: the first layer whose output deviates. If none does, the first in the order of the
// backward pass that makes a wrong gradient out of a right one. Then what the step made of parameters.
std::optional<Finding> FirstDeviation(const Plan& plan, const Comparison& comparison, double tolerance);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_COMPARISON_H_
