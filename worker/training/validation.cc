#include "worker/training/validation.h"

#include <limits>

#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr char kBest[] = "best_metric.";
constexpr char kStop[] = "early_stop.";

}  // namespace

absl::StatusOr<std::unique_ptr<Validation>> Validation::Create(const Plan& plan, Communicator* communicator,
                                                               Parameters* parameters, const DataFolder& data,
                                                               const LayerRegistry& registry, SessionActivity* activity,
                                                               const ExtentPlanning& planning) {
  const Train& train = plan.spec().train();
  const EarlyStop& stop = train.early_stop();
  const std::string& keep = plan.spec().checkpoint().keep_best();
  ADJOIN_ASSIGN_OR_RETURN(BestMetric best, BestMetric::Create(keep.empty() ? stop.metric() : keep));
  ADJOIN_ASSIGN_OR_RETURN(BestMetric stop_by, BestMetric::Create(stop.metric(), stop.min_delta()));
  const auto patience = train.has_early_stop() ? std::optional<uint32_t>(stop.patience()) : std::nullopt;
  std::unique_ptr<Validation> validation(
      new Validation(train.validate_every(), patience, std::move(best), std::move(stop_by)));
  validation->activity_ = activity;
  ADJOIN_ASSIGN_OR_RETURN(validation->evaluator_, Evaluator::Create(plan, "validate", communicator, parameters, data,
                                                                    registry, activity, planning));
  return validation;
}

bool Validation::DueAfter(int64_t step, int64_t steps_per_epoch, int64_t total_steps) const {
  const auto done = static_cast<uint64_t>(step);
  const uint64_t every = every_ > 0 ? every_ : static_cast<uint64_t>(steps_per_epoch);
  return step > 0 && (done % every == 0 || step == total_steps);
}

absl::StatusOr<EvaluationReport> Validation::Run(int64_t step) {
  if (activity_ != nullptr) activity_->StartPhase("validating");
  evaluator_->Restart();
  while (!evaluator_->done()) {
    // Does not stop here where a rank was asked to: the validation belongs to a step that is done.
    ADJOIN_RETURN_IF_ERROR(evaluator_->RunStep());
    if (activity_ != nullptr) activity_->SetStep(evaluator_->steps_done());
  }
  if (activity_ != nullptr) {
    activity_->StartPhase("training");
    activity_->SetStep(step);
  }
  EvaluationReport report = evaluator_->report();
  const auto value = [&](const BestMetric& of) {
    return report.ValueOf(of.metric()).value_or(std::numeric_limits<double>::quiet_NaN());
  };
  is_best_ = best_.Judge(value(best_), step);
  stop_by_.Judge(value(stop_by_), step);
  return report;
}

bool Validation::should_stop() const { return patience_.has_value() && stop_by_.state().failed >= *patience_; }

std::map<std::string, double> Validation::Numbers() const {
  std::map<std::string, double> numbers;
  best_.ToNumbers(kBest, &numbers);
  stop_by_.ToNumbers(kStop, &numbers);
  return numbers;
}

void Validation::Restore(const std::map<std::string, double>& numbers) {
  best_.FromNumbers(kBest, numbers);
  stop_by_.FromNumbers(kStop, numbers);
}

}  // namespace adjoin
