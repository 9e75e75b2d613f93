#include "worker/session/session_progress.h"

#include <algorithm>

#include "base/process_memory.h"
#include "primitives/comm/communicator.h"
#include "primitives/tensor_memory.h"

namespace adjoin {
namespace {

constexpr char kFinished[] = "finished";
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

}  // namespace

void SessionProgress::AddPeaks() {
  if (environment_.plan().spec().resources().gpus() == 0) {  // else they are the GPU's
    shown_.set_peak_tensor_bytes(TensorMemoryInUse().tensors_highest);
  }
  shown_.set_peak_resident_bytes(ProcessMemoryInUse().most_resident);
  shown_.set_step_seconds(environment_.activity->StepSeconds());
}

void SessionProgress::Report() {
  AddPeaks();
  if (environment_.options.on_progress) environment_.options.on_progress(shown_);
}

void SessionProgress::StartPhase(const std::string& phase, int64_t total_steps, int64_t steps_done) {
  environment_.activity->StartPhase(phase);
  phase_begin_ = Clock::now();
  last_report_ = Clock::time_point();
  total_steps_ = total_steps;
  first_step_ = steps_done;
  last_step_ = phase_begin_;
  step_ = steps_done;
  other_seconds_ = 0;
  remaining_ = RemainingTime();
  shown_.set_phase(phase);
  shown_.set_total_steps(total_steps);
  SetStep(steps_done, /*last=*/false);
}

void SessionProgress::SetStep(int64_t step, bool last) {
  environment_.activity->SetStep(step);
  const Clock::time_point now = Clock::now();
  if (step > step_) {
    const double seconds = std::chrono::duration<double>(now - last_step_).count();
    remaining_.AddSteps(step - step_, std::max(0.0, seconds - other_seconds_), other_seconds_);
    last_step_ = now;
    step_ = step;
    other_seconds_ = 0;
  }
  if (!last && now - last_report_ < kBetweenReports) return;
  last_report_ = now;
  shown_.set_step(step);
  if (checkpoint_step_.has_value()) shown_.set_checkpoint_step(static_cast<uint64_t>(*checkpoint_step_));
  shown_.set_bytes_sent(environment_.communicator->BytesSent());
  const double seconds = phase_seconds();
  const double rate = seconds > 0 ? static_cast<double>(step - first_step_) / seconds : 0;
  shown_.set_steps_per_second(rate);
  shown_.set_seconds_left(remaining_.Seconds(total_steps_ - step));
  Report();
}

void SessionProgress::ShowTraining() {
  environment_.activity->StartPhase(kFinished);
  shown_.set_phase(kFinished);
  shown_.set_program(trained_.program());
  shown_.set_step(trained_.step());
  shown_.set_total_steps(trained_.total_steps());
  shown_.set_steps_per_second(trained_.steps_per_second());
  shown_.set_seconds_left(0);
  shown_.set_bytes_sent(environment_.communicator->BytesSent());
  Report();
}

}  // namespace adjoin
