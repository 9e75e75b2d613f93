#include "planner/checks/train_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/metric_rule.h"
#include "planner/checks/name_check.h"

namespace adjoin {
namespace {

constexpr uint32_t kMostTraceSteps = 1000;

absl::Status CheckSgd(const Sgd& sgd) {
  for (double value : {sgd.lr(), sgd.momentum(), sgd.dampening(), sgd.weight_decay()}) {
    ADJOIN_RETURN_IF_ERROR(CheckFinite("train.optimizer.sgd", value));
  }
  if (!(sgd.lr() > 0)) {
    return AtField("train.optimizer.sgd.lr",
                   InvalidSpec("train.optimizer.sgd.lr is ", sgd.lr(), "; it must be above 0"));
  }
  if (sgd.momentum() < 0 || sgd.weight_decay() < 0) {
    return AtField(sgd.momentum() < 0 ? "train.optimizer.sgd.momentum" : "train.optimizer.sgd.weight_decay",
                   InvalidSpec("momentum and weight_decay of train.optimizer.sgd must not be negative"));
  }
  if (sgd.nesterov() && (sgd.momentum() == 0 || sgd.dampening() != 0)) {
    return AtField("train.optimizer.sgd.nesterov",
                   InvalidSpec("nesterov of train.optimizer.sgd needs a momentum above 0 and no dampening"));
  }
  return absl::OkStatus();
}

// Checks of numbers of one optimizer, each at its field.
class Numbers {
 public:
  // `kind`: the optimizer's field in Optimizer.
  explicit Numbers(absl::string_view kind) : kind_(kind) {}

  absl::Status AboveZero(absl::string_view name, double value) const {
    return Check(name, value, value > 0, "above 0");
  }
  absl::Status NotNegative(absl::string_view name, double value) const {
    return Check(name, value, value >= 0, "at least 0");
  }
  // A moving average with a decay of 1 would never take in anything.
  absl::Status Decay(absl::string_view name, double value) const {
    return Check(name, value, value >= 0 && value < 1, "at least 0 and below 1");
  }

 private:
  absl::Status Check(absl::string_view name, double value, bool right, absl::string_view range) const {
    if (std::isfinite(value) && right) return absl::OkStatus();
    const std::string field = absl::StrCat("train.optimizer.", kind_, ".", name);
    return AtField(
        field, InvalidSpec(field, " is ", value, "; it must be ", std::isfinite(value) ? "" : "finite and ", range));
  }

