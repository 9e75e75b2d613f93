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
  // A metric of planner/checks/metric_rule.h, which says whether larger or smaller is better; "": "loss".
  // Errors: kInvalidArgument for a name that is none.
  static absl::StatusOr<BestMetric> Create(const std::string& metric, double min_delta = 0);

  const std::string& metric() const { return metric_; }

  // Whether `value` is better than the best one so far by more than min_delta; it is then the best one. The first value is,
  // one that is not a number never. `step`: of training, when it was measured.
  bool Judge(double value, int64_t step);

  struct State {
    bool any = false;    // whether there is a best one
    double best = 0;
    int64_t step = 0;    // at which it was measured
    int64_t failed = 0;  // validations since
  };
  const State& state() const { return state_; }

  // The state by names that begin with `prefix`, to be kept and given back. FromNumbers takes what is there; without a number
  // of the prefix it changes nothing.
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
