// Validation while training: when it is due, the evaluation, and whether training should go on.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto validation,
//                           Validation::Create(plan, &communicator, &parameters, data_root, registry, nullptr));
//   if (validation->DueAfter(step, steps_per_epoch, total_steps)) {
//     ADJOIN_ASSIGN_OR_RETURN(EvaluationReport report, validation->Run(step));          // on every rank
//     if (validation->is_best()) ...
//     if (validation->should_stop()) ...
//   }
//
// It leaves the parameters and running statistics as they are. Every rank comes to the same answers. One thread.
#ifndef ADJOIN_WORKER_TRAINING_VALIDATION_H_
#define ADJOIN_WORKER_TRAINING_VALIDATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "proto/plan.pb.h"
#include "worker/samples/field_source.h"
#include "worker/training/best_metric.h"
#include "worker/training/evaluation_report.h"
#include "worker/training/evaluator.h"
#include "worker/training/extent_networks.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class Validation {
 public:
  // The plan's train.validate_on names a data set. Arguments and errors: as Evaluator::Create.
  static absl::StatusOr<std::unique_ptr<Validation>> Create(const Plan& plan, Communicator* communicator,
                                                            Parameters* parameters, const DataFolder& data,
                                                            const LayerRegistry& registry, SessionActivity* activity,
                                                            const ExtentPlanning& planning = {});

  // True where a validation is due after `step` steps: after every train.validate_every steps, or at the end of each
  // epoch where that is absent; and after the last step.
  bool DueAfter(int64_t step, int64_t steps_per_epoch, int64_t total_steps) const;

  // Evaluates the whole data set with the parameters as they are after `step` steps, then judges the result.
  // Collective.
  // Errors: as Evaluator::RunStep.
  absl::StatusOr<EvaluationReport> Run(int64_t step);

  // True where the last validation was the best so far, by checkpoint.keep_best, or where that is absent by the metric
  // of train.early_stop, or by the loss.
  bool is_best() const { return is_best_; }
  // True where train.early_stop.patience validations in a row have not improved its metric.
  bool should_stop() const;
  const BestMetric& stops_by() const { return stop_by_; }

  // The state that a run which resumes needs of the validations before it. Empty: there were none.
  std::map<std::string, double> Numbers() const;
  void Restore(const std::map<std::string, double>& numbers);

 private:
  Validation(uint64_t every, std::optional<uint32_t> patience, BestMetric best, BestMetric stop_by)
      : every_(every), patience_(patience), best_(std::move(best)), stop_by_(std::move(stop_by)) {}

  const uint64_t every_;
  const std::optional<uint32_t> patience_;
  BestMetric best_;
  BestMetric stop_by_;  // early_stop's
  bool is_best_ = false;
  std::unique_ptr<Evaluator> evaluator_;
  SessionActivity* activity_ = nullptr;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_VALIDATION_H_
