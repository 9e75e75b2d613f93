// Random movements with their truth: the same operator done on the gathered global tensor by plain LibTorch indexing.
//
//   MovementCase c = RandomCase(draw, CaseKind::kHalo, /*ranks=*/4, DType::kFloat64);
//   auto movement = *c.create(&communicator, /*id=*/1);
//   ValuesMatch(c, results);         // case_checks.h; results: movement->Forward(c.valid[rank]) of every rank
//
// Tensors have up to five dims, or as few as the movement allows; extents of 0 occur, cuts are uneven and may be empty,
// and meshes are any of the ranks in any order.
//
// Nothing here knows of schedules: only of which box of the global tensor a layout gives a rank, and of what a sliding
// window reads.
#ifndef ADJOIN_TESTS_ADJOINT_MOVEMENT_CASES_H_
#define ADJOIN_TESTS_ADJOINT_MOVEMENT_CASES_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/mesh.h"
#include "primitives/movement.h"

namespace adjoin {

enum class CaseKind {
  kBroadcast, kSumReduce, kAllSumReduce, kScatter, kGather, kAllGather, kReduceScatter, kAllToAll, kSendReceive,
  kSendReceiveMove, kHalo, kRepartition, kRedistribute,
};

inline constexpr CaseKind kAllCaseKinds[] = {
    CaseKind::kBroadcast,   CaseKind::kSumReduce,       CaseKind::kAllSumReduce,  CaseKind::kScatter,
    CaseKind::kGather,      CaseKind::kAllGather,       CaseKind::kReduceScatter, CaseKind::kAllToAll,
    CaseKind::kSendReceive, CaseKind::kSendReceiveMove, CaseKind::kHalo,          CaseKind::kRepartition,
    CaseKind::kRedistribute};

std::string ToString(CaseKind kind);
inline std::ostream& operator<<(std::ostream& out, CaseKind kind) { return out << ToString(kind); }

struct MovementCase {
  using Build = std::function<absl::StatusOr<std::shared_ptr<Movement>>(Communicator*, Movement::Options)>;

  std::string what;  // for messages
  Build build;
  Movement::Options options;  // without id
  DType dtype = DType::kFloat64;
  // Per rank: a valid state of the source layout (copies equal, partials adding up to the global tensor), and what
  // the ranks that `sums_with` names (the rank itself among them) must together hold of it afterwards.
  std::vector<torch::Tensor> valid;
  std::vector<torch::Tensor> expected;
  std::vector<std::vector<int>> sums_with;
  // Per rank and dim of a halo: which cell of the fetched tensor each cell of the padded one is. Empty: the same.
  std::vector<std::vector<std::vector<int64_t>>> index_map;
  // Per rank: cells drawn independently, copies differing, of the source and of the destination.
  std::vector<torch::Tensor> x;
  std::vector<torch::Tensor> y;
  bool exact = false;   // pure copies, or sums without rounding: no difference at all
  bool copies = false;  // every cell is a copy of one, or 0: whatever its bits mean
  bool linear = true;   // false where the boundary is filled with another number than 0: then linear and a constant,
  std::vector<torch::Tensor> expected_linear;  // and this is expected of the linear part
  int cleared = -1;     // the rank whose source a move clears; -1: a copy

  absl::StatusOr<std::shared_ptr<Movement>> create(Communicator* communicator, int64_t id) const {
    Movement::Options with_id = options;
    with_id.id = id;
    return build(communicator, with_id);
  }
};

// Some of the ranks 0 .. ranks-1, in any order, as an array of zero to three axes.
Mesh RandomMeshOf(Draw& draw, int ranks);

MovementCase RandomCase(Draw& draw, CaseKind kind, int ranks, DType dtype);
// The case of a redistribution between two given layouts.
MovementCase RedistributeCase(Draw& draw, const Layout& from, const Layout& to, int ranks);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_MOVEMENT_CASES_H_
