// The best value of a metric over the validations so far, and how many in a row have not improved on it.
//
//   ADJOIN_ASSIGN_OR_RETURN(BestMetric best, BestMetric::Create("dice", /*min_delta=*/0.001));
//   if (best.Judge(*report.ValueOf("dice"), step)) ...               // better than all before
//   if (best.state().failed >= patience) ...
//
// A value; any thread, one at a time.
#ifndef ADJOIN_WORKER_TRAINING_BEST_METRIC_H_
#define ADJOIN_WORKER_TRAINING_BEST_METRIC_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace adjoin {

class BestMetric {
 public:
  // `metric`: one of planner/checks/metric_rule.h, which defines whether larger or smaller is better; "": "loss".
  // Errors: kInvalidArgument (an unknown metric).
  static absl::StatusOr<BestMetric> Create(const std::string& metric, double min_delta = 0);

  const std::string& metric() const { return metric_; }

  // Returns true where `value` is better than the best one so far by more than min_delta, and makes it the best one.
  // The first value always is better, NaN never is. `step`: the step of training after which it was measured.
  bool Judge(double value, int64_t step);

  struct State {
    bool any = false;  // there is a best value
    double best = 0;
    int64_t step = 0;    // the step of the best value
    int64_t failed = 0;  // validations since the best value
  };
  const State& state() const { return state_; }

  // The state as numbers whose names begin with `prefix`, for checkpoints. FromNumbers changes nothing where there are
  // no such numbers.
  void ToNumbers(const std::string& prefix, std::map<std::string, double>* numbers) const;
  void FromNumbers(const std::string& prefix, const std::map<std::string, double>& numbers);

 private:
  BestMetric(std::string metric, bool larger_is_better, double min_delta)
      : metric_(std::move(metric)), larger_is_better_(larger_is_better), min_delta_(min_delta) {}

  std::string metric_;
  bool larger_is_better_;
  double min_delta_;
  State state_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_BEST_METRIC_H_
