// The numbers that a rank adds to an evaluation, and the metrics from the sums over all ranks.
//
//   const at::Tensor mine = at::zeros({numbers.size()}, options);      // float64, on the prediction's device
//   AddClassNumbers(numbers, loss, prediction, target, mine);          // for each batch, on every rank
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> read, network->ReadNumbers({mine}));
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network->SumOverRanks(read));
//   for (const MetricValue& metric : MetricValues(numbers, totals, /*range=*/1)) ...
//
// The numbers stay on the device until the host reads them, once: nothing here waits. Counts are exact. Any thread.
#ifndef ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_
#define ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "planner/checks/metric_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Sets mine[at] to the weight of the targets [n, ...] in the mean of a classification loss: the sum of their
// class_weight, or of 1, without the targets that are ignore_index.
void SetTargetWeight(const Loss& loss, const at::Tensor& target, int64_t at, const at::Tensor& mine);

// Adds a batch: its prediction [n, classes, ...] and targets [n, ...] in [0, classes) or ignore_index. The predicted
// class is the largest one, the first of equal ones; a class that is NaN is never right.
void AddClassNumbers(const EvaluationNumbers& numbers, const Loss& loss, const at::Tensor& prediction,
                     const at::Tensor& target, const at::Tensor& mine);

// Adds a batch: its prediction and target of one shape. Differences are taken in float64.
void AddErrorNumbers(const EvaluationNumbers& numbers, const at::Tensor& prediction, const at::Tensor& target,
                     const at::Tensor& mine);

struct MetricValue {
  std::string name;
  double value = 0;                               // for "dice" and "iou" the mean over the classes that occur
  std::vector<double> per_class = {};             // for "dice" and "iou"; NaN for a class that does not occur
  std::vector<std::vector<int64_t>> matrix = {};  // for "confusion", without a value: by target, then by prediction
};

// Returns the metrics in the order of numbers.metrics(), without "loss". NaN where no target counts. `totals`: the
// numbers summed over batches and ranks. `range`: the largest target less the smallest, for "psnr".
std::vector<MetricValue> MetricValues(const EvaluationNumbers& numbers, const std::vector<double>& totals,
                                      double range);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_METRIC_SUMS_H_
