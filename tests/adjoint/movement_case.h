// One movement on given ranks, what goes in, and what must come out.
//
//   absl::StatusOr<std::shared_ptr<Movement>> f = c.create(&communicator, /*id=*/1);
//   results[rank] = (*f)->Forward(c.valid[rank]);      // ValuesMatch(c, results), of case_checks.h
#ifndef ADJOIN_TESTS_ADJOINT_MOVEMENT_CASE_H_
#define ADJOIN_TESTS_ADJOINT_MOVEMENT_CASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/dtype.h"
#include "primitives/movement.h"

namespace adjoin {

struct MovementCase {
  using Build = std::function<absl::StatusOr<std::shared_ptr<Movement>>(Communicator*, Movement::Options)>;

  std::string what;  // for messages
  Build build;
  Movement::Options options;  // without id
  DType dtype = DType::kFloat64;
  // Per rank: a valid state of the source layout (copies equal, partials adding up to the global tensor), and what
  // the ranks that `sums_with` names (the rank itself among them) must together hold of it afterwards.
  std::vector<at::Tensor> valid;
  std::vector<at::Tensor> expected;
  std::vector<std::vector<int>> sums_with;
  // Per rank and dim of a halo: which cell of the fetched tensor each cell of the padded one is. Empty: the same.
  std::vector<std::vector<std::vector<int64_t>>> index_map;
  // Per rank: cells drawn independently, copies differing, of the source and of the destination.
  std::vector<at::Tensor> x;
  std::vector<at::Tensor> y;
  bool exact = false;   // pure copies, or sums without rounding: no difference at all
  bool copies = false;  // every cell is a copy of one, or 0: whatever its bits mean
  bool linear = true;   // false where the boundary is filled with another number than 0: then linear and a constant,
  std::vector<at::Tensor> expected_linear;  // and this is expected of the linear part
  int cleared = -1;                         // the rank whose source a move clears; -1: a copy

  absl::StatusOr<std::shared_ptr<Movement>> create(Communicator* communicator, int64_t id) const {
    Movement::Options with_id = options;
    with_id.id = id;
    return build(communicator, with_id);
  }
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_MOVEMENT_CASE_H_
