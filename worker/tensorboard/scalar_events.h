// The scalars that a line of metrics.jsonl has for TensorBoard.
//
//   ScalarEvents events;
//   events.Of("{\"type\": \"step\", \"step\": 7, \"loss\": 2.5, \"lr\": 0.1, ...}");   // step 7: train/loss, train/lr,
//   ...
//
// Tags: "train/..." (loss, lr, grad_norm, skipped), "speed/..." (steps_per_second, samples_per_second, t_comp and
// t_sync of rank 0), "validation/..." and "evaluation/..." (loss and metrics, lists as "validation/dice_per_class/2"),
// "memory/..." (peaks of rank 0), "predicted/..." (what the plan tells). One thread.
#ifndef ADJOIN_WORKER_TENSORBOARD_SCALAR_EVENTS_H_
#define ADJOIN_WORKER_TENSORBOARD_SCALAR_EVENTS_H_

#include <cstdint>
#include <string>

#include "worker/tensorboard/event.pb.h"

namespace adjoin {

class ScalarEvents {
 public:
  // Without wall_time. No summary where the line has no scalar. Numbers that are not finite, null in the line, are NaN.
  tensorboard::Event Of(const std::string& line);
  // How long the line's step took; 0 of other lines.
  static double SecondsOf(const std::string& line);

 private:
  int64_t last_step_ = 0;  // an evaluation names none: it comes after it
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TENSORBOARD_SCALAR_EVENTS_H_
