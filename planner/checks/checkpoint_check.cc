#include "planner/checks/checkpoint_check.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/metric_rule.h"
#include "planner/checks/name_check.h"

namespace adjoin {
namespace {

absl::Status CheckFolder(absl::string_view field, const std::string& path) {
  ADJOIN_RETURN_IF_ERROR(CheckPath(field, "--output-root", path));
  const absl::string_view reserved = ReservedName(path);
  if (reserved.empty()) return absl::OkStatus();
  return AtField(field, InvalidSpec("the path \"", path, "\" holds \"", reserved, "\"; ", kReservedNames));
}

absl::Status CheckKeepBest(const JobSpec& spec) {
  const std::string& name = spec.checkpoint().keep_best();
  if (name.empty()) return absl::OkStatus();
  constexpr char kField[] = "checkpoint.keep_best";
  if (spec.train().validate_on().empty()) {
    return AtField(kField, InvalidSpec("checkpoint.keep_best needs train.validate_on: the data set to judge by"));
  }
  const absl::StatusOr<Metric> metric = ParseMetric(name);
  if (!metric.ok()) return AtField(kField, metric.status());
  if (metric->kind == MetricKind::kConfusion) {
    return AtField(kField, InvalidSpec("metric \"confusion\" is no number to judge by"));
  }
  return AtField(kField, CheckMetricHasLoss(spec, *metric));
}

}  // namespace

absl::Status CheckCheckpoint(const JobSpec& spec) {
  if (!spec.has_checkpoint()) return absl::OkStatus();
  const Checkpoint& checkpoint = spec.checkpoint();
  if (spec.kind() != TRAIN) {
    return AtField("checkpoint", InvalidSpec("checkpoint is of jobs of kind TRAIN; weights.from_output starts from what"
                                             " another job wrote"));
  }
  if (!checkpoint.resume_from().empty() && spec.has_weights()) {
    return AtField("checkpoint.resume_from",
                   InvalidSpec("checkpoint.resume_from and weights both say what to start from;"
                               " write one of them"));
  }
  const double minutes = checkpoint.every_minutes();
  if (!std::isfinite(minutes) || minutes < 0) {
    return AtField("checkpoint.every_minutes",
                   InvalidSpec("checkpoint.every_minutes is ", minutes, "; it must be a finite number, at least 0"));
  }
  const bool writes = checkpoint.every_steps() > 0 || minutes > 0 || checkpoint.keep_last() > 0 ||
                      !checkpoint.keep_best().empty() || checkpoint.resume_from().empty();
  if (checkpoint.dir().empty() && writes) {
    return AtField("checkpoint", InvalidSpec("checkpoint.dir is missing: the folder, as checkpoint { dir: \"",
                                             spec.output_dir().empty() ? "my-job" : spec.output_dir(),
                                             "/checkpoints\" every_steps: 100 keep_last: 2 }"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckFolder("checkpoint.dir", checkpoint.dir()));
  ADJOIN_RETURN_IF_ERROR(CheckFolder("checkpoint.resume_from", checkpoint.resume_from()));
  return CheckKeepBest(spec);
}

}  // namespace adjoin
