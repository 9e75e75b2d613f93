#include "planner/plan/pass_order.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <numeric>

namespace adjoin {
namespace {

// See the file's comment.
constexpr int64_t kMostDrop = 3;
// What comes after so many micro-batches of a step goes on as they did.
constexpr int64_t kMostPassesRun = 128;

}  // namespace

std::vector<Pass> PassOrder(int64_t in_flight, int64_t microbatches) {
  std::vector<Pass> order;
  order.reserve(static_cast<std::size_t>(2 * microbatches));
  const int64_t first = std::min(in_flight, microbatches);
  for (int64_t m = 0; m < first; ++m) order.push_back({false, m});
  for (int64_t m = 0; m < microbatches; ++m) {
    order.push_back({true, m});
    if (m + first < microbatches) order.push_back({false, m + first});
  }
  return order;
}

std::vector<int64_t> MicrobatchesInFlight(const StageGraph& next, int64_t most) {
  std::vector<int64_t> in_flight(next.size(), 1);
  for (std::size_t stage = next.size(); stage-- > 0;) {
    for (const int after : next[stage]) in_flight[stage] = std::max(in_flight[stage], in_flight[after] + 1);
    in_flight[stage] = std::min(in_flight[stage], most);
  }
  // Only grows, and never above the largest: it ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t stage = next.size(); stage-- > 0;) {
      for (const int after : next[stage]) {
        const int64_t here = std::max(in_flight[stage], in_flight[after]);
        const int64_t there = std::max(in_flight[after], here - kMostDrop);
        changed = changed || here != in_flight[stage] || there != in_flight[after];
        in_flight[stage] = here;
        in_flight[after] = there;
      }
    }
  }
  return in_flight;
}

namespace {

// Returns when the last pass of a step is over, which begins at 0.
double EndOf(const StageGraph& next, const StageGraph& before, const std::vector<int64_t>& in_flight,
             const std::vector<StageWork>& work, int64_t microbatches) {
  const std::size_t stages = next.size();
  // When each pass is over; below 0: not yet known.
  using Ends = std::vector<std::vector<double>>;
  Ends ends[2] = {Ends(stages, std::vector<double>(microbatches, -1)),
                  Ends(stages, std::vector<double>(microbatches, -1))};
  std::map<int64_t, std::vector<Pass>> orders;
  for (const int64_t count : in_flight) orders.try_emplace(count, PassOrder(count, microbatches));
  std::vector<std::size_t> done(stages, 0);
  std::vector<double> free_at(stages, 0);
  std::vector<bool> waits_here(stages, true);
  std::deque<int> to_look_at(stages);
  std::iota(to_look_at.begin(), to_look_at.end(), 0);
  double last = 0;
  while (!to_look_at.empty()) {
    const int stage = to_look_at.front();
    to_look_at.pop_front();
    waits_here[stage] = false;
    const std::vector<Pass>& order = orders.at(in_flight[stage]);
    const std::size_t earlier = done[stage];
    for (; done[stage] < order.size(); ++done[stage]) {
      const Pass pass = order[done[stage]];
      double begin = free_at[stage];
      bool known = true;
      for (const int other : (pass.backward ? next : before)[stage]) {
        const double end = ends[pass.backward][other][pass.microbatch];
        known = known && end >= 0;
        begin = std::max(begin, end);
      }
      if (!known) break;
      free_at[stage] = begin + (pass.backward ? work[stage].backward : work[stage].forward);
      ends[pass.backward][stage][pass.microbatch] = free_at[stage];
    }
    last = std::max(last, free_at[stage]);
    if (done[stage] == earlier) continue;
    for (const std::vector<int>* others : {&next[stage], &before[stage]}) {
      for (const int other : *others) {
        if (!waits_here[other]) to_look_at.push_back(other);
        waits_here[other] = true;
      }
    }
  }
  return last;
}

}  // namespace

double IdleShare(const StageGraph& next, const std::vector<int64_t>& in_flight, const std::vector<StageWork>& work,
                 int64_t microbatches) {
  StageGraph before(next.size());
  for (std::size_t stage = 0; stage < next.size(); ++stage) {
    for (const int after : next[stage]) before[after].push_back(static_cast<int>(stage));
  }
  double end = EndOf(next, before, in_flight, work, std::min(microbatches, kMostPassesRun));
  if (microbatches > kMostPassesRun) {
    const double half = EndOf(next, before, in_flight, work, kMostPassesRun / 2);
    end += (end - half) / static_cast<double>(kMostPassesRun / 2) * static_cast<double>(microbatches - kMostPassesRun);
  }
  double busy = 0, ranks = 0;
  for (const StageWork& of : work) {
    busy += static_cast<double>(of.ranks) * (of.forward + of.backward) * static_cast<double>(microbatches);
    ranks += static_cast<double>(of.ranks);
  }
  const double all = ranks * end;
  return all > 0 ? std::max(0.0, 1 - busy / all) : 0;
}

}  // namespace adjoin
