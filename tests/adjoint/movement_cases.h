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

#include <ostream>
#include <string>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "tests/adjoint/movement_case.h"

namespace adjoin {

enum class CaseKind {
  kBroadcast,
  kSumReduce,
  kAllSumReduce,
  kScatter,
  kGather,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendReceive,
  kSendReceiveMove,
  kHalo,
  kRepartition,
  kRedistribute,
};

inline constexpr CaseKind kAllCaseKinds[] = {CaseKind::kBroadcast,       CaseKind::kSumReduce, CaseKind::kAllSumReduce,
                                             CaseKind::kScatter,         CaseKind::kGather,    CaseKind::kAllGather,
                                             CaseKind::kReduceScatter,   CaseKind::kAllToAll,  CaseKind::kSendReceive,
                                             CaseKind::kSendReceiveMove, CaseKind::kHalo,      CaseKind::kRepartition,
                                             CaseKind::kRedistribute};

std::string ToString(CaseKind kind);
inline std::ostream& operator<<(std::ostream& out, CaseKind kind) { return out << ToString(kind); }

MovementCase RandomCase(Draw& draw, CaseKind kind, int ranks, DType dtype);
// The case of a redistribution between two given layouts.
MovementCase RedistributeCase(Draw& draw, const Layout& from, const Layout& to, int ranks);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_MOVEMENT_CASES_H_
