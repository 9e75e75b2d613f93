// The activity of a session at the moment, for those that watch its progress: readable from any thread, at any time.
//
//   SessionActivity activity;
//   std::thread watcher([&] {
//     uint64_t phase = 0;
//     do Send(activity.Now()); while (activity.AwaitPhase(&phase, Deadline::After(absl::Seconds(1))));
//   });
//   options.activity = &activity;
//   RunSession(options);
//   activity.Close();
//
// The session's thread writes and pays a few stores a step; Now and AwaitPhase are for any thread. No LibTorch here.
#ifndef ADJOIN_WORKER_TRAINING_SESSION_ACTIVITY_H_
#define ADJOIN_WORKER_TRAINING_SESSION_ACTIVITY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "primitives/comm/communicator.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class SessionActivity {
 public:
  SessionActivity() = default;
  SessionActivity(const SessionActivity&) = delete;
  SessionActivity& operator=(const SessionActivity&) = delete;

  // While one lives, the session reads or writes files. `activity` may be null.
  class Files {
   public:
    explicit Files(SessionActivity* activity) : activity_(activity) {
      if (activity_ != nullptr) ++activity_->files_;
    }
    ~Files() {
      if (activity_ != nullptr) --activity_->files_;
    }
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

   private:
    SessionActivity* activity_;
  };

  // While one lives, the session waits for other ranks elsewhere than in its communicator. `what` is a literal.
  class Waits {
   public:
    Waits(SessionActivity* activity, const char* what) : activity_(activity) { activity_->waits_in_ = what; }
    ~Waits() { activity_->waits_in_ = nullptr; }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;

   private:
    SessionActivity* activity_;
  };

  // Shows the waits of the session's communicator from now on; null: it exists no longer.
  void Watch(const Communicator* communicator);
  void StartPhase(const std::string& phase);  // sets the step to 0
  void SetStep(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  void AddTrainingStep(absl::Duration taken);

  // Returns all fields but rank, age_seconds and process. Where several activities hold at once, WAITING wins over
  // FILES, and FILES over COMPUTING; before the first phase STARTING_UP replaces COMPUTING.
  RankPulse Now() const;

  // Median of the last steps of training; 0: none done yet.
  double StepSeconds() const;

  // Returns true once a phase other than number `*phase` (0 at first) has begun, with its number in `*phase`, or at the
  // deadline; false once Close was called.
  bool AwaitPhase(uint64_t* phase, Deadline deadline);
  void Close();

 private:
  static constexpr std::size_t kRememberedSteps = 32;

  double MedianStepSeconds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<int> files_{0};
  std::atomic<const char*> waits_in_{nullptr};
  std::atomic<int64_t> step_{0};
  mutable absl::Mutex mutex_;
  MonotonicCondition changed_;
  const Communicator* communicator_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::string phase_ ABSL_GUARDED_BY(mutex_) = "starting";
  uint64_t phases_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<double, kRememberedSteps> step_seconds_ ABSL_GUARDED_BY(mutex_) = {};  // the last steps'
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;                                      // steps of training so far
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_SESSION_ACTIVITY_H_
