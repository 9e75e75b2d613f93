// Percentiles of more values than fit in memory, exactly: the values are gone through a few times.
//
//   Percentiles limits(cells, {0.5, 99.5});
//   while (!limits.done()) {
//     ...  limits.Add(values, count);  ...           // all of them, some at a time
//     ADJOIN_RETURN_IF_ERROR(limits.EndPass());
//   }
//   limits.Found();                                  // {-1012.5, 1540}
//
// The same as numpy.percentile of float64 (linear interpolation), in any order of the values. Memory: 1.1 MiB for each
// value that is looked for, of which a percentile needs two. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_ORDER_STATISTICS_H_
#define ADJOIN_WORKER_SAMPLES_ORDER_STATISTICS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {

// The values that are at some ranks where all are sorted. A radix select: each pass finds 16 more bits of them, so
// there are at most 4; few different values, as whole numbers, are found earlier.
class OrderStatistics {
 public:
  // `ranks`: from 0, each less than the number of values.
  explicit OrderStatistics(const std::vector<int64_t>& ranks);

  // True where no pass is needed any more.
  bool done() const { return bins_.empty(); }
  // Takes some of the values, which are finite.
  void Add(const double* values, int64_t count);
  // Errors: kDataLoss (fewer values begin with the bits found so far than in the pass before).
  absl::Status EndPass();
  // Returns the values, in the order of `ranks`. Requires done().
  std::vector<double> Found() const;

 private:
  // The keys with one prefix, counted by their next digit.
  struct Bins {
    std::vector<int64_t> count;
    std::vector<uint64_t> first;   // the first key of each
    std::vector<uint8_t> several;  // has another key as well
  };
  // A value that is looked for: its rank among the keys with a prefix.
  struct Wanted {
    int64_t rank = 0;
    uint64_t prefix = 0;
    bool found = false;
    uint64_t key = 0;
  };
  static bool Narrow(const Bins& bins, Wanted& wanted);
  void StartPass();

  int below_;  // how many bits are below the digit of this pass
  std::vector<Wanted> wanted_;
  std::map<uint64_t, Bins> bins_;  // by prefix
};

class Percentiles {
 public:
  // `count`: of the values, at least 1. `percentages`: in [0, 100].
  Percentiles(int64_t count, const std::vector<double>& percentages);

  bool done() const { return statistics_.done(); }
  void Add(const double* values, int64_t count) { statistics_.Add(values, count); }
  absl::Status EndPass() { return statistics_.EndPass(); }
  std::vector<double> Found() const;

 private:
  static std::vector<int64_t> RanksOf(int64_t count, const std::vector<double>& percentages);

  std::vector<double> between_;  // where each percentile is between two values
  OrderStatistics statistics_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_ORDER_STATISTICS_H_
