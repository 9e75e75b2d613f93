#include "worker/training/metric_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "primitives/to_device.h"

namespace adjoin {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// Elements of a prediction that are converted to float64, or compared with their targets, at once.
constexpr int64_t kChunk = int64_t{1} << 20;

double Quotient(double part, double whole) { return whole > 0 ? part / whole : kNone; }

// Adds the number of `rows` that count in each of `bins` to mine[at], mine[at + 1], ...
void AddCounts(const at::Tensor& rows, const at::Tensor& counts, int64_t bins, int64_t at, const at::Tensor& mine) {
  const at::Tensor inside = counts.logical_and(rows >= 0).logical_and(rows < bins);
  at::Tensor found = at::zeros({bins}, rows.options());
  found.scatter_add_(0, rows.clamp(0, bins - 1), inside.to(rows.scalar_type()));
  mine.narrow(0, at, bins).add_(found);
}

// Whether each target counts.
at::Tensor Counts(const Loss& loss, const at::Tensor& target) {
  return loss.has_ignore_index() ? target != loss.ignore_index() : at::ones_like(target, at::kBool);
}

// [targets, classes] and [targets].
struct Rows {
  at::Tensor prediction;
  at::Tensor target;
};

// Returns the number of classes that come before the target's, by value and then by number.
at::Tensor ClassesBeforeTarget(const Rows& rows) {
  const at::Tensor column = rows.target.unsqueeze(1);
  const at::Tensor own = rows.prediction.gather(1, column);
  const at::Tensor classes = at::arange(rows.prediction.size(1), rows.target.options()).unsqueeze(0);
  const at::Tensor before =
      (rows.prediction > own).logical_or(rows.prediction.eq(own).logical_and(classes < column)).sum(1);
  return before.masked_fill(own.isnan().squeeze(1), rows.prediction.size(1));
}

}  // namespace

void SetTargetWeight(const Loss& loss, const at::Tensor& target, int64_t at, const at::Tensor& mine) {
  const at::Tensor flat = target.reshape({-1}), counts = Counts(loss, flat);
  if (loss.class_weight_size() == 0) {
    mine[at].copy_(counts.sum());
    return;
  }
  const at::Tensor weight =
      ToDevice(at::tensor(std::vector<double>(loss.class_weight().begin(), loss.class_weight().end()), at::kDouble),
               target.device());
  const at::Tensor classes = flat.masked_fill(counts.logical_not(), 0).clamp(0, weight.numel() - 1);
  mine[at].copy_(weight.index_select(0, classes).masked_fill(counts.logical_not(), 0).sum());
}

void AddClassNumbers(const EvaluationNumbers& numbers, const Loss& loss, const at::Tensor& prediction,
                     const at::Tensor& target, const at::Tensor& mine) {
  if (target.numel() == 0 || prediction.numel() == 0) return;
  if (prediction.numel() > kChunk && target.numel() > 1) {
    // Counting takes several times the prediction's memory, so it takes a part at a time. The counts of parts add up.
    int64_t dim = 0;
    while (target.size(dim) == 1) ++dim;
    const int64_t half = target.size(dim) / 2;
    for (const auto& [first, count] : {std::pair(int64_t{0}, half), std::pair(half, target.size(dim) - half)}) {
      AddClassNumbers(numbers, loss, prediction.narrow(dim == 0 ? 0 : dim + 1, first, count),
                      target.narrow(dim, first, count), mine);
    }
    return;
  }
  // Targets that do not count stay: an extent that depends on values is one that the host would have to wait for.
  const at::Tensor given = target.reshape({-1}), counts = Counts(loss, given);
  const int64_t classes = numbers.classes();
  const Rows rows{prediction.movedim(1, -1).reshape({-1, prediction.size(1)}),
                  given.masked_fill(counts.logical_not(), 0).clamp(0, prediction.size(1) - 1)};
  if (!numbers.hits().empty()) {
    mine[numbers.counted()].add_(counts.sum());
    const at::Tensor classes_before = ClassesBeforeTarget(rows);
    for (const auto& [k, at] : numbers.hits()) mine[at].add_((classes_before < k).logical_and(counts).sum());
  }
  if (numbers.per_class() < 0 && numbers.confusion() < 0) return;
  const at::Tensor predicted = rows.prediction.argmax(1);
  if (numbers.per_class() >= 0) {
    const int64_t at = numbers.per_class();
    AddCounts(rows.target, counts.logical_and(predicted.eq(rows.target)), classes, at, mine);
    AddCounts(predicted, counts, classes, at + classes, mine);
    AddCounts(rows.target, counts, classes, at + 2 * classes, mine);
  }
  if (numbers.confusion() >= 0) {
    AddCounts(rows.target * classes + predicted, counts, classes * classes, numbers.confusion(), mine);
  }
}

