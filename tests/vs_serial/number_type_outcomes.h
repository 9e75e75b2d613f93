// What is seen when a layer or a loss runs on ranks in a number type, next to serial LibTorch in float64.
//
//   Outcome outcome;
//   const bool once = CompareParts("y", parts, layout, whole, type.tolerance, outcome.differences);
#ifndef ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_OUTCOMES_H_
#define ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_OUTCOMES_H_

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "proto/plan.pb.h"

namespace adjoin {

struct TypeOfJob {
  const char* name;
  at::ScalarType scalar;
  double tolerance;  // for sums of a few dozen numbers of about one size, relative to the largest of them
};
inline constexpr TypeOfJob kTypesOfJobs[] = {  //
    {"float64", at::kDouble, 1e-12},
    {"float32", at::kFloat, 4e-6},
    {"bfloat16", at::kBFloat16, 1.0 / 64}};

// What is said of a case in one type: "=", "float32", "no", "refused", or "" where there is nothing.
struct OutcomeCells {
  std::string forward, backward, second;
};

struct Outcome {
  std::map<std::string, OutcomeCells> of_type;
  std::string differences;  // "" where all is as it should be
};

// Adds to `differences` where the ranks' parts are further from the whole than `tolerance`. Returns whether each
// element is the whole's, rounded once to bfloat16.
bool CompareParts(const std::string& what, const std::vector<at::Tensor>& parts, const LayoutPlan& layout,
                  const at::Tensor& whole, double tolerance, std::string& differences);

// The page docs/number-types.md, of what is said of all layers and losses.
struct OutcomeRow {
  std::string kind, variant;
  Outcome outcome;
};
std::string NumberTypesPage(const std::vector<OutcomeRow>& layers, const std::vector<OutcomeRow>& losses);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_NUMBER_TYPE_OUTCOMES_H_
