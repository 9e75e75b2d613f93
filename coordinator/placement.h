// Which daemon runs which rank: all ranks of a job at once, or none.
//
//   std::vector<FreeSlots> free = {{.connection = 7, .slots = 4}, {.connection = 9, .slots = 2}};
//   std::optional<std::vector<ConnectionId>> of_rank = PlaceRanks(4, /*max_per_worker=*/0, free);
#ifndef ADJOIN_COORDINATOR_PLACEMENT_H_
#define ADJOIN_COORDINATOR_PLACEMENT_H_

#include <optional>
#include <vector>

#include "coordinator/job_table.h"

namespace adjoin {

struct FreeSlots {
  ConnectionId connection = 0;
  int slots = 0;
};

// The connection of each rank, or nothing where the slots do not suffice. One daemon takes all ranks where one can (the
// one with the fewest free slots, so that large jobs find room later); else consecutive ranks stay together, on the
// daemons with the most free slots. `max_per_worker`: 0 means no limit.
std::optional<std::vector<ConnectionId>> PlaceRanks(int ranks, int max_per_worker, std::vector<FreeSlots> free);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_H_
