#include "worker/session/session.h"

#include <chrono>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/status_exception.h"
#include "worker/session/session_run.h"

namespace adjoin {
namespace {

constexpr char kFinished[] = "finished";
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

}  // namespace

void SessionRun::StartPhase(const std::string& phase, int64_t total_steps, int64_t steps_done) {
  activity_.StartPhase(phase);
  phase_begin_ = Clock::now();
  last_report_ = Clock::time_point();
  phase_steps_ = total_steps;
  phase_first_step_ = steps_done;
  result_.final.set_phase(phase);
  result_.final.set_total_steps(total_steps);
  Progress(steps_done, /*last=*/false);
}

void SessionRun::Progress(int64_t step, bool last) {
  activity_.SetStep(step);
  const Clock::time_point now = Clock::now();
  if (!last && now - last_report_ < kBetweenReports) return;
  last_report_ = now;
  JobProgress& progress = result_.final;
  progress.set_step(step);
  if (checkpoints_ != nullptr) progress.set_checkpoint_step(static_cast<uint64_t>(checkpoints_->last_durable().value_or(0)));
  progress.set_bytes_sent(communicator_.BytesSent());
  const double seconds = SecondsSince(phase_begin_);
  const double rate = seconds > 0 ? static_cast<double>(step - phase_first_step_) / seconds : 0;
  progress.set_steps_per_second(rate);
  progress.set_seconds_left(rate > 0 ? static_cast<double>(phase_steps_ - step) / rate : 0);
  if (options_.on_progress) options_.on_progress(progress);
}

absl::Status SessionRun::RunPhases() {
  ADJOIN_ASSIGN_OR_RETURN(parameters_, Parameters::Create(plan_, communicator_.rank()));
  parameters_->Initialise(plan_.spec().seed());
  // A job that trains may have a checkpoint instead (RunTraining).
  if (plan_.spec().kind() != TRAIN) ADJOIN_RETURN_IF_ERROR(LoadWeights());
  if (plan_.spec().kind() == PREDICT) return RunPrediction(&*parameters_);
  if (plan_.spec().kind() == TRAIN) {
    ADJOIN_RETURN_IF_ERROR(RunTraining());
    if (result_.drained_step.has_value()) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(WriteModel(*parameters_));
  }
  return plan_.spec().has_evaluate() ? RunEvaluation(&*parameters_) : absl::OkStatus();
}

// What is left to be seen of the job are its steps of training, not those of what came after it.
void SessionRun::ShowTraining() {
  activity_.StartPhase(kFinished);
  JobProgress& progress = result_.final;
  progress.set_phase(kFinished);
  progress.set_program(trained_.program());
  progress.set_step(trained_.step());
  progress.set_total_steps(trained_.total_steps());
  progress.set_steps_per_second(trained_.steps_per_second());
  progress.set_seconds_left(0);
  progress.set_bytes_sent(communicator_.BytesSent());
  if (options_.on_progress) options_.on_progress(progress);
}

absl::StatusOr<SessionResult> SessionRun::Run() {
  ADJOIN_RETURN_IF_ERROR(OpenOutput());
  ADJOIN_RETURN_IF_ERROR(RunPhases());
  if (result_.drained_step.has_value()) {
    result_.artifacts.clear();
    Log(absl::StrCat("asked to stop: all ranks did after step ", *result_.drained_step));
    return std::move(result_);
  }
  ADJOIN_RETURN_IF_ERROR(PublishOutput());
  if (plan_.spec().kind() == TRAIN) ShowTraining();
  return std::move(result_);
}

absl::StatusOr<SessionResult> RunSession(const SessionOptions& options) {
  if (options.transport == nullptr) return absl::InvalidArgumentError("a session needs a transport");
  try {
    at::set_num_threads(options.threads);
    return SessionRun(options).Run();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace adjoin
