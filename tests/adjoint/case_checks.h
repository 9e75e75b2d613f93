// What must hold of a movement's results on all ranks together, by the truth that its case knows.
//
//   absl::Status values = ValuesMatch(c, fx_valid);           // per rank Forward(c.valid[rank])
//   absl::Status adjoint = AdjointHolds(c, c.x, fx, c.y, fy);
#ifndef ADJOIN_TESTS_ADJOINT_CASE_CHECKS_H_
#define ADJOIN_TESTS_ADJOINT_CASE_CHECKS_H_

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "tests/adjoint/movement_case.h"

namespace adjoin {

// OK if every rank holds what it must; `results` per rank.
absl::Status ValuesMatch(const MovementCase& c, const std::vector<at::Tensor>& results);
// The same of the linear part of a case that is not linear.
absl::Status LinearValuesMatch(const MovementCase& c, const std::vector<at::Tensor>& results);
// The same bit for bit, where `results` are what OtherBits(c.valid) became; c.copies.
absl::Status BitsMatch(const MovementCase& c, const std::vector<at::Tensor>& results);
// The adjoint identity <Fx, y> = <x, F*y> over all ranks, complex numbers of the left side conjugated, and that the
// operator is not zero where it must not be; `fx` is without fill. Of bools in their own algebra: "or" of "and".
absl::Status AdjointHolds(const MovementCase& c, const std::vector<at::Tensor>& x, const std::vector<at::Tensor>& fx,
                          const std::vector<at::Tensor>& y, const std::vector<at::Tensor>& fy);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_CASE_CHECKS_H_
