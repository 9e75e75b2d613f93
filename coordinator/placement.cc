#include "coordinator/placement.h"

#include <algorithm>

namespace adjoin {

std::optional<std::vector<ConnectionId>> PlaceRanks(int ranks, int max_per_worker, std::vector<FreeSlots> free) {
  const FreeSlots* smallest = nullptr;
  for (FreeSlots& worker : free) {
    if (max_per_worker > 0) worker.slots = std::min(worker.slots, max_per_worker);
    if (worker.slots >= ranks && (smallest == nullptr || worker.slots < smallest->slots)) smallest = &worker;
  }
  if (smallest != nullptr) return std::vector<ConnectionId>(ranks, smallest->connection);

  std::stable_sort(free.begin(), free.end(), [](const FreeSlots& a, const FreeSlots& b) { return a.slots > b.slots; });
  std::vector<ConnectionId> of_rank;
  for (const FreeSlots& worker : free) {
    int count = std::min<int>(worker.slots, ranks - static_cast<int>(of_rank.size()));
    of_rank.insert(of_rank.end(), std::max(count, 0), worker.connection);
  }
  if (static_cast<int>(of_rank.size()) < ranks) return std::nullopt;
  return of_rank;
}

}  // namespace adjoin
