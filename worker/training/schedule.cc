#include "worker/training/schedule.h"

#include <cmath>

namespace adjoin {

double ScheduleFactor(const Train& train, int64_t step) {
  if (train.schedule().empty()) return 1;
  auto position = static_cast<uint64_t>(step);
  for (const Phase& phase : train.schedule()) {
    if (position >= phase.steps()) {
      position -= phase.steps();
      continue;
    }
    const double part = static_cast<double>(position) / static_cast<double>(phase.steps());
    if (phase.shape() == "linear") return phase.from() + (phase.to() - phase.from()) * part;
    if (phase.shape() == "cosine") return phase.to() + (phase.from() - phase.to()) * (1 + std::cos(M_PI * part)) / 2;
    return phase.from();
  }
  return train.schedule(train.schedule_size() - 1).to();
}

}  // namespace adjoin
