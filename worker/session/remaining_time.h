// How long the rest of a phase takes, from what its steps have taken so far: a job that became slower, or faster, a
// minute ago is expected to stay so. What comes between steps (validation, checkpoints) counts at its mean, since it
// may be rare and long.
//
//   RemainingTime remaining;
//   remaining.AddSteps(1, /*step_seconds=*/0.5, /*other_seconds=*/0);
//   remaining.Seconds(/*steps=*/100);   // 50
//
// One thread.
#ifndef ADJOIN_WORKER_SESSION_REMAINING_TIME_H_
#define ADJOIN_WORKER_SESSION_REMAINING_TIME_H_

#include <cstdint>

namespace adjoin {

class RemainingTime {
 public:
  // `steps` more are done, in `step_seconds`; before or between them `other_seconds` went to something else.
  void AddSteps(int64_t steps, double step_seconds, double other_seconds);
  // For `steps` more. 0: no step is known yet.
  double Seconds(int64_t steps) const;

 private:
  // A step of so many seconds ago counts 1/e of one of now.
  static constexpr double kMemory = 30;

  double recent_steps_ = 0, recent_seconds_ = 0;  // weighted by age
  double steps_ = 0, other_seconds_ = 0;          // of the whole phase
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_REMAINING_TIME_H_
