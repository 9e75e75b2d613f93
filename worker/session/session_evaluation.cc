#include "worker/session/session_evaluation.h"

#include <memory>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "worker/training/evaluation_report.h"
#include "worker/training/evaluator.h"

namespace adjoin {
namespace {

absl::Status Record(const SessionEnvironment& environment, const Evaluator& evaluator, SessionOutput* output,
                    SessionProgress* progress) {
  const EvaluationReport report = evaluator.report();
  AddMetrics(report, progress->shown().mutable_metric());
  progress->SetStep(evaluator.steps_done(), /*last=*/true);
  if (!environment.writes()) return absl::OkStatus();
  environment.Log(TextOf(report));
  return output->WriteMetrics(LineOf(report, "evaluation"));
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> RunEvaluation(const SessionEnvironment& environment, Parameters* parameters,
                                                     SessionOutput* output, SessionProgress* progress) {
  ADJOIN_ASSIGN_OR_RETURN(
      std::unique_ptr<Evaluator> evaluator,
      Evaluator::Create(environment.plan(), "evaluate", environment.communicator, parameters, environment.Data(),
                        environment.layers, environment.activity, environment.planning));
  progress->shown().set_program("evaluate");
  progress->StartPhase("evaluating", evaluator->total_steps());
  while (!evaluator->done()) {
    ADJOIN_RETURN_IF_ERROR(evaluator->RunStep(environment.stop_asked()));
    if (evaluator->done()) break;
    if (evaluator->stop_asked()) return evaluator->steps_done();
    progress->SetStep(evaluator->steps_done(), /*last=*/false);
  }
  ADJOIN_RETURN_IF_ERROR(Record(environment, *evaluator, output, progress));
  return std::nullopt;
}

}  // namespace adjoin
