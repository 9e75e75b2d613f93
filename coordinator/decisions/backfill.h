// Computes how many slots smaller jobs may take while the queue's head waits, so that they cannot delay it.
//
//   int budget = BackfillBudget(/*needed=*/6, /*free=*/2, /*running=*/{8, 1});     // 2
#ifndef ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_
#define ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_

#include <vector>

#include "coordinator/decisions/memory_behind.h"

namespace adjoin {

// The head needs `needed` slots, and `free` slots are free (fewer than needed). The running jobs hold `running` slots
// each and end in an unknown order. The head starts as soon as the slots of the jobs that have ended suffice. Slots
// given to others delay it if there is a set of running jobs whose end suffices with these slots and not without. The
// result is the largest number of slots for which there is no such set: x - (needed - free), where x is the smallest
// sum of a set of running jobs that is at least needed - free. Where all running jobs together do not suffice, the
// head waits for more workers in any case, and all free slots may be used.
int BackfillBudget(int needed, int free, const std::vector<int>& running);

// What jobs behind the queue's head may still take, in ranks.
//
// A head without GPUs waits for slots, which jobs with and without GPUs take alike. A head with GPUs waits for GPUs
// that each have a slot for the rank beside them: jobs with GPUs take of a number of these, and jobs without leave a
// slot to each GPU on its worker, so that the head never lacks one.
class Backfill {
 public:
  // Nothing.
  Backfill() = default;
  // Behind a head without GPUs, or one that could never start.
  static Backfill OfSlots(int slots, const MemoryBehind& memory = {}) {
    return Backfill(slots, slots, /*one_budget=*/true, memory);
  }
  // Behind a head with GPUs: `slots` that are left when each free GPU has one.
  static Backfill BesideGpus(int slots, int gpus, const MemoryBehind& memory = {}) {
    return Backfill(slots, gpus, /*one_budget=*/false, memory);
  }

  const MemoryBehind& memory() const { return memory_; }
  bool IsUsedUp() const { return plain_ <= 0 && with_gpus_ <= 0; }
  bool Allows(int ranks, bool with_gpus) const { return ranks <= (with_gpus ? with_gpus_ : plain_); }
  // True where a job may take only slots that are left when each free GPU has one.
  bool KeepsGpuSlotsFrom(bool with_gpus) const { return !one_budget_ && !with_gpus; }
  void Take(int ranks, bool with_gpus) {
    if (one_budget_ || !with_gpus) plain_ -= ranks;
    if (one_budget_ || with_gpus) with_gpus_ -= ranks;
  }

 private:
  Backfill(int plain, int with_gpus, bool one_budget, const MemoryBehind& memory)
      : plain_(plain), with_gpus_(with_gpus), one_budget_(one_budget), memory_(memory) {}

  int plain_ = 0;  // ranks of jobs without GPUs
  int with_gpus_ = 0;
  bool one_budget_ = true;
  MemoryBehind memory_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_
