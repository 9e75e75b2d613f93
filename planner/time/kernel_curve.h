// How long calls of one kind of kernel take, from those that were measured.
//
//   KernelCurve curve(points);            // {work done, seconds}
//   curve.Seconds(size, flops, bytes);    // exact where it was measured
//
// seconds = a + b flops + c bytes with a, b, c >= 0 that fit the measured calls best by relative error, times a factor
// between the measured calls: that of each, weighted by its distance in the logarithms of the sizes (Shepard's
// interpolation). Far from all of them the factor approaches 1. Pure; any thread.
#ifndef ADJOIN_PLANNER_TIME_KERNEL_CURVE_H_
#define ADJOIN_PLANNER_TIME_KERNEL_CURVE_H_

#include <array>
#include <cstdint>
#include <vector>

namespace adjoin {

class KernelCurve {
 public:
  struct Point {
    std::vector<int64_t> size;
    double flops = 0;
    double bytes = 0;
    double seconds = 0;  // above 0
  };
  // `points`: at least one.
  explicit KernelCurve(std::vector<Point> points);

  double Seconds(const std::vector<int64_t>& size, double flops, double bytes) const;
  // Without the factor.
  double Fitted(double flops, double bytes) const { return fit_[0] + fit_[1] * flops + fit_[2] * bytes; }

 private:
  struct Known {
    std::vector<double> log_size;
    double log_factor = 0;
  };
  std::array<double, 3> fit_ = {0, 0, 0};
  std::vector<Known> known_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_KERNEL_CURVE_H_
