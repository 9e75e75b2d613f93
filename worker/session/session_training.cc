#include "worker/session/session_training.h"

#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include <google/protobuf/map.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "planner/plan/plan_report.h"
#include "worker/session/session_weights.h"
#include "worker/training/evaluation_report.h"
#include "worker/training/validation.h"

namespace adjoin {

absl::Status SessionTraining::Begin() {
  ADJOIN_ASSIGN_OR_RETURN(
      trainer_, Trainer::Create(environment_.plan(), environment_.communicator, parameters_, environment_.Data(),
                                environment_.layers, environment_.activity, environment_.planning));
  ADJOIN_ASSIGN_OR_RETURN(SessionCheckpoints::Start start, checkpoints_.Begin(*trainer_));
  result_.resumed_step = start.resumed_step;
  validated_.numbers = std::move(start.numbers);
  if (!result_.resumed_step.has_value()) ADJOIN_RETURN_IF_ERROR(LoadWeights(environment_, parameters_));
  if (Validation* validation = trainer_->validation(); validation != nullptr) validation->Restore(validated_.numbers);
  const int64_t per_epoch = trainer_->steps_per_epoch();
  progress_->shown().set_program("train");
  progress_->shown().set_total_epochs(static_cast<uint32_t>((trainer_->total_steps() + per_epoch - 1) / per_epoch));
  progress_->StartPhase("training", trainer_->total_steps(), trainer_->steps_done());
  return result_.resumed_step.has_value() ? absl::OkStatus() : RecordPrediction();
}

absl::Status SessionTraining::RecordPrediction() {
  const Plan& plan = environment_.plan();
  if (!environment_.writes() || plan.spec().ranks() > SessionLayerTimes::kMostPredicted) return absl::OkStatus();
  MetricsWriter::Line line = {{"type", "plan"}};
  // Training needs no prediction.
  if (const auto memory = KnowsMemory(plan) ? MakeMemoryReport(plan) : absl::NotFoundError(""); memory.ok()) {
    line.push_back({"rank", int64_t{memory->rank()}});
    line.push_back({"tensor_bytes", memory->bytes()});
    line.push_back({"resident_bytes", memory->resident()});
    line.push_back({"during", memory->during()});
  }
  if (const TimeReport* time = layer_times_.Predicted(); time != nullptr) {
    line.push_back({"step_seconds", time->step_seconds()});
    line.push_back({"compute_seconds", time->compute_seconds()});
    line.push_back({"movement_seconds", time->movement_seconds()});
    line.push_back({"wait_seconds", time->wait_seconds()});
    line.push_back({"rates", time->rates()});
  }
  return line.size() > 1 ? output_->WriteMetrics(line) : absl::OkStatus();
}

absl::Status SessionTraining::RecordPeaks(const StepReport& report) {
  const bool last_of_epoch = report.step % trainer_->steps_per_epoch() == 0 || trainer_->done();
  if (!environment_.writes() || !last_of_epoch) return absl::OkStatus();
  progress_->AddPeaks();
  const JobProgress& shown = progress_->shown();
  return output_->WriteMetrics({{"type", "memory"},
                                {"step", report.step},
                                {"epoch", report.epoch},
                                {"rank", int64_t{0}},
                                {"peak_tensor_bytes", shown.peak_tensor_bytes()},
                                {"peak_resident_bytes", shown.peak_resident_bytes()},
                                {"step_seconds", shown.step_seconds()}});
}

absl::StatusOr<StepReport> SessionTraining::RunStep() {
  validated_.metrics.clear();
  validated_.best = false;
  return trainer_->RunStep(environment_.stop_asked(), checkpoints_.Words(), traces_.Asked());
}

absl::Status SessionTraining::RecordStep(const StepReport& report) {
  JobProgress& shown = progress_->shown();
  shown.set_loss(report.loss);
  if (report.skipped) RecordSkipped(report);
  shown.set_epoch(static_cast<uint32_t>(report.epoch));
  // This rank's running means.
  const double weight = 1.0 / static_cast<double>(report.step - progress_->first_step());
  shown.set_compute_seconds(shown.compute_seconds() + (report.compute_seconds - shown.compute_seconds()) * weight);
  shown.set_sync_seconds(shown.sync_seconds() + (report.sync_seconds - shown.sync_seconds()) * weight);
  if (!environment_.writes()) return absl::OkStatus();
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
  if (report.skipped) line.push_back({"skipped", int64_t{1}});
  ADJOIN_RETURN_IF_ERROR(output_->WriteMetrics(line));
  return layer_times_.Record(report);
}

void SessionTraining::RecordSkipped(const StepReport& report) {
  (*progress_->shown().mutable_metric())["skipped_steps"] = static_cast<double>(++skipped_steps_);
  if (skipped_steps_ > 1 || !environment_.writes()) return;
  environment_.Log(absl::StrCat("step ", report.step, " is skipped: with precision.loss_scale ",
                                environment_.plan().spec().precision().loss_scale(), " its gradients are not finite, ",
                                "though the loss is ", report.loss, "; further such steps are counted, not told"));
}

void SessionTraining::WriteCheckpointAfter(const StepReport& report) {
  const SpanScope span(environment_.communicator->recorder(), {.kind = SpanKind::kCheckpoint});
  checkpoints_.AfterStep(*trainer_, report, validated_);
}

absl::Status SessionTraining::ValidateAfter(const StepReport& step) {
  if (!trainer_->validation_due()) return absl::OkStatus();
  const SpanScope span(environment_.communicator->recorder(), {.kind = SpanKind::kValidation});
  Validation& validation = *trainer_->validation();
  ADJOIN_ASSIGN_OR_RETURN(const EvaluationReport report, validation.Run(step.step));
  validated_.numbers = validation.Numbers();
  validated_.best = validation.is_best();
  google::protobuf::Map<std::string, double> metrics;
  AddMetrics(report, &metrics);
  for (const auto& [name, value] : metrics) {
    (*progress_->shown().mutable_metric())[absl::StrCat("validation.", name)] = value;
    if (std::isfinite(value)) validated_.metrics[name] = value;
  }
  if (!environment_.writes()) return absl::OkStatus();
  environment_.Log(
      absl::StrCat("step ", step.step, ", validation: ", TextOf(report), validated_.best ? ", the best so far" : ""));
  if (validation.should_stop()) {
    const BestMetric& judged = validation.stops_by();
    const BestMetric::State& state = judged.state();
    environment_.Log(absl::StrCat("stopped early after step ", step.step, ": ", state.failed,
                                  " validations in a row have not improved the ", judged.metric(),
                                  state.any ? absl::StrCat(" of step ", state.step, ", ", state.best) : ""));
  }
  MetricsWriter::Line line = LineOf(report, "validation");
  line.insert(line.begin() + 1, {{"step", step.step}, {"epoch", step.epoch}});
  return output_->WriteMetrics(line);
}

absl::StatusOr<SessionTraining::Result> SessionTraining::Run() {
  ADJOIN_RETURN_IF_ERROR(Begin());
  while (!trainer_->done() && !result_.drained_step.has_value()) {
    ADJOIN_RETURN_IF_ERROR(traces_.BeforeStep(*trainer_));
    const auto begin = std::chrono::steady_clock::now();
    ADJOIN_ASSIGN_OR_RETURN(const StepReport report, RunStep());
    ADJOIN_RETURN_IF_ERROR(RecordStep(report));
    environment_.activity->AddTrainingStep(absl::FromChrono(std::chrono::steady_clock::now() - begin));
    ADJOIN_RETURN_IF_ERROR(RecordPeaks(report));
    const auto stepped = std::chrono::steady_clock::now();
    ADJOIN_RETURN_IF_ERROR(ValidateAfter(report));
    WriteCheckpointAfter(report);
    progress_->AddOther(std::chrono::duration<double>(std::chrono::steady_clock::now() - stepped).count());
    // After the last step training is over, even where a rank was asked to stop: its results are still to be written.
    if (report.stop_asked && !trainer_->done()) result_.drained_step = report.step;
    const bool last = trainer_->done() || result_.drained_step.has_value();
    ADJOIN_RETURN_IF_ERROR(traces_.AfterStep(*trainer_, report, last));
    progress_->SetStep(report.step, last || traces_.TakeNews());
  }
  traces_.Finish(*trainer_);
  progress_->KeepTraining();
  // With a checkpoint of the last step, neither a later phase nor another attempt needs a step again.
  const bool stepped = trainer_->steps_done() > progress_->first_step();
  ADJOIN_RETURN_IF_ERROR(checkpoints_.Finish(*trainer_, /*write=*/stepped, validated_));
  ADJOIN_RETURN_IF_ERROR(RecordTraining());
  trainer_.reset();  // frees the memory of its networks and its optimizer for the next phase
  return result_;
}

absl::Status SessionTraining::RecordTraining() {
  ADJOIN_ASSIGN_OR_RETURN(result_.times, trainer_->MeanTimesOverRanks());
  result_.peak_elements = trainer_->PeakElements();
  std::vector<std::string> sent;
  for (const auto& [program, traffic] : trainer_->traffic()) {
    result_.steps[program] = traffic.steps;
    result_.bytes_sent[program] = traffic.bytes;
    sent.push_back(absl::StrCat(traffic.bytes, " bytes in ", traffic.steps, " steps of ", program));
  }
  environment_.Log(absl::StrFormat(
      "trained %d steps%s in %.1f s; sent %s; largest local tensor of each layer, in elements: %s",
      trainer_->steps_done() - progress_->first_step(),
      skipped_steps_ > 0 ? absl::StrCat(", ", skipped_steps_, " of them skipped,") : "", progress_->phase_seconds(),
      absl::StrJoin(sent, ", "), absl::StrJoin(result_.peak_elements, ", ", absl::PairFormatter(" "))));
  return absl::OkStatus();
}

}  // namespace adjoin
