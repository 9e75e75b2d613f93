// The learning rate's factor over the steps, from Train.schedule: its phases follow each other, and after the last
// one its `to` stays. At step k (from 0) of a phase of n steps the factor is
//
//   "linear"  from + (to - from) k / n
//   "cosine"  to + (from - to) (1 + cos(pi k / n)) / 2
//   "step"    from; `to` comes at once, with the end of the phase
//
// so that every phase begins with its `from`, and `to` is the factor of the first step after it. Equal to
// torch.optim.lr_scheduler, with its step() called after each step of the optimizer:
//
//   LinearLR(start_factor=a, end_factor=b, total_iters=n)   phase { shape: "linear" steps: n from: a to: b }
//   CosineAnnealingLR(T_max=n, eta_min=e)                   phase { shape: "cosine" steps: n from: 1 to: e / lr }, to
//   its end StepLR(step_size=n, gamma=g)                            phases { shape: "step" steps: n from: g^i to: g^(i
//   + 1) } SequentialLR                                            one phase after another LambdaLR the factor itself
#ifndef ADJOIN_WORKER_TRAINING_SCHEDULE_H_
#define ADJOIN_WORKER_TRAINING_SCHEDULE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace adjoin {

// The factor of step `step` (from 0); 1 without a schedule.
double ScheduleFactor(const Train& train, int64_t step);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_SCHEDULE_H_
