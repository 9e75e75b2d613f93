// Which daemon runs which rank: all ranks of a job at once, or none.
//
//   std::vector<FreeSlots> free = {{.worker = "node-1", .slots = 4}, {.worker = "node-2", .slots = 2}};
//   std::optional<std::vector<std::string>> of_rank = PlaceRanks({0, 1, 2, 3}, /*max_per_worker=*/0, free, /*before=*/{});
#ifndef ADJOIN_COORDINATOR_PLACEMENT_PLACEMENT_H_
#define ADJOIN_COORDINATOR_PLACEMENT_PLACEMENT_H_

#include <optional>
#include <string>
#include <vector>

namespace adjoin {

struct FreeSlots {
  std::string worker;
  int slots = 0;
  std::string output_id = "";  // of its --output-root (WorkerHello.output_id); "" where it is not known
};

// The worker of each rank, or nothing where the slots do not suffice. `before`: where the ranks ran before (or empty): a rank
// keeps its worker where that has room. Of the others, one worker takes all where one can (the one with the fewest
// free slots, so that large jobs find room later); else those that follow each other in `order` (rank_order.h; every rank
// from 0 once) stay together, on the workers with the most free slots. `max_per_worker`: 0 means no limit.
std::optional<std::vector<std::string>> PlaceRanks(const std::vector<int>& order, int max_per_worker,
                                                   std::vector<FreeSlots> free, const std::vector<std::string>& before);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_PLACEMENT_H_
