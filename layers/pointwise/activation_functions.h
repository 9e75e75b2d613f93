// The element-wise functions that a job may name, with their arguments. Rule and local kernel both have them from here.
//
//   Activation spec;
//   spec.set_fn("softplus");
//   spec.add_arg(2);
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<double> arguments, ArgumentsOf(spec));   // {2, 20}
#ifndef ADJOIN_LAYERS_POINTWISE_ACTIVATION_FUNCTIONS_H_
#define ADJOIN_LAYERS_POINTWISE_ACTIVATION_FUNCTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace adjoin {

struct ActivationArgument {
  const char* name;                 // as in torch.nn
  std::optional<double> otherwise;  // absent: it must be written
};

struct ActivationFunction {
  const char* name;
  std::vector<ActivationArgument> arguments = {};  // in torch.nn's order
  // What arguments there must be, and whether these are such; none: any finite ones.
  const char* range = nullptr;
  bool (*in_range)(const std::vector<double>& arguments) = nullptr;
};

// In the order of their names.
const std::vector<ActivationFunction>& ActivationFunctions();

// Where a function has a finite value and finite derivatives, its ends left out.
enum class ActivationDomain { kAll, kPositive, kAboveOne, kWithinOne, kFromZeroToOne };

// A domain of the function that `name` is, for those who choose inputs; wider ones may exist (log1p above -1).
ActivationDomain DomainOf(const std::string& name);

// All arguments of `spec`, those that are absent as torch.nn has them.
// Errors: kInvalidArgument, at fields of Activation (a function that is missing or not known, too few or too many
// arguments, one out of range).
absl::StatusOr<std::vector<double>> ArgumentsOf(const Activation& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POINTWISE_ACTIVATION_FUNCTIONS_H_
