// Every kind of loss in every number type, on two ranks next to serial LibTorch in float64: its value, its gradient,
// and the gradient of that.
//
//   for (const LossTypeCase& of : LossTypeCases()) EXPECT_EQ(LossOutcomeOf(of).differences, "");
#ifndef ADJOIN_TESTS_VS_SERIAL_LOSS_TYPES_H_
#define ADJOIN_TESTS_VS_SERIAL_LOSS_TYPES_H_

#include <string>
#include <vector>

#include "tests/vs_serial/number_type_outcomes.h"

namespace adjoin {

struct LossTypeCase {
  std::string kind;     // Loss.kind
  std::string variant;  // for people; empty: there is but one
  std::string options;  // of Loss
  enum class Prediction { kNormal, kPositive, kUnit, kLogarithms, kProbabilities } prediction = Prediction::kNormal;
  bool classes = false;  // the target is a class for each pixel
};

// At least one of every kind.
std::vector<LossTypeCase> LossTypeCases();

// Runs the case in all types, once in a program.
const Outcome& LossOutcomeOf(const LossTypeCase& of);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_LOSS_TYPES_H_
