#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/session/session_run.h"
#include "worker/training/evaluation_report.h"
#include "worker/training/validation.h"

namespace adjoin {

absl::Status SessionRun::ValidateAfter(const StepReport& step) {
  if (!trainer_->validation_due()) return absl::OkStatus();
  Validation& validation = *trainer_->validation();
  ADJOIN_ASSIGN_OR_RETURN(const EvaluationReport report, validation.Run(step.step));
  training_numbers_ = validation.Numbers();
  best_validation_ = validation.is_best();
  google::protobuf::Map<std::string, double> metrics;
  AddMetrics(report, &metrics);
  for (const auto& [name, value] : metrics) {
    (*result_.final.mutable_metric())[absl::StrCat("validation.", name)] = value;
    if (std::isfinite(value)) validation_[name] = value;
  }
  if (metrics_ == nullptr) return absl::OkStatus();
  Log(absl::StrCat("step ", step.step, ", validation: ", TextOf(report), best_validation_ ? ", the best so far" : ""));
  if (validation.should_stop()) {
    const BestMetric& judged = validation.stops_by();
    Log(absl::StrCat("stopped early after step ", step.step, ": ", judged.state().failed,
                     " validations in a row have not improved the ", judged.metric(),
                     judged.state().any ? absl::StrCat(" of step ", judged.state().step, ", ", judged.state().best) : ""));
  }
  MetricsWriter::Line line = LineOf(report, "validation");
  line.insert(line.begin() + 1, {{"step", step.step}, {"epoch", step.epoch}});
  const SessionActivity::Files files(&activity_);
  return output_->AsShown(metrics_->Write(line));
}

}  // namespace adjoin
