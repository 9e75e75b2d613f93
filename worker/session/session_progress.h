// The progress that a session reports: its phases, their steps, and what else JobProgress holds.
//
//   progress.StartPhase("evaluating", /*total_steps=*/10);
//   progress.SetStep(1, /*last=*/false);
//   progress.shown().set_loss(0.25);          // reported with the next step
//
// One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_PROGRESS_H_
#define ADJOIN_WORKER_SESSION_SESSION_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/coordinator.pb.h"
#include "worker/session/remaining_time.h"
#include "worker/session/session_environment.h"

namespace adjoin {

class SessionProgress {
 public:
  // `environment` must outlive it.
  explicit SessionProgress(const SessionEnvironment& environment) : environment_(environment) {}
  SessionProgress(const SessionProgress&) = delete;
  SessionProgress& operator=(const SessionProgress&) = delete;

  // `steps_done`: steps of the phase that a run before this one has done.
  void StartPhase(const std::string& phase, int64_t total_steps, int64_t steps_done = 0);
  // `step` steps of the phase are done. Reports it at most ten times a second, and always where it is the last.
  void SetStep(int64_t step, bool last);
  // So many seconds since the last SetStep went to something else than a step: validation, a checkpoint.
  void AddOther(double seconds) { other_seconds_ += seconds; }
  // The step of the newest durable checkpoint, reported from the next step on. Not called: the job writes none.
  void set_checkpoint_step(int64_t step) { checkpoint_step_ = step; }

  // Keeps the progress of training, which has ended, and reports it again as the job's last progress: what is left to
  // be seen of a job are its steps of training, not those of a later phase.
  void KeepTraining() { trained_ = shown_; }
  void ShowTraining();
  const JobProgress& trained() const { return trained_; }

  // Sets in `shown` what the rank's memory was at most, and how long its last steps took. Part of every report.
  void AddPeaks();

  // The progress as it was last set, in the part that the caller knows (loss, metrics, ...).
  JobProgress& shown() { return shown_; }
  const JobProgress& shown() const { return shown_; }

  int64_t first_step() const { return first_step_; }  // the phase's `steps_done`
  double phase_seconds() const { return SecondsSince(phase_begin_); }
  double session_seconds() const { return SecondsSince(begin_); }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  void Report();

  const SessionEnvironment& environment_;
  const Clock::time_point begin_ = Clock::now();
  JobProgress shown_;
  JobProgress trained_;
  std::optional<int64_t> checkpoint_step_;
  Clock::time_point phase_begin_ = begin_;
  Clock::time_point last_report_;
  Clock::time_point last_step_ = begin_;
  int64_t step_ = 0;
  double other_seconds_ = 0;
  RemainingTime remaining_;
  int64_t total_steps_ = 0;
  int64_t first_step_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_PROGRESS_H_
