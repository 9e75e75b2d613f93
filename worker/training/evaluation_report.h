// The result of an evaluation, and its forms in metrics.jsonl, in a job's progress and in its log.
//
//   ADJOIN_RETURN_IF_ERROR(metrics->Write(LineOf(report, "evaluation")));   // {"type": "evaluation", "dataset": ...}
//   AddMetrics(report, progress.mutable_metric());                          // "accuracy" "correct" "dice" "dice[0]"
//   ... log(TextOf(report));                                                    // "test: 9 of 10 right, accuracy 0.9,
//   loss 0.3"
#ifndef ADJOIN_WORKER_TRAINING_EVALUATION_REPORT_H_
#define ADJOIN_WORKER_TRAINING_EVALUATION_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <google/protobuf/map.h>

#include "proto/coordinator.pb.h"
#include "worker/training/metric_sums.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {

struct EvaluationReport {
  std::string dataset;
  int64_t samples = 0;
  // The job's loss as if all batches were one: its means are means over the targets that count, by their weights (NaN
  // where none does), its sums are sums. A loss that is no sum over elements (dice) is the mean over the batches,
  // weighted by their samples.
  double loss = 0;
  // The targets that are the prediction's largest class, and all that count; absent unless "accuracy" is asked for.
  struct Hits {
    int64_t correct = 0;
    int64_t counted = 0;
  };
  std::optional<Hits> hits;
  std::vector<MetricValue> metrics;  // those that are asked for, without "loss"

  // The value of "loss" or of one of `metrics`; absent where neither has the name.
  std::optional<double> ValueOf(const std::string& metric) const;
};

// Returns "type", "dataset", "samples", "loss"; with accuracy "correct"; each metric by its name; for "dice" and "iou"
// also "dice_per_class" and "iou_per_class", lists by class; "confusion": a list of rows, one for each target class.
MetricsWriter::Line LineOf(const EvaluationReport& report, const std::string& type);

// Adds the same numbers without the confusion matrix. A class that occurs is "dice[3]"; more than
// kMostClassesInProgress classes are left out.
void AddMetrics(const EvaluationReport& report, google::protobuf::Map<std::string, double>* metric);
constexpr size_t kMostClassesInProgress = 32;

// Returns one line for the log.
std::string TextOf(const EvaluationReport& report);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_EVALUATION_REPORT_H_
