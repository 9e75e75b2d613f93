#include "coordinator/placement/placement.h"

#include <algorithm>

namespace adjoin {
namespace {

// Places the ranks that have no worker yet.
bool PlaceRest(const std::vector<int>& order, std::vector<std::string>& of_rank, std::vector<FreeSlots> free) {
  std::vector<int> rest;
  for (int rank : order) {
    if (of_rank[rank].empty()) rest.push_back(rank);
  }
  const FreeSlots* smallest = nullptr;
  for (const FreeSlots& worker : free) {
    const bool fits = worker.slots >= static_cast<int>(rest.size());
    if (fits && (smallest == nullptr || worker.slots < smallest->slots)) smallest = &worker;
  }
  if (smallest != nullptr) {
    for (int rank : rest) of_rank[rank] = smallest->worker;
    return true;
  }
  std::stable_sort(free.begin(), free.end(), [](const FreeSlots& a, const FreeSlots& b) { return a.slots > b.slots; });
  size_t placed = 0;
  for (const FreeSlots& worker : free) {
    for (int slot = 0; slot < worker.slots && placed < rest.size(); ++slot) of_rank[rest[placed++]] = worker.worker;
  }
  return placed == rest.size();
}

}  // namespace

std::optional<std::vector<std::string>> PlaceRanks(const std::vector<int>& order, int max_per_worker,
                                                   std::vector<FreeSlots> free, const std::vector<std::string>& before) {
  if (max_per_worker > 0) {
    for (FreeSlots& worker : free) worker.slots = std::min(worker.slots, max_per_worker);
  }
  std::vector<std::string> of_rank(order.size());
  for (size_t r = 0; r < std::min(before.size(), of_rank.size()); ++r) {
    auto kept = std::find_if(free.begin(), free.end(), [&](const FreeSlots& worker) { return worker.worker == before[r]; });
    if (kept == free.end() || kept->slots <= 0) continue;
    of_rank[r] = kept->worker;
    --kept->slots;
  }
  if (!PlaceRest(order, of_rank, std::move(free))) return std::nullopt;
  return of_rank;
}

}  // namespace adjoin
