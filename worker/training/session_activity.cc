#include "worker/training/session_activity.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "primitives/transport/tag.h"

namespace adjoin {

void SessionActivity::Watch(const Communicator* communicator) {
  absl::MutexLock lock(&mutex_);
  communicator_ = communicator;
}

void SessionActivity::StartPhase(const std::string& phase) {
  absl::MutexLock lock(&mutex_);
  phase_ = phase;
  ++phases_;
  SetStep(0);
  changed_.NotifyAll();
}

void SessionActivity::AddTrainingStep(absl::Duration taken) {
  absl::MutexLock lock(&mutex_);
  step_seconds_[steps_++ % kRememberedSteps] = absl::ToDoubleSeconds(taken);
}

double SessionActivity::MedianStepSeconds() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min<uint64_t>(steps_, kRememberedSteps));
  if (count == 0) return 0;
  std::array<double, kRememberedSteps> sorted = step_seconds_;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  return sorted[count / 2];
}

double SessionActivity::StepSeconds() const {
  absl::MutexLock lock(&mutex_);
  return MedianStepSeconds();
}

RankPulse SessionActivity::Now() const {
  RankPulse pulse;
  absl::MutexLock lock(&mutex_);
  pulse.set_phase(phase_);
  pulse.set_step(step_.load(std::memory_order_relaxed));
  pulse.set_step_seconds(MedianStepSeconds());
  std::optional<Communicator::Waiting> waiting;
  if (communicator_ != nullptr) waiting = communicator_->waiting();
  const char* elsewhere = waits_in_;
  if (waiting.has_value()) {
    pulse.set_activity(WAITING);
    pulse.set_operator_(absl::StrCat(waiting->name, waiting->direction == Direction::kAdjoint ? " (adjoint)" : ""));
    pulse.set_generation(waiting->execution);
  } else if (elsewhere != nullptr) {
    pulse.set_activity(WAITING);
    pulse.set_operator_(elsewhere);
  } else if (files_ > 0) {
    pulse.set_activity(FILES);
  } else {
    pulse.set_activity(phases_ == 0 ? STARTING_UP : COMPUTING);
  }
  return pulse;
}

bool SessionActivity::AwaitPhase(uint64_t* phase, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  changed_.Wait(mutex_, deadline, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || phases_ != *phase; });
  *phase = phases_;
  return !closed_;
}

void SessionActivity::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace adjoin
