// One rank's part of a movement with its algorithm: which transfers go as a plain list, and which groups of ranks do a
// broadcast, a sum-reduce or an all-sum-reduce together. The same operator and the same selection as ExchangeSchedule,
// done faster.
//
//   MovementPlan plan = *MovementPlan::Build(from, to, rank);
//   plan.Describe();                 // "broadcast of 150 elements from rank 0 to 4 ranks (binomial tree)"
//   plan.BytesSent();                // what the transport of this rank will count
//
// A pure function of (from, to): every rank finds the same groups.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_MOVEMENT_PLAN_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_MOVEMENT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {

// Ranks that hold whole local tensors of one shape and do one collective on them.
struct CollectiveGroup {
  enum class Kind { kBroadcast, kSumReduce, kAllSumReduce };
  Kind kind = Kind::kBroadcast;
  // The root first (its source or destination for a broadcast or sum-reduce), then the others in ascending order; all in
  // ascending order for an all-sum-reduce.
  std::vector<int> ranks;
  int64_t elements = 0;
  // Whether the root is itself a destination (broadcast) or a source (sum-reduce). Always so for an all-sum-reduce.
  bool root_takes_part = true;
};

// One step of a collective on one rank. Ranks are positions in CollectiveGroup::ranks; elements [begin, end) of the
// tensor. Steps are done in order; within a step the send and the receive go at the same time.
struct CollectiveStep {
  int send_to = -1;    // -1: nothing
  Interval send;
  int recv_from = -1;  // -1: nothing
  Interval recv;
  bool add = false;    // add what is received; else it replaces
  int slot = 0;        // distinguishes the messages of one execution between two ranks
};

// The algorithm: a binomial tree in segments for broadcast and sum-reduce, recursive doubling for an all-sum-reduce of
// up to 8 KiB and a ring (reduce-scatter, all-gather) above. The order of additions is fixed by the group alone, and
// every rank of an all-sum-reduce gets the same bits. `position` is in group.ranks.
std::vector<CollectiveStep> StepsOf(const CollectiveGroup& group, int position, DType dtype);

class MovementPlan {
 public:
  // Errors: as ExchangeSchedule::Build.
  static absl::StatusOr<MovementPlan> Build(const Distribution& from, const Distribution& to, int rank);

  int rank() const { return direct_.rank(); }
  DType dtype() const { return dtype_; }
  // Transfers that go as a plain list, what this rank keeps included.
  const ExchangeSchedule& direct() const { return direct_; }
  // At most one as its source side and one as its destination side.
  const std::vector<CollectiveGroup>& groups() const { return groups_; }

  MovementPlan Reversed() const;
  // Bytes that leave this rank, exactly as the transport counts them.
  int64_t BytesSent() const;
  bool nothing_moves() const;  // nothing leaves or reaches this rank
  // One line; the kind of the movement as seen from this rank.
  std::string Describe() const;

 private:
  DType dtype_ = DType::kFloat32;
  ExchangeSchedule direct_;
  std::vector<CollectiveGroup> groups_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_MOVEMENT_PLAN_H_
