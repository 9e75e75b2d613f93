#include "planner/time/rank_rates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace adjoin {

std::vector<double> SlownessOfRanks(const JobSpec& spec) {
  if (static_cast<uint32_t>(spec.rank_weight_size()) != spec.ranks() || spec.rank_weight().empty()) return {};
  const double most = *std::max_element(spec.rank_weight().begin(), spec.rank_weight().end());
  std::vector<double> slowness;
  bool even = true;
  for (const double weight : spec.rank_weight()) {
    if (!std::isfinite(weight) || weight <= 0) return {};
    slowness.push_back(most / weight);
    even = even && weight == most;
  }
  return even ? std::vector<double>() : slowness;
}

std::vector<int> RanksOfEachRate(const std::vector<double>& slowness) {
  constexpr size_t kFewRanks = 16, kMostRates = 16;
  if (slowness.size() <= kFewRanks) {
    std::vector<int> all(slowness.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::map<double, std::pair<int, int>, std::greater<double>> ends;  // the slowest first
  for (size_t rank = 0; rank < slowness.size(); ++rank) {
    const int number = static_cast<int>(rank);
    ends.emplace(slowness[rank], std::pair(number, number)).first->second.second = number;
  }
  std::set<int> found;
  size_t rates = 0;
  for (const auto& [slow, of_rate] : ends) {
    if (++rates > kMostRates) break;
    found.insert({of_rate.first, of_rate.second});
  }
  return {found.begin(), found.end()};
}

double SlowestOf(const std::vector<double>& slowness, const std::vector<int>& ranks) {
  double slowest = 1;
  if (slowness.empty()) return slowest;
  for (const int rank : ranks) {
    if (static_cast<size_t>(rank) < slowness.size()) slowest = std::max(slowest, slowness[rank]);
  }
  return slowest;
}

}  // namespace adjoin
