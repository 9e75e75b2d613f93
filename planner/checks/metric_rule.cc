#include "planner/checks/metric_rule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/loss/loss_rule.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

constexpr std::pair<MetricKind, const char*> kNames[] = {
    {MetricKind::kLoss, "loss"}, {MetricKind::kAccuracy, "accuracy"},   {MetricKind::kDice, "dice"},
    {MetricKind::kIou, "iou"},   {MetricKind::kConfusion, "confusion"}, {MetricKind::kMse, "mse"},
    {MetricKind::kMae, "mae"},   {MetricKind::kPsnr, "psnr"},
};
constexpr char kTop[] = "top";

bool ComparesNumbers(const Loss& loss) {
  return loss.kind() == "mse" || loss.kind() == "l1" || loss.kind() == "huber" || loss.kind() == "smooth_l1" ||
         loss.kind() == "gaussian_nll";
}

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Returns the index of the first loss that `fits`; -1: none.
template <typename Fits>
int FirstLoss(const ProgramPlan& program, Fits fits) {
  for (int i = 0; i < program.loss_size(); ++i) {
    if (fits(program.loss(i))) return i;
  }
  return -1;
}

// Returns the field of the spec that names the metric.
std::string FieldOfMetric(const JobSpec& spec, const std::string& name) {
  for (int i = 0; i < spec.evaluate().metric_size(); ++i) {
    if (spec.evaluate().metric(i) == name) return absl::StrCat("evaluate.metric[", i, "]");
  }
  return spec.checkpoint().keep_best() == name ? "checkpoint.keep_best" : "train.early_stop.metric";
}

}  // namespace

absl::StatusOr<Metric> ParseMetric(absl::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (name == known) return Metric{kind, 1, std::string(name)};
  }
  int64_t k = 0;
  const bool top = absl::StartsWith(name, kTop) && absl::SimpleAtoi(name.substr(sizeof(kTop) - 1), &k);
  // "top05" is refused: it would be a second name of "top5".
  if (top && k >= 1 && name == absl::StrCat(kTop, k)) return Metric{MetricKind::kTopK, k, std::string(name)};
  const std::string known = absl::StrJoin(
      kNames, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, "\"", entry.second, "\""); });
  return InvalidSpec("metric \"", name, "\" is not known; these are: ", known, ", \"top1\", \"top2\", ...");
}

absl::Status CheckMetricHasLoss(const JobSpec& spec, const Metric& metric) {
  if (metric.kind == MetricKind::kLoss && spec.loss().empty()) {
    return InvalidSpec(
        "metric \"loss\" needs a loss; the job has none: write loss { kind: ... input: ... target: ... }");
  }
  // Whether a data set has classes or probabilities is seen once its program's losses have been checked.
  const auto of_classes = [](const Loss& loss) { return IsClassification(loss, "int64"); };
  if (metric.OfClasses() && std::none_of(spec.loss().begin(), spec.loss().end(), of_classes)) {
    return InvalidSpec("metric \"", metric.name,
                       "\" needs a loss of classes, of kind \"cross_entropy\" or"
                       " \"nll\" with a target of dtype: \"int64\" (its weight may be 0); the job has none: add one, or"
                       " write metric: \"loss\"");
  }
  if (metric.OfNumbers() && std::none_of(spec.loss().begin(), spec.loss().end(), ComparesNumbers)) {
    return InvalidSpec(
        "metric \"", metric.name,
        "\" needs a loss that compares numbers, of kind \"mse\", \"l1\","
        " \"huber\", \"smooth_l1\" or \"gaussian_nll\" (its weight may be 0); the job has none: add one, or write"
        " metric: \"loss\"");
  }
  return absl::OkStatus();
}

bool ComparesClasses(const ProgramPlan& program, const LossPlan& loss) {
  return IsClassification(loss.spec(), program.value(loss.target()).layout().dtype());
}

std::vector<std::string> MetricsOfProgram(const JobSpec& spec, const std::string& program) {
  std::vector<std::string> names;
  const bool validates = StartsWith(program, "validate");
  if (!validates && !StartsWith(program, "evaluate")) return names;
  for (const std::string& name : spec.evaluate().metric()) AddOnce(name, names);
  if (validates) {
    AddOnce(spec.train().early_stop().metric(), names);
    AddOnce(spec.checkpoint().keep_best(), names);
  }
  return names;
}

absl::StatusOr<EvaluationNumbers> EvaluationNumbers::Create(const JobSpec& spec, const ProgramPlan& program) {
  EvaluationNumbers numbers;
  numbers.size_ = numbers.share(program.loss_size());
  const int class_loss = FirstLoss(program, [&](const LossPlan& loss) { return ComparesClasses(program, loss); });
  const int number_loss = FirstLoss(program, [](const LossPlan& loss) { return ComparesNumbers(loss.spec()); });
  for (const std::string& name : MetricsOfProgram(spec, program.name())) {
    const std::string field = FieldOfMetric(spec, name);
    absl::StatusOr<Metric> metric = ParseMetric(name);
    if (!metric.ok()) return AtField(field, metric.status());
    ADJOIN_RETURN_IF_ERROR(AtField(field, CheckMetricHasLoss(spec, *metric)));
    if (metric->OfClasses() && class_loss < 0) {
      return AtField(field, InvalidSpec("metric \"", name, "\" compares with the numbers of classes, but data set \"",
                                        program.dataset(),
                                        "\" has probabilities in their place; leave the metric out,"
                                        " or give it a target of dtype: \"int64\""));
    }
    if (metric->OfClasses()) {
      numbers.class_loss_ = class_loss;
      numbers.classes_ = program.value(program.loss(class_loss).input()).layout().shape(1);
    }
    if (metric->OfNumbers()) numbers.number_loss_ = number_loss;
    ADJOIN_RETURN_IF_ERROR(AtField(field, numbers.Add(*metric)));
    numbers.metrics_.push_back(*std::move(metric));
  }
  return numbers;
}

absl::Status EvaluationNumbers::Add(const Metric& metric) {
  const auto take = [this](int64_t& position, int64_t count) {
    if (position >= 0) return;
    position = size_;
    size_ += count;
  };
  if (metric.kind == MetricKind::kAccuracy || metric.kind == MetricKind::kTopK) {
    if (metric.k > classes_) {
      return InvalidSpec("metric \"", metric.name, "\" of a prediction with ", classes_,
                         " classes is always 1; write at most \"top", classes_, "\"");
    }
    take(counted_, 1);
    take(hits_.emplace(metric.k, -1).first->second, 1);
  } else if (metric.kind == MetricKind::kDice || metric.kind == MetricKind::kIou) {
    take(per_class_, 3 * classes_);
  } else if (metric.kind == MetricKind::kConfusion) {
    if (classes_ > kMaxConfusionClasses) {
      return InvalidSpec("metric \"confusion\" of ", classes_, " classes; it is possible for at most ",
                         kMaxConfusionClasses);
    }
    take(confusion_, classes_ * classes_);
  } else if (metric.OfNumbers()) {
    take(numbers_, 3);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
