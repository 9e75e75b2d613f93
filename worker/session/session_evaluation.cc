#include "worker/session/session_run.h"

#include "base/status_macros.h"
#include "worker/training/evaluation_report.h"

namespace adjoin {

absl::Status SessionRun::RunEvaluation(Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                          Evaluator::Create(plan_, "evaluate", &communicator_, parameters, Data(), layers_,
                                            &activity_));
  result_.final.set_program("evaluate");
  StartPhase("evaluating", evaluator->total_steps());
  while (!evaluator->done()) {
    ADJOIN_RETURN_IF_ERROR(evaluator->RunStep(stop_asked()));
    if (evaluator->done()) break;
    if (evaluator->stop_asked()) {
      result_.drained_step = plan_.spec().kind() == TRAIN ? trained_.step() : evaluator->steps_done();
      return absl::OkStatus();
    }
    Progress(evaluator->steps_done(), /*last=*/false);
  }
  return RecordEvaluation(*evaluator);
}

absl::Status SessionRun::RecordEvaluation(const Evaluator& evaluator) {
  const EvaluationReport report = evaluator.report();
  AddMetrics(report, result_.final.mutable_metric());
  Progress(evaluator.steps_done(), /*last=*/true);
  if (metrics_ == nullptr) return absl::OkStatus();
  Log(TextOf(report));
  const SessionActivity::Files files(&activity_);
  return output_->AsShown(metrics_->Write(LineOf(report, "evaluation")));
}

}  // namespace adjoin
