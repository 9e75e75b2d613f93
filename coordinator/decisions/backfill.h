// Computes how many slots smaller jobs may take while the queue's head waits, so that they cannot delay it.
//
//   int budget = BackfillBudget(/*needed=*/6, /*free=*/2, /*running=*/{8, 1});     // 2
#ifndef ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_
#define ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_

#include <vector>

namespace adjoin {

// The head needs `needed` slots, and `free` slots are free (fewer than needed). The running jobs hold `running` slots
// each and end in an unknown order. The head starts as soon as the slots of the jobs that have ended suffice. Slots
// given to others delay it if there is a set of running jobs whose end suffices with these slots and not without. The
// result is the largest number of slots for which there is no such set: x - (needed - free), where x is the smallest
// sum of a set of running jobs that is at least needed - free. Where all running jobs together do not suffice, the
// head waits for more workers in any case, and all free slots may be used.
int BackfillBudget(int needed, int free, const std::vector<int>& running);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_BACKFILL_H_
