#include "worker/runtime/session_run.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace adjoin {

absl::Status SessionRun::RecordStep(const StepReport& report) {
  result_.final.set_loss(report.loss);
  result_.final.set_epoch(static_cast<uint32_t>(report.epoch));
  // This rank's running means.
  const double weight = 1.0 / static_cast<double>(report.step);
  JobProgress& p = result_.final;
  p.set_compute_seconds(p.compute_seconds() + (report.compute_seconds - p.compute_seconds()) * weight);
  p.set_sync_seconds(p.sync_seconds() + (report.sync_seconds - p.sync_seconds()) * weight);
  if (metrics_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  return output_->AsShown(metrics_->Write({{"type", "step"},
                                           {"step", report.step},
                                           {"epoch", report.epoch},
                                           {"loss", report.loss},
                                           {"samples", report.samples},
                                           {"t_comp", report.compute_seconds},
                                           {"t_sync", report.sync_seconds},
                                           {"bytes_sent", report.bytes_sent}}));
}

absl::Status SessionRun::RunTraining(Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(plan_, &communicator_, parameters, options_.data_root, layers_, &activity_));
  const int64_t per_epoch = trainer->steps_per_epoch();
  result_.final.set_program("train");
  result_.final.set_total_epochs(static_cast<uint32_t>((trainer->total_steps() + per_epoch - 1) / per_epoch));
  StartPhase("training", trainer->total_steps());
  while (!trainer->done() && !result_.drained_step.has_value()) {
    const Clock::time_point begin = Clock::now();
    ADJOIN_ASSIGN_OR_RETURN(const StepReport report, trainer->RunStep(stop_asked()));
    ADJOIN_RETURN_IF_ERROR(RecordStep(report));
    activity_.AddTrainingStep(absl::FromChrono(Clock::now() - begin));
    // After its last step training is over, whoever asked: all that it came to is still to be written.
    if (report.stop_asked && !trainer->done()) result_.drained_step = report.step;
    Progress(report.step, /*last=*/trainer->done() || result_.drained_step.has_value());
  }
  trained_ = result_.final;
  return RecordTraining(*trainer);
}

absl::Status SessionRun::RecordTraining(Trainer& trainer) {
  ADJOIN_ASSIGN_OR_RETURN(times_over_ranks_, trainer.MeanTimesOverRanks());
  result_.peak_elements = trainer.PeakElements();
  std::vector<std::string> sent;
  for (const auto& [program, traffic] : trainer.traffic()) {
    result_.steps[program] = traffic.steps;
    result_.bytes_sent[program] = traffic.bytes;
    sent.push_back(absl::StrCat(traffic.bytes, " bytes in ", traffic.steps, " steps of ", program));
  }
  Log(absl::StrFormat("trained %d steps in %.1f s; sent %s; largest local tensor of each layer, in elements: %s",
                      trainer.steps_done(), SecondsSince(phase_begin_), absl::StrJoin(sent, ", "),
                      absl::StrJoin(result_.peak_elements, ", ", absl::PairFormatter(" "))));
  return absl::OkStatus();
}

}  // namespace adjoin
