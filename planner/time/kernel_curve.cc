#include "planner/time/kernel_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace adjoin {
namespace {

// Where all measured calls are so many doublings away, the fit alone counts as much as the nearest of them.
constexpr double kFar = 6;

std::vector<double> Logs(const std::vector<int64_t>& size) {
  std::vector<double> logs;
  for (const int64_t each : size) logs.push_back(std::log2(1.0 + static_cast<double>(std::max<int64_t>(0, each))));
  return logs;
}

// Solves the normal equations of the columns in `used` by elimination; false where they do not determine the result.
bool Solve(const std::vector<std::array<double, 3>>& rows, const std::array<bool, 3>& used,
           std::array<double, 3>& result) {
  double a[3][4] = {};
  for (int i = 0; i < 3; ++i) {
    for (const auto& row : rows) {
      for (int j = 0; j < 3; ++j) a[i][j] += used[i] && used[j] ? row[i] * row[j] : 0;
      a[i][3] += used[i] ? row[i] : 0;
    }
    if (!used[i]) a[i][i] = 1;
  }
  for (int i = 0; i < 3; ++i) {
    int pivot = i;
    for (int k = i + 1; k < 3; ++k) pivot = std::abs(a[k][i]) > std::abs(a[pivot][i]) ? k : pivot;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) < 1e-12) return false;
    for (int k = 0; k < 3; ++k) {
      if (k == i) continue;
      const double factor = a[k][i] / a[i][i];
      for (int j = i; j < 4; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  for (int i = 0; i < 3; ++i) result[i] = a[i][3] / a[i][i];
  return true;
}

}  // namespace

KernelCurve::KernelCurve(std::vector<Point> points) {
  // Each column in its own unit, so that the equations are well conditioned; each row divided by its time, so that the
  // relative error counts.
  std::array<double, 3> unit = {0, 0, 0};
  for (const Point& point : points) {
    unit = {std::max(unit[0], 1.0 / point.seconds), std::max(unit[1], point.flops / point.seconds),
            std::max(unit[2], point.bytes / point.seconds)};
  }
  std::vector<std::array<double, 3>> rows;
  for (const Point& point : points) {
    const std::array<double, 3> work = {1, point.flops, point.bytes};
    std::array<double, 3>& row = rows.emplace_back();
    for (int i = 0; i < 3; ++i) row[i] = unit[i] > 0 ? work[i] / point.seconds / unit[i] : 0;
  }
  double least = std::numeric_limits<double>::infinity();
  for (int subset = 1; subset < 8; ++subset) {
    std::array<bool, 3> used;
    for (int i = 0; i < 3; ++i) used[i] = (subset >> i & 1) != 0 && unit[i] > 0;
    std::array<double, 3> found;
    if (!Solve(rows, used, found) || *std::min_element(found.begin(), found.end()) < 0) continue;
    double error = 0;
    for (const auto& row : rows) {
      const double ratio = row[0] * found[0] + row[1] * found[1] + row[2] * found[2];
      error += (1 - ratio) * (1 - ratio);
    }
    if (error >= least) continue;
    least = error;
    for (int i = 0; i < 3; ++i) fit_[i] = unit[i] > 0 ? found[i] / unit[i] : 0;
  }
  for (const Point& point : points) {
    const double fitted = Fitted(point.flops, point.bytes);
    known_.push_back({Logs(point.size), fitted > 0 ? std::log(point.seconds / fitted) : 0});
  }
}

double KernelCurve::Seconds(const std::vector<int64_t>& size, double flops, double bytes) const {
  const std::vector<double> logs = Logs(size);
  const auto weight_at = [](double squared) { return 1 / (squared * squared); };
  double weights = weight_at(kFar * kFar), sum = 0;
  for (const Known& known : known_) {
    double squared = 0;
    for (size_t i = 0; i < std::max(logs.size(), known.log_size.size()); ++i) {
      const double a = i < logs.size() ? logs[i] : 0, b = i < known.log_size.size() ? known.log_size[i] : 0;
      squared += (a - b) * (a - b);
    }
    if (squared < 1e-12) return Fitted(flops, bytes) * std::exp(known.log_factor);
    const double weight = weight_at(squared);
    weights += weight;
    sum += weight * known.log_factor;
  }
  return Fitted(flops, bytes) * std::exp(sum / weights);
}

}  // namespace adjoin