void AddErrorNumbers(const EvaluationNumbers& numbers, const at::Tensor& prediction, const at::Tensor& target,
                     const at::Tensor& mine) {
  const at::Tensor predicted = prediction.reshape({-1});
  const at::Tensor right = target.reshape({-1});
  const at::Tensor sums = mine.narrow(0, numbers.numbers(), 3);
  for (int64_t begin = 0; begin < predicted.numel(); begin += kChunk) {
    const int64_t count = std::min(kChunk, predicted.numel() - begin);
    const at::Tensor error =
        predicted.narrow(0, begin, count).to(at::kDouble) - right.narrow(0, begin, count).to(at::kDouble);
    sums[0].add_(static_cast<double>(count));
    sums[1].add_(error.square().sum());
    sums[2].add_(error.abs().sum());
  }
}

namespace {

MetricValue PerClass(const EvaluationNumbers& numbers, const std::vector<double>& totals, const Metric& metric) {
  MetricValue result{metric.name};
  const int64_t classes = numbers.classes();
  const double* right = totals.data() + numbers.per_class();
  double sum = 0;
  double occurring = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double both = right[classes + c] + right[2 * classes + c];
    const double value =
        metric.kind == MetricKind::kDice ? Quotient(2 * right[c], both) : Quotient(right[c], both - right[c]);
    result.per_class.push_back(value);
    if (std::isnan(value)) continue;
    sum += value;
    ++occurring;
  }
  result.value = Quotient(sum, occurring);
  return result;
}

MetricValue Confusion(const EvaluationNumbers& numbers, const std::vector<double>& totals, const Metric& metric) {
  MetricValue result{metric.name, kNone};
  const double* counts = totals.data() + numbers.confusion();
  for (int64_t target = 0; target < numbers.classes(); ++target, counts += numbers.classes()) {
    result.matrix.emplace_back(counts, counts + numbers.classes());
  }
  return result;
}

}  // namespace

std::vector<MetricValue> MetricValues(const EvaluationNumbers& numbers, const std::vector<double>& totals,
                                      double range) {
  std::vector<MetricValue> values;
  for (const Metric& metric : numbers.metrics()) {
    const double* errors = totals.data() + std::max<int64_t>(numbers.numbers(), 0);
    switch (metric.kind) {
      case MetricKind::kLoss: break;
      case MetricKind::kAccuracy:
      case MetricKind::kTopK:
        values.push_back({metric.name, Quotient(totals[numbers.hits().at(metric.k)], totals[numbers.counted()])});
        break;
      case MetricKind::kDice:
      case MetricKind::kIou: values.push_back(PerClass(numbers, totals, metric)); break;
      case MetricKind::kConfusion: values.push_back(Confusion(numbers, totals, metric)); break;
      case MetricKind::kMse: values.push_back({metric.name, Quotient(errors[1], errors[0])}); break;
      case MetricKind::kMae: values.push_back({metric.name, Quotient(errors[2], errors[0])}); break;
      case MetricKind::kPsnr:
        values.push_back({metric.name, 10 * std::log10(range * range / Quotient(errors[1], errors[0]))});
        break;
    }
  }
  return values;
}

}  // namespace adjoin
