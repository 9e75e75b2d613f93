#include "worker/session/session_run.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/training/validation.h"

namespace adjoin {

absl::Status SessionRun::RecordStep(const StepReport& report) {
  result_.final.set_loss(report.loss);
  result_.final.set_epoch(static_cast<uint32_t>(report.epoch));
  // This rank's running means.
  const double weight = 1.0 / static_cast<double>(report.step - phase_first_step_);
  JobProgress& p = result_.final;
  p.set_compute_seconds(p.compute_seconds() + (report.compute_seconds - p.compute_seconds()) * weight);
  p.set_sync_seconds(p.sync_seconds() + (report.sync_seconds - p.sync_seconds()) * weight);
  if (metrics_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  MetricsWriter::Line line = {{"type", "step"},
                              {"step", report.step},
                              {"epoch", report.epoch},
                              {"loss", report.loss},
                              {"lr", report.learning_rate},
                              {"samples", report.samples},
                              {"t_comp", report.compute_seconds},
                              {"t_sync", report.sync_seconds},
                              {"bytes_sent", report.bytes_sent}};
  if (report.gradient_norm.has_value()) line.push_back({"grad_norm", *report.gradient_norm});
  return output_->AsShown(metrics_->Write(line));
}

absl::Status SessionRun::RunTraining() {
  ADJOIN_ASSIGN_OR_RETURN(trainer_, Trainer::Create(plan_, &communicator_, &*parameters_, Data(), layers_,
                                                    &activity_));
  ADJOIN_RETURN_IF_ERROR(ResumeTraining());
  if (!result_.resumed_step.has_value()) ADJOIN_RETURN_IF_ERROR(LoadWeights());
  if (Validation* validation = trainer_->validation(); validation != nullptr) validation->Restore(training_numbers_);
  const int64_t per_epoch = trainer_->steps_per_epoch();
  result_.final.set_program("train");
  result_.final.set_total_epochs(static_cast<uint32_t>((trainer_->total_steps() + per_epoch - 1) / per_epoch));
  StartPhase("training", trainer_->total_steps(), trainer_->steps_done());
  while (!trainer_->done() && !result_.drained_step.has_value()) {
    const Clock::time_point begin = Clock::now();
    ADJOIN_ASSIGN_OR_RETURN(const StepReport report, RunStep());
    ADJOIN_RETURN_IF_ERROR(RecordStep(report));
    activity_.AddTrainingStep(absl::FromChrono(Clock::now() - begin));
    ADJOIN_RETURN_IF_ERROR(ValidateAfter(report));
    CheckpointAfter(report);
    // After its last step training is over, whoever asked: all that it came to is still to be written.
    if (report.stop_asked && !trainer_->done()) result_.drained_step = report.step;
    Progress(report.step, /*last=*/trainer_->done() || result_.drained_step.has_value());
  }
  trained_ = result_.final;
  ADJOIN_RETURN_IF_ERROR(FinishCheckpoints());
  ADJOIN_RETURN_IF_ERROR(RecordTraining());
  trainer_.reset();  // what the optimizer holds is no use any more
  return absl::OkStatus();
}

absl::Status SessionRun::RecordTraining() {
  ADJOIN_ASSIGN_OR_RETURN(times_over_ranks_, trainer_->MeanTimesOverRanks());
  result_.peak_elements = trainer_->PeakElements();
  std::vector<std::string> sent;
  for (const auto& [program, traffic] : trainer_->traffic()) {
    result_.steps[program] = traffic.steps;
    result_.bytes_sent[program] = traffic.bytes;
    sent.push_back(absl::StrCat(traffic.bytes, " bytes in ", traffic.steps, " steps of ", program));
  }
  Log(absl::StrFormat("trained %d steps in %.1f s; sent %s; largest local tensor of each layer, in elements: %s",
                      trainer_->steps_done() - phase_first_step_, SecondsSince(phase_begin_), absl::StrJoin(sent, ", "),
                      absl::StrJoin(result_.peak_elements, ", ", absl::PairFormatter(" "))));
  return absl::OkStatus();
}

}  // namespace adjoin
