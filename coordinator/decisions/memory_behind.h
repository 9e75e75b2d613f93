// The memory that jobs behind the queue's head may take, so that they cannot delay it.
//
//   const MemoryBehind memory = MemoryBehind::Of(/*head=*/int64_t{8} << 30, workers);
//   memory.Limit(int64_t{12} << 30, workers, free);      // before the workers of a job behind it are chosen
#ifndef ADJOIN_COORDINATOR_DECISIONS_MEMORY_BEHIND_H_
#define ADJOIN_COORDINATOR_DECISIONS_MEMORY_BEHIND_H_

#include <cstdint>
#include <vector>

#include "coordinator/decisions/worker_table.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

// Where every slot of a worker always has the memory of a rank of the head beside it, whichever jobs end, slots decide
// alone when the head starts, and BackfillBudget counts them. Jobs behind it leave it so: each of their ranks that
// takes more than one of the head uses up what the worker has beyond that.
//
// Else the head may wait for memory, and which jobs' end brings it is unknown: jobs behind it start only on workers
// that have too little for a rank of the head in any case.
class MemoryBehind {
 public:
  // Limits nothing.
  MemoryBehind() = default;
  // `head`: bytes of one of its ranks; 0: not known.
  static MemoryBehind Of(int64_t head, const WorkerTable& workers);

  // True where the head may wait for memory.
  bool may_bind() const { return may_bind_; }
  // The free slots of workers that are of no use to the head.
  int SlotsOutside(const WorkerTable& workers) const;
  // Takes from `free` what a job behind the head may not have, whose ranks take `need` bytes each.
  void Limit(int64_t need, const WorkerTable& workers, std::vector<FreeSlots>& free) const;

 private:
  int64_t head_ = 0;
  bool may_bind_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_MEMORY_BEHIND_H_
