#include "worker/session/remaining_time.h"

#include <cmath>

namespace adjoin {

void RemainingTime::AddSteps(int64_t steps, double step_seconds, double other_seconds) {
  const double kept = std::exp(-step_seconds / kMemory);
  recent_steps_ = recent_steps_ * kept + static_cast<double>(steps);
  recent_seconds_ = recent_seconds_ * kept + step_seconds;
  steps_ += static_cast<double>(steps);
  other_seconds_ += other_seconds;
}

double RemainingTime::Seconds(int64_t steps) const {
  if (steps_ <= 0) return 0;
  return static_cast<double>(steps) * (recent_seconds_ / recent_steps_ + other_seconds_ / steps_);
}

}  // namespace adjoin
