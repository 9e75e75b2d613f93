// The values of an array: range, mean, how many are not finite, and how they are spread.
//
//   ADJOIN_ASSIGN_OR_RETURN(ArraySummary summary, Summarise(*file));
//   summary.min; summary.mean; summary.nan_count;
//
// Streams through the array twice (the bins need the range), in bounded memory. One thread.
#ifndef ADJOIN_WORKER_DATA_ARRAY_SUMMARY_H_
#define ADJOIN_WORKER_DATA_ARRAY_SUMMARY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/data/array_file.h"

namespace adjoin {

struct ArraySummary {
  struct Bin {
    double lo = 0;  // the values in [lo, hi); the last bin has hi too
    double hi = 0;
    int64_t count = 0;
  };
  int64_t cells = 0;
  int64_t finite = 0;
  // Over the finite values; 0 where there is none.
  double min = 0;
  double max = 0;
  double mean = 0;
  int64_t nan_count = 0;
  std::vector<int64_t> first_nan;  // the index of the first NaN, in row-major order
  int64_t infinite_count = 0;
  std::vector<int64_t> first_infinite;
  // Bins of equal width over [min, max]. Where the values are few whole numbers, one bin for each: lo == hi.
  std::vector<Bin> bins;
};

absl::StatusOr<ArraySummary> Summarise(ArrayFile& file);

// Calls `f` for boxes that follow each other in row-major order and are the array together, each of at most `cells`.
absl::Status ForEachPiece(const std::vector<int64_t>& shape, int64_t cells,
                          const std::function<absl::Status(const Box&)>& f);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_SUMMARY_H_
