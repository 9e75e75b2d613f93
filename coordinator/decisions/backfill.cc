#include "coordinator/decisions/backfill.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace adjoin {

int BackfillBudget(int needed, int free, const std::vector<int>& running) {
  const int missing = needed - free;
  const int all = std::accumulate(running.begin(), running.end(), 0);
  if (all < missing) return free;
  // A set can have any number of n jobs with equally many slots. Items of 1, 2, 4, ... times the slots, n times in all,
  // make the same sums, and are far fewer.
  std::map<int, int> jobs_with;
  for (int slots : running) ++jobs_with[slots];
  std::vector<int> items;
  for (auto [slots, left] : jobs_with) {
    for (int some = 1; left > 0; some *= 2) {
      items.push_back(slots * std::min(some, left));
      left -= std::min(some, left);
    }
  }
  // Bit x: some set of running jobs holds x slots. Sums above `all` do not occur.
  std::vector<uint64_t> sums(all / 64 + 1);
  sums[0] = 1;
  for (int slots : items) {
    const int words = slots / 64, bits = slots % 64;
    for (int to = static_cast<int>(sums.size()) - 1; to >= words; --to) {
      uint64_t shifted = sums[to - words] << bits;
      if (bits > 0 && to > words) shifted |= sums[to - words - 1] >> (64 - bits);
      sums[to] |= shifted;
    }
  }
  for (int x = std::max(missing, 0); x <= all; ++x) {
    if ((sums[x / 64] >> (x % 64) & 1) != 0) return std::min(free, x - missing);
  }
  return 0;
}

}  // namespace adjoin
