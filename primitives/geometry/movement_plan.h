// One rank's part of a movement with its algorithm: which transfers go as a plain list, and which groups of ranks do a
// broadcast, a sum-reduce or an all-sum-reduce together. The same operator and the same selection as ExchangeSchedule,
// done faster.
//
//   MovementPlan plan = *MovementPlan::Build(from, to, rank);
//   plan.Describe();   // "broadcast of 90000 elements from rank 0 to 4 ranks (binomial tree); 720000 bytes leave rank
//   0" plan.BytesSent();                // what the transport of this rank will count
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
#include "primitives/geometry/layout.h"

namespace adjoin {

// Ranks that hold whole local tensors of one shape and do one collective on them.
struct CollectiveGroup {
  enum class Kind { kBroadcast, kSumReduce, kAllSumReduce };
  Kind kind = Kind::kBroadcast;
  // The root first (the source of a broadcast, the destination of a sum-reduce), then the others in the order of
  // their mesh; for an all-sum-reduce all in the order of the source's mesh.
  std::vector<int> ranks;
  int64_t elements = 0;
  // True where the root is itself a destination (broadcast) or a source (sum-reduce). Always so for an all-sum-reduce.
  bool root_takes_part = true;
  friend bool operator==(const CollectiveGroup& a, const CollectiveGroup& b) {
    return a.kind == b.kind && a.ranks == b.ranks && a.elements == b.elements && a.root_takes_part == b.root_takes_part;
  }
};

// One step of a collective on one rank. Ranks are positions in CollectiveGroup::ranks; elements [begin, end) of one
// flat buffer, which starts as the rank's source tensor (zeros for the root of a sum-reduce that takes no part,
// anything for the others of a broadcast) and ends as its destination tensor (of no use on the others of a sum-reduce
// and on the root of a broadcast that takes no part). Steps are done in order; within a step the send and the receive
// go at the same time, and what is received is added only once the send is complete.
struct CollectiveStep {
  int send_to = -1;  // -1: nothing
  Interval send;
  int recv_from = -1;  // -1: nothing
  Interval recv;
  bool add = false;  // add what is received; else it replaces
  int slot = 0;      // below 4096; distinguishes the messages that one rank sends another in one execution
};

// The algorithm: a binomial tree in segments for broadcast and sum-reduce; for an all-sum-reduce recursive doubling, or
// a reduce-scatter and an all-gather between all pairs, whichever costs less by the model in collective_steps.cc. The
// order of additions is fixed by the group alone, and every rank of an all-sum-reduce gets the same bits. `position` is
// in group.ranks. No step is without a message.
std::vector<CollectiveStep> StepsOf(const CollectiveGroup& group, int position, DType dtype);
// Sums over StepsOf, without the steps, of which a pairwise exchange has twice as many as there are ranks.
struct StepTotals {
  int64_t elements_sent = 0;
  int64_t elements_received = 0;
  int64_t messages_sent = 0;
  int64_t messages_received = 0;
  int64_t elements_added = 0;  // received and added
  int rounds = 0;              // messages in a row that depend on one another, of the whole group
};
StepTotals TotalsOf(const CollectiveGroup& group, int position, DType dtype);
// "binomial tree", "recursive doubling" or "pairwise exchange".
std::string AlgorithmOf(const CollectiveGroup& group, DType dtype);
// True where by the same model nothing is gained over the plain list: the group is then none.
bool PlainListIsCheaper(const CollectiveGroup& group, DType dtype);
// Elements per segment of a binomial tree: the steps' intervals begin at its multiples.
int64_t SegmentElements(const CollectiveGroup& group, DType dtype);

// Which algorithm a plan takes for what could be a group: the cheapest, or the group's own wherever there is a group
// (so that tests see groups on small tensors). All ranks choose alike.
enum class AlgorithmChoice { kCheapest, kGroups };

// "broadcast of 150 elements from rank 0 to 4 ranks (binomial tree)".
std::string Describe(const CollectiveGroup& group, ReduceOp reduce, const std::string& algorithm);

class MovementPlan {
 public:
  // Errors: as ExchangeSchedule::Build.
  static absl::StatusOr<MovementPlan> Build(const Distribution& from, const Distribution& to, int rank,
                                            AlgorithmChoice choice = AlgorithmChoice::kCheapest);

  int rank() const { return direct_.rank(); }
  // Tells this plan from every other one of this process; its copies have the same. 0 for a plan that was never built.
  uint64_t serial() const { return serial_; }
  DType dtype() const { return dtype_; }
  // How contributions to one cell are combined: kSum, or as the source's P(max) or P(min) says.
  ReduceOp reduce() const { return reduce_; }
  // Transfers that go as a plain list, what this rank keeps included.
  const ExchangeSchedule& direct() const { return direct_; }
  // At most one takes this rank's source tensor, and at most one gives its destination tensor; these are then whole and
  // `direct` has nothing of them. In an order that all ranks share, so that they can be run one after the other.
  const std::vector<CollectiveGroup>& groups() const { return groups_; }

  // The plan of the adjoint: the direct list read backwards, broadcast and sum-reduce exchanged, summing.
  MovementPlan Reversed() const;
  // The same transfers and groups, for tensors of another type and with contributions combined in another way.
  MovementPlan With(ReduceOp reduce, DType dtype) const;
  // Bytes that leave this rank, exactly as the transport counts them.
  int64_t BytesSent() const;
  // The collectives that it is and their algorithms, as in the example above up to the bytes; "" for other movements.
  std::string DescribeGroups() const;
  // One line: which algorithms, and what this rank does.
  std::string Describe() const;

 private:
  static uint64_t NextSerial();

  uint64_t serial_ = 0;
  DType dtype_ = DType::kFloat32;
  ReduceOp reduce_ = ReduceOp::kSum;
  ExchangeSchedule direct_;
  std::vector<CollectiveGroup> groups_;
  std::vector<CollectiveGroup> listed_;  // that would be groups, but are cheaper as a plain list: to describe it
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_MOVEMENT_PLAN_H_
