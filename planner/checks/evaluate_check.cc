#include "planner/checks/evaluate_check.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/metric_rule.h"
#include "planner/checks/name_check.h"

namespace adjoin {

absl::Status CheckEvaluate(const JobSpec& spec) {
  if (!spec.has_evaluate()) {
    if (spec.kind() != EVALUATE) return absl::OkStatus();
    return InvalidSpec("evaluate is missing: evaluate { dataset: ... metric: ... }");
  }
  if (spec.kind() == PREDICT) {
    return AtField("evaluate",
                   InvalidSpec("evaluate is for jobs of kind TRAIN and EVALUATE; this one is of kind PREDICT,"
                               " which writes what the layers return and compares it with nothing"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "evaluate.dataset", spec.evaluate().dataset()));
  if (spec.evaluate().metric().empty()) {
    return AtField("evaluate", InvalidSpec("evaluate.metric is missing; write metric: \"accuracy\""));
  }
  std::set<std::string> names;
  bool psnr = spec.train().early_stop().metric() == "psnr" || spec.checkpoint().keep_best() == "psnr";
  for (int i = 0; i < spec.evaluate().metric_size(); ++i) {
    const std::string at = absl::StrCat("evaluate.metric[", i, "]");
    const absl::StatusOr<Metric> metric = ParseMetric(spec.evaluate().metric(i));
    if (!metric.ok()) return AtField(at, metric.status());
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckMetricHasLoss(spec, *metric)));
    if (!names.insert(metric->name).second)
      return AtField(at, InvalidSpec("metric \"", metric->name, "\" is named twice"));
    psnr = psnr || metric->kind == MetricKind::kPsnr;
  }
  const double range = spec.evaluate().range();
  if (range != 0 && !psnr) {
    return AtField("evaluate.range",
                   InvalidSpec("evaluate.range is for metric \"psnr\", which the job does not ask for"));
  }
  if (!(range >= 0) || !std::isfinite(range)) {
    return AtField("evaluate.range", InvalidSpec("evaluate.range is ", range, "; it must be a finite number above 0"));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
