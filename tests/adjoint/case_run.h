// Runs random movements on ranks, and proves each of them.
//
//   absl::Status status = ProveCases(cases, /*ranks=*/4, TransportKind::kUcxTcp, seed, &results);
//
// It checks for each case, on all ranks together: the values of the operator on the gathered tensor (for copies, every
// bit); the adjoint identity, where one exists, on independent cells and on valid states; as many bytes sent as
// planned; results that are fresh, inputs that are left alone, with any strides; for types that have gradients, first
// and second derivatives through the tape, bit for bit; for a move, a source that is cleared.
#ifndef ADJOIN_TESTS_ADJOINT_CASE_RUN_H_
#define ADJOIN_TESTS_ADJOINT_CASE_RUN_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/movement_case.h"

namespace adjoin {

// What the ranks found of one case, per rank.
struct CaseResults {
  std::vector<at::Tensor> fx;
  std::vector<at::Tensor> fx_valid;
  std::vector<at::Tensor> fx_bits;  // the bits of copies
  std::vector<at::Tensor> fy;
  // Without fill: the linear operator.
  std::vector<at::Tensor> linear;
  std::vector<at::Tensor> linear_valid;
};

// `seed` drives the in-memory transport's delays. With `results` every case's results, which need not be empty before:
// then they must be the same, bit for bit.
absl::Status ProveCases(const std::vector<MovementCase>& cases, int ranks, TransportKind transport, uint64_t seed,
                        std::vector<CaseResults>* results = nullptr);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_CASE_RUN_H_
