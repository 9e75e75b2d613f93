// The adjoint test of every operator of a plan: <F x, y> = <x, F* y> over all ranks' cells, for independently drawn x
// and y (copies that differ included: only they show a wrong choice of replica).
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<AdjointResult> results, CheckAdjoints(plan, /*seed=*/1));
//   results[0].name;        // "conv1.x"
#ifndef ADJOIN_VERIFY_ADJOINT_CHECK_H_
#define ADJOIN_VERIFY_ADJOINT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

// The bound of |<F x, y> - <x, F* y>| / max(|F x| |y|, |x| |F* y|), in float64.
inline constexpr double kAdjointTolerance = 1e-12;

struct AdjointResult {
  std::string name;  // OperatorPlan.name
  double error = 0;
  bool linear = true;  // false for a maximum or minimum, which has no adjoint and is not tested
  bool holds() const { return error <= kAdjointTolerance; }  // false for NaN
};

// Checks the movements of the program that verify runs, and those of the parameters, in the plan's order; all in
// float64. Ranks are threads. Errors: what a movement fails with.
absl::StatusOr<std::vector<AdjointResult>> CheckAdjoints(const Plan& plan, uint64_t seed);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_ADJOINT_CHECK_H_
