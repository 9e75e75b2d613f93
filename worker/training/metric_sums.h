// What a rank adds to the numbers of an evaluation, and what the metrics are once all ranks' numbers are summed.
//
//   std::vector<double> mine(numbers.size());
//   AddClassNumbers(numbers, loss, prediction, target, mine);          // of each batch, on every rank
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network->SumOverRanks(mine));
//   for (const MetricValue& metric : MetricValues(numbers, totals, /*range=*/1)) ...
//
// Counts are exact. Any thread.
#ifndef ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_
#define ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "planner/checks/metric_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// The weights of the targets [n, ...] that the mean of a loss of classes is of: class_weight, or 1, of those that are not
// ignore_index's.
double TargetWeight(const Loss& loss, const at::Tensor& target);

// Of a prediction [n, classes, ...] and targets [n, ...] in [0, classes) or ignore_index. The prediction of a target is its
// largest class, the first of equal ones; a class that is NaN is never right.
void AddClassNumbers(const EvaluationNumbers& numbers, const Loss& loss, const at::Tensor& prediction,
                     const at::Tensor& target, std::vector<double>& mine);

// Of a prediction and a target of one shape. Differences are taken in float64.
void AddErrorNumbers(const EvaluationNumbers& numbers, const at::Tensor& prediction, const at::Tensor& target,
                     std::vector<double>& mine);

struct MetricValue {
  std::string name;
  double value = 0;                            // of "dice" and "iou" the mean over the classes that occur
  std::vector<double> per_class = {};          // of "dice" and "iou"; NaN for a class that nothing is of
  std::vector<std::vector<int64_t>> matrix = {};  // of "confusion", which has no value: by target, then by prediction
};

// Of the numbers summed over batches and ranks, in the order of numbers.metrics(), without "loss". NaN where nothing counts.
// `range`: of "psnr", the largest target less the smallest.
std::vector<MetricValue> MetricValues(const EvaluationNumbers& numbers, const std::vector<double>& totals, double range);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_
