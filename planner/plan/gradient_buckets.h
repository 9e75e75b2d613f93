// Which gradients are summed over ranks in one movement. Gradients of small parameters share a bucket, one tensor, so
// that a network of many small parameters sends few messages.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan));
//
// The bits are those of sums of their own: a gradient joins a bucket only where the movement of the bucket adds the
// ranks' terms of each of its elements in the order in which its own movement (ParameterPlan.sync) would. That order
// depends on the algorithm, which depends on the size, so a bucket grows as long as the cost model chooses the
// algorithm for it that it chooses for each of its gradients alone:
//
// - A plain list adds in the order of the ranks, and recursive doubling in that of its tree, wherever an element lies.
// - A pairwise exchange cuts the tensor into a chunk for each rank, and the order depends on the chunk. So the bucket
//   has rows, one per rank, and each gradient's chunks lie in these rows, filled up to the longest.
// - The sum of two ranks has but one order.
//
// Pure: the same on every rank. Errors: as LayoutFromProto.
#ifndef ADJOIN_PLANNER_PLAN_GRADIENT_BUCKETS_H_
#define ADJOIN_PLANNER_PLAN_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Copying a gradient into a bucket and out of it costs about what the messages of a movement cost from here on: larger
// ones are summed by themselves. Bytes of the largest part on a rank.
inline constexpr int64_t kLargestInBucket = 64 << 10;
// The messages of a movement of this size cost a few percent of it: a larger bucket would gain less than it loses,
// since it starts only when its last gradient is there.
inline constexpr int64_t kLargestBucket = 1 << 20;

// Results of so many bytes, or one, are in flight at a time on a rank: what they take on top of a step's memory.
inline constexpr int64_t kMostSumsInFlight = 16 << 20;

struct GradientSum {
  // In Plan.parameter, the first one in the plan last. One: its gradient alone moves, as it is.
  std::vector<int> parameters;
  // The movement, dual(home) -> home. Of a bucket the local tensor is flat, of `rows` rows of BucketColumns in all.
  OperatorPlan movement;
  int64_t rows = 1;
};

// Returns all sums of a training step, in the order in which a backward pass can start them: those of the plan's last
// parameters first.
absl::StatusOr<std::vector<GradientSum>> GradientSums(const Plan& plan);

// Returns how many columns of a bucket the `elements` of a gradient's local part take.
inline int64_t BucketColumns(int64_t elements, int64_t rows) { return (elements + rows - 1) / rows; }

// Returns for each layer of a program the sums, by index, whose gradients a backward pass has once it is through that
// layer: the first one that uses any of their parameters. Those that no layer of the program uses are nowhere.
std::vector<std::vector<int>> SumsCompleteAt(const std::vector<GradientSum>& sums, const ProgramPlan& program);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_GRADIENT_BUCKETS_H_
