// How much of the work each rank takes, compared with the others, and the parts that follow from it.
//
//   const RankWeights weights = *RankWeights::Create({1, 2, 3, 1.5});
//   ProportionalSizes(15, {weights.Of(0), weights.Of(1), weights.Of(2), weights.Of(3)}, /*least=*/1);   // 2 4 6 3
//   Mesh mesh = Mesh::Create({4})->WithWeights(std::make_shared<RankWeights>(weights));
//
// A mesh that has weights cuts in their proportion whatever a layout on it does not size (layout.h). Everything is
// computed in integers, so that all ranks, whatever their processor, find the same parts.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_RANK_WEIGHTS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_RANK_WEIGHTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

class RankWeights {
 public:
  // The largest weight is at most so many times the smallest: a rank that is slower yet only holds up the others.
  static constexpr double kMostTimes = 1000;
  // What the largest weight counts as; the others in proportion, to the nearest whole number. It is a multiple of all
  // numbers up to 16, so that proportions of small whole numbers are exact.
  static constexpr int64_t kUnit = 720720;

  // One number for each rank, from rank 0 on.
  // Errors: kInvalidArgument (one that is not finite or not above 0; one more than kMostTimes another): "[2] is ...".
  static absl::StatusOr<RankWeights> Create(const std::vector<double>& weights);

  // The number of a rank from 0 on, 1 to kUnit; ranks beyond the last one that was given count as kUnit.
  int64_t Of(int rank) const { return static_cast<size_t>(rank) < units_.size() ? units_[rank] : kUnit; }
  // True where all are the same: then parts are as without weights.
  bool even() const { return even_; }

 private:
  RankWeights() = default;
  std::vector<int64_t> units_;
  bool even_ = true;
};

// The sizes into which `n` cells, 0 or more, are divided in proportion to `weights` (1 to 2^44 each, at least one of
// them), by the method of largest remainders, earlier parts first where remainders are the same. No part gets less than
// `least`, which is at most n over the number of parts; the others then share the rest in proportion. Equal weights
// give BalancedSizes.
std::vector<int64_t> ProportionalSizes(int64_t n, const std::vector<int64_t>& weights, int64_t least);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_RANK_WEIGHTS_H_
