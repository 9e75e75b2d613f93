#include "worker/training/best_metric.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/checks/metric_rule.h"

namespace adjoin {

absl::StatusOr<BestMetric> BestMetric::Create(const std::string& metric, double min_delta) {
  ADJOIN_ASSIGN_OR_RETURN(Metric known, ParseMetric(metric.empty() ? "loss" : metric));
  const bool larger_is_better = known.LargerIsBetter();
  return BestMetric(std::move(known.name), larger_is_better, min_delta);
}

bool BestMetric::Judge(double value, int64_t step) {
  const double gain = larger_is_better_ ? value - state_.best : state_.best - value;
  const bool better = !std::isnan(value) && (!state_.any || gain > min_delta_);
  if (better) {
    state_ = {.any = true, .best = value, .step = step, .failed = 0};
  } else {
    ++state_.failed;
  }
  return better;
}

void BestMetric::ToNumbers(const std::string& prefix, std::map<std::string, double>* numbers) const {
  (*numbers)[absl::StrCat(prefix, "failed")] = static_cast<double>(state_.failed);
  if (!state_.any) return;
  (*numbers)[absl::StrCat(prefix, "best")] = state_.best;
  (*numbers)[absl::StrCat(prefix, "step")] = static_cast<double>(state_.step);
}

void BestMetric::FromNumbers(const std::string& prefix, const std::map<std::string, double>& numbers) {
  const auto failed = numbers.find(absl::StrCat(prefix, "failed"));
  if (failed == numbers.end()) return;
  state_ = State{};
  state_.failed = static_cast<int64_t>(failed->second);
  const auto best = numbers.find(absl::StrCat(prefix, "best"));
  const auto step = numbers.find(absl::StrCat(prefix, "step"));
  if (best == numbers.end() || step == numbers.end()) return;
  state_.any = true;
  state_.best = best->second;
  state_.step = static_cast<int64_t>(step->second);
}

}  // namespace adjoin
