#include "planner/plan/operator_ids.h"

#include "layers/rules/spec_error.h"
#include "planner/plan/operator_plan.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

// Sums of bytes below this limit stay within 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

// A plan of a job of few ranks holds, for every movement, the bytes that each rank sends: 2^24 such numbers are 128
// MiB.
int64_t MostMovements(int64_t ranks) {
  return (ranks <= kMostListedRanks ? int64_t{1} << 24 : int64_t{1} << 27) / ranks;
}

}  // namespace

absl::Status OperatorIds::Take(OperatorPlan& op, uint32_t ranks) {
  if (last_ >= kLargestPlannedOperator) {
    return InvalidSpec("the job needs more than ", kLargestPlannedOperator,
                       " movements, the most that a plan can number; use fewer layers");
  }
  op.set_id(++last_);
  if (last_ > MostMovements(ranks)) {
    return InvalidSpec("the job needs more than ", last_ - 1, " movements on ", ranks, " ranks; ", MostMovements(ranks),
                       " are possible on so many: use fewer layers or fewer ranks");
  }
  for (const int64_t bytes : {op.bytes_forward_sum(), op.bytes_adjoint_sum()}) {
    bytes_ = bytes > kMaxBytes - bytes_ ? kMaxBytes : bytes_ + bytes;
  }
  if (bytes_ < kMaxBytes) return absl::OkStatus();
  return InvalidSpec("the job's movements take more than 2^60 bytes a step; its tensors are too large");
}

}  // namespace adjoin
