// The metrics that Evaluate.metric can name, and the numbers that ranks add up for them.
//
//   ADJOIN_ASSIGN_OR_RETURN(const Metric metric, ParseMetric("top5"));              // {kTopK, 5}
//   ADJOIN_ASSIGN_OR_RETURN(const EvaluationNumbers numbers, EvaluationNumbers::Create(spec, program));
//   std::vector<double> mine(numbers.size());
//   mine[numbers.hits(5)] = ...;                       // of this rank's targets
//   network.SumOverRanks(mine);                        // exact: counts below 2^53
//
// Metrics of classes ("accuracy", "top<k>", "dice", "iou", "confusion") compare the prediction and target of the job's
// first loss whose targets are the numbers of classes; metrics of numbers ("mse", "mae", "psnr") those of its first
// mse, l1, huber, smooth_l1 or gaussian_nll. Each target is on one rank, so sums over the ranks count it once. Targets
// of the loss's ignore_index do not count. Pure; any thread.
#ifndef ADJOIN_PLANNER_CHECKS_METRIC_RULE_H_
#define ADJOIN_PLANNER_CHECKS_METRIC_RULE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

enum class MetricKind { kLoss, kAccuracy, kTopK, kDice, kIou, kConfusion, kMse, kMae, kPsnr };

struct Metric {
  MetricKind kind = MetricKind::kLoss;
  int64_t k = 1;  // of kTopK; 1 of kAccuracy
  std::string name;

  bool OfClasses() const { return kind >= MetricKind::kAccuracy && kind <= MetricKind::kConfusion; }
  bool OfNumbers() const { return kind >= MetricKind::kMse; }
  // Returns true where a larger value is better. kConfusion is no number; for it, false.
  bool LargerIsBetter() const { return (OfClasses() && kind != MetricKind::kConfusion) || kind == MetricKind::kPsnr; }
};

// Errors: kInvalidArgument that lists the names.
absl::StatusOr<Metric> ParseMetric(absl::string_view name);

// Checks that the job has a loss with the metric's predictions and targets. Errors: kInvalidArgument.
absl::Status CheckMetricHasLoss(const JobSpec& spec, const Metric& metric);

// Returns true where the program's loss compares its prediction with the numbers of classes.
bool ComparesClasses(const ProgramPlan& program, const LossPlan& loss);

// Returns the metrics that a program reports, each once: Evaluate.metric for "evaluate"; for "validate" also those of
// early_stop and keep_best. Tails report the same; other programs report none.
std::vector<std::string> MetricsOfProgram(const JobSpec& spec, const std::string& program);

// The positions of the numbers that ranks add up after each batch of one program.
class EvaluationNumbers {
 public:
  // `program` has its losses. Errors: kInvalidArgument, at fields of JobSpec (a metric that is not known or without a
  // loss, top<k> of fewer classes, a confusion matrix of more than kMaxConfusionClasses).
  static absl::StatusOr<EvaluationNumbers> Create(const JobSpec& spec, const ProgramPlan& program);

  static constexpr int64_t kMaxConfusionClasses = 1024;

  const std::vector<Metric>& metrics() const { return metrics_; }
  int class_loss() const { return class_loss_; }    // in ProgramPlan.loss; -1: no metric needs it
  int number_loss() const { return number_loss_; }  // likewise
  int64_t classes() const { return classes_; }

  int64_t size() const { return size_; }
  int64_t stop_asked() const { return 0; }                 // how many ranks were asked to stop
  int64_t share(int loss) const { return 1 + 2 * loss; }   // of the batch's loss
  int64_t weight(int loss) const { return 2 + 2 * loss; }  // of the targets in its mean; losses of classes only
  int64_t counted() const { return counted_; }             // targets that count, of class_loss
  const std::map<int64_t, int64_t>& hits() const { return hits_; }  // k -> position of the right ones among the first k
  int64_t per_class() const { return per_class_; }  // [3, classes]: right, predicted, targets; -1: not needed
  int64_t confusion() const { return confusion_; }  // [classes, classes] of target, predicted; -1: not needed
  int64_t numbers() const { return numbers_; }      // elements, squared and absolute errors; -1: not needed

 private:
  EvaluationNumbers() = default;
  absl::Status Add(const Metric& metric);

  std::vector<Metric> metrics_;
  int class_loss_ = -1;
  int number_loss_ = -1;
  int64_t classes_ = 0;
  int64_t size_ = 0;
  int64_t counted_ = -1;
  std::map<int64_t, int64_t> hits_;
  int64_t per_class_ = -1;
  int64_t confusion_ = -1;
  int64_t numbers_ = -1;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_METRIC_RULE_H_
