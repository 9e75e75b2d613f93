// A sum of many numbers.
//
//   RunningSum sum;
//   for (double value : values) sum.Add(value);
//   sum.value();
//
// Neumaier's: adding many small values loses no precision. A value; no threads.
#ifndef ADJOIN_WORKER_DATA_RUNNING_SUM_H_
#define ADJOIN_WORKER_DATA_RUNNING_SUM_H_

#include <cmath>

namespace adjoin {

class RunningSum {
 public:
  void Add(double value) {
    const double sum = sum_ + value;
    rest_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0;
  double rest_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_RUNNING_SUM_H_