  const std::string kind_;
};

// The limits are those of torch.optim, and lr is above 0. A number that is absent passes: its default is right.
absl::Status CheckAdam(const Adam& adam) {
  const Numbers numbers("adam");
  ADJOIN_RETURN_IF_ERROR(numbers.AboveZero("lr", adam.lr()));
  ADJOIN_RETURN_IF_ERROR(numbers.Decay("beta1", adam.beta1()));
  ADJOIN_RETURN_IF_ERROR(numbers.Decay("beta2", adam.beta2()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("eps", adam.eps()));
  return numbers.NotNegative("weight_decay", adam.weight_decay());
}

absl::Status CheckRmsProp(const RmsProp& rmsprop) {
  const Numbers numbers("rmsprop");
  ADJOIN_RETURN_IF_ERROR(numbers.AboveZero("lr", rmsprop.lr()));
  ADJOIN_RETURN_IF_ERROR(numbers.Decay("alpha", rmsprop.alpha()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("eps", rmsprop.eps()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("weight_decay", rmsprop.weight_decay()));
  return numbers.NotNegative("momentum", rmsprop.momentum());
}

absl::Status CheckAdagrad(const Adagrad& adagrad) {
  const Numbers numbers("adagrad");
  ADJOIN_RETURN_IF_ERROR(numbers.AboveZero("lr", adagrad.lr()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("lr_decay", adagrad.lr_decay()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("weight_decay", adagrad.weight_decay()));
  ADJOIN_RETURN_IF_ERROR(numbers.NotNegative("initial", adagrad.initial()));
  return numbers.NotNegative("eps", adagrad.eps());
}

// A factor beyond would leave hardly any gradient finite.
constexpr double kMostLossScale = 18446744073709551616.0;  // 2^64

absl::Status CheckLossScale(const JobSpec& spec) {
  const double scale = spec.precision().loss_scale();
  if (scale == 0) return absl::OkStatus();
  const char* field = "precision.loss_scale";
  if (!(scale >= 1 / kMostLossScale && scale <= kMostLossScale)) {
    return AtField(field, InvalidSpec(field, " is ", scale, "; it must be from 2^-64 to 2^64"));
  }
  if (!spec.has_train())
    return AtField(field, InvalidSpec(field, " needs train: only training has gradients to scale"));
  if (spec.train().optimizer().sgd().dampening() != 0) {
    return AtField(field, InvalidSpec(field,
                                      " with sgd.dampening: the first gradient is not damped, and its step may be"
                                      " skipped; leave one of them out"));
  }
  return absl::OkStatus();
}

absl::Status CheckTrace(const JobSpec& spec) {
  if (!spec.train().has_trace()) return absl::OkStatus();
  if (spec.kind() != TRAIN) {
    return AtField("train.trace", InvalidSpec("train.trace records steps that train, and the job's kind is ",
                                              Kind_Name(spec.kind()), "; leave it out, or write kind: TRAIN"));
  }
  const uint32_t steps = spec.train().trace().steps();
  if (steps < 1 || steps > kMostTraceSteps) {
    return AtField("train.trace.steps",
                   InvalidSpec("train.trace.steps is ", steps, "; it must be from 1 to ", kMostTraceSteps));
  }
  return absl::OkStatus();
}

absl::Status CheckPhase(const Phase& phase) {
  if (phase.shape() != "linear" && phase.shape() != "cosine" && phase.shape() != "step") {
    return AtField("shape",
                   InvalidSpec("shape \"", phase.shape(), "\" is not one of \"linear\", \"cosine\", \"step\""));
  }
  if (phase.steps() < 1) return AtField("steps", InvalidSpec("steps is 0; it must be at least 1"));
  for (const bool last : {false, true}) {
    const double factor = last ? phase.to() : phase.from();
    const char* name = last ? "to" : "from";
    if (std::isfinite(factor) && factor >= 0) continue;
    return AtField(name, InvalidSpec(name, " is ", factor,
                                     "; a factor of the learning rate must be a finite number, at"
                                     " least 0"));
  }
  return absl::OkStatus();
}

// The losses of the parts are added in proportion to their samples. The sum is exact where each sample has the same
// weight.
absl::Status CheckMicrobatches(const JobSpec& spec) {
  for (int i = 0; i < spec.loss_size(); ++i) {
    const Loss& loss = spec.loss(i);
    // A mean over probabilities is over all positions.
    const Field* target = FindField(*FindDataset(spec, spec.train().dataset()), loss.target());
    const bool weighed = !loss.class_weight().empty() && (target == nullptr || target->dtype() == "int64");
    const char* by_data = loss.kind() == "dice"       ? "kind"
                          : loss.reduction() == "sum" ? nullptr
                          : loss.has_ignore_index()   ? "ignore_index"
                          : weighed                   ? "class_weight"
                                                      : nullptr;
    if (by_data == nullptr) continue;
    const bool dice = loss.kind() == "dice";
    return AtField(
        "train.microbatches",
        InvalidSpec("train.microbatches: ", spec.train().microbatches(), " is not exact with loss ", i, ", ",
                    dice ? "of kind \"dice\", which is no sum over the samples"
                         : absl::StrCat("whose mean is over as many targets as its ", by_data, " lets count"),
                    "; right would be microbatches: 1",
                    dice ? "" : absl::StrCat(", or reduction: \"sum\", or no ", by_data)));
  }
  return absl::OkStatus();
}

absl::Status CheckInFlight(const JobSpec& spec) {
  const char* field = "train.microbatches_in_flight";
  const uint32_t in_flight = spec.train().microbatches_in_flight();
  const uint32_t parts = std::max<uint32_t>(1, spec.train().microbatches());
  if (in_flight > parts) {
    return AtField(field, InvalidSpec(field, " is ", in_flight, "; it must be from 1 to train.microbatches, ", parts));
  }
  if (in_flight > 1 && spec.compare_executions()) {
    return AtField(field, InvalidSpec(field, " is ", in_flight,
                                      ", and compare_executions lets ranks wait for each other in every movement, which"
                                      " ranks at different micro-batches cannot; leave one of them out"));
  }
  return absl::OkStatus();
}

absl::Status CheckValidation(const JobSpec& spec) {
  const Train& train = spec.train();
  if (train.validate_on().empty()) {
    const char* field = train.validate_every() > 0 ? "train.validate_every"
                        : train.has_early_stop()   ? "train.early_stop"
                                                   : nullptr;
    if (field == nullptr) return absl::OkStatus();
    return AtField(field, InvalidSpec(field, " needs train.validate_on: the data set to judge by"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "train.validate_on", train.validate_on()));
  if (!train.has_early_stop()) return absl::OkStatus();
  const EarlyStop& stop = train.early_stop();
  if (stop.patience() < 1) {
    return AtField("train.early_stop.patience",
                   InvalidSpec("train.early_stop.patience is missing; it must be at least 1"));
  }
  if (!std::isfinite(stop.min_delta()) || stop.min_delta() < 0) {
    return AtField("train.early_stop.min_delta", InvalidSpec("train.early_stop.min_delta is ", stop.min_delta(),
                                                             "; it must be a finite number, at least 0"));
  }
  if (stop.metric().empty()) return absl::OkStatus();
  const absl::StatusOr<Metric> metric = ParseMetric(stop.metric());
  if (!metric.ok()) return AtField("train.early_stop.metric", metric.status());
  if (metric->kind == MetricKind::kConfusion) {
    return AtField("train.early_stop.metric", InvalidSpec("metric \"confusion\" is no number to judge by"));
  }
  return AtField("train.early_stop.metric", CheckMetricHasLoss(spec, *metric));
}

// Steps up to this one are counted exactly, also in JSON.
constexpr uint64_t kMostSteps = uint64_t{1} << 53;

absl::Status CheckLength(const Train& train) {
  if (train.length_case() == Train::LENGTH_NOT_SET) {
    return AtField("train", InvalidSpec("train.epochs or train.steps is missing: when to stop"));
  }
  if (train.has_epochs() ? train.epochs() < 1 : train.steps() < 1) {
    const char* field = train.has_epochs() ? "train.epochs" : "train.steps";
    return AtField(field, InvalidSpec(field, " is 0; it must be at least 1"));
  }
  if (train.has_steps() && train.steps() > kMostSteps) {
    return AtField("train.steps", InvalidSpec("train.steps is ", train.steps(), "; at most 2^53 are possible"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTrain(const JobSpec& spec) {
  ADJOIN_RETURN_IF_ERROR(CheckLossScale(spec));
  if (spec.kind() != TRAIN && !spec.has_train()) return absl::OkStatus();
  if (!spec.has_train())
    return InvalidSpec("train is missing: train { dataset: ... batch: ... epochs: ... optimizer {...} }");
  const Train& train = spec.train();
  if (spec.kind() != TRAIN && train.measure_layers_every() > 0) {
    return AtField("train.measure_layers_every",
                   InvalidSpec("train.measure_layers_every measures steps that train, and the job's kind is ",
                               Kind_Name(spec.kind()), "; leave it out, or write kind: TRAIN"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckTrace(spec));
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "train.dataset", train.dataset()));
  if (train.batch() < 1) return AtField("train.batch", InvalidSpec("train.batch is 0; it must be at least 1"));
  ADJOIN_RETURN_IF_ERROR(CheckLength(train));
  if (train.microbatches() > 1) ADJOIN_RETURN_IF_ERROR(CheckMicrobatches(spec));
  ADJOIN_RETURN_IF_ERROR(CheckInFlight(spec));
  if (!std::isfinite(train.clip_norm()) || train.clip_norm() < 0) {
    return AtField("train.clip_norm",
                   InvalidSpec("train.clip_norm is ", train.clip_norm(), "; it must be a finite number above 0"));
  }
  uint64_t steps = 0;
  for (int i = 0; i < train.schedule_size(); ++i) {
    const std::string at = absl::StrCat("train.schedule[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckPhase(train.schedule(i))));
    if (train.schedule(i).steps() > kMostSteps - steps) {
      return AtField(absl::StrCat(at, ".steps"), InvalidSpec("the schedule has more than 2^53 steps"));
    }
    steps += train.schedule(i).steps();
  }
  const bool goes_on = train.has_epochs() || train.steps() > steps;
  if (const int last = train.schedule_size() - 1;
      last >= 0 && goes_on && train.schedule(last).to() == 0 && train.schedule(last).shape() == "step") {
    return AtField(absl::StrCat("train.schedule[", last, "].to"),
                   InvalidSpec("to is 0: after the schedule's ", steps,
                               " steps nothing would be learned any more; write the"
                               " factor that holds from there on"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckValidation(spec));
  switch (train.optimizer().kind_case()) {
    case Optimizer::kSgd: return CheckSgd(train.optimizer().sgd());
    case Optimizer::kAdam: return CheckAdam(train.optimizer().adam());
    case Optimizer::kRmsprop: return CheckRmsProp(train.optimizer().rmsprop());
    case Optimizer::kAdagrad: return CheckAdagrad(train.optimizer().adagrad());
    default: return AtField("train", InvalidSpec("train.optimizer is missing: optimizer { sgd { lr: 0.01 } }"));
  }
}

}  // namespace adjoin
