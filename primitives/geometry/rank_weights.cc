#include "primitives/geometry/rank_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<RankWeights> RankWeights::Create(const std::vector<double>& weights) {
  RankWeights made;
  if (weights.empty()) return made;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("[", i, "] is ", weights[i], "; a weight is a finite number above 0"));
  }
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  // Divided: a product could overflow.
  if (*most / *least > kMostTimes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[", most - weights.begin(), "] is ", *most, ", more than ", kMostTimes, " times [", least - weights.begin(),
        "], which is ", *least, "; a rank that is so much slower only holds up the others: do without it"));
  }
  for (const double weight : weights) {
    made.units_.push_back(std::max<int64_t>(1, std::llround(weight / *most * static_cast<double>(kUnit))));
    made.even_ = made.even_ && made.units_.back() == made.units_.front();
  }
  return made;
}

std::vector<int64_t> ProportionalSizes(int64_t n, const std::vector<int64_t>& weights, int64_t least) {
  std::vector<int64_t> sizes(weights.size(), 0);
  std::vector<size_t> open(weights.size());  // parts that share the rest
  std::iota(open.begin(), open.end(), size_t{0});
  absl::uint128 rest = static_cast<uint64_t>(n);
  absl::uint128 total = 0;
  for (const int64_t weight : weights) total += static_cast<uint64_t>(weight);
  const auto share = [&](size_t part) { return rest * static_cast<uint64_t>(weights[part]); };  // times the total
  while (true) {
    const absl::uint128 limit = total * static_cast<uint64_t>(least);
    const auto held =
        std::stable_partition(open.begin(), open.end(), [&](size_t part) { return share(part) >= limit; });
    if (held == open.end()) break;
    for (auto part = held; part != open.end(); ++part) {
      sizes[*part] = least;
      rest -= static_cast<uint64_t>(least);
      total -= static_cast<uint64_t>(weights[*part]);
    }
    open.erase(held, open.end());
  }
  std::vector<std::pair<absl::uint128, size_t>> remainders;
  uint64_t left = static_cast<uint64_t>(rest);
  for (const size_t part : open) {
    sizes[part] = static_cast<int64_t>(static_cast<uint64_t>(share(part) / total));
    left -= static_cast<uint64_t>(sizes[part]);
    remainders.emplace_back(share(part) % total, part);
  }
  std::sort(remainders.begin(), remainders.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (uint64_t i = 0; i < left; ++i) ++sizes[remainders[i].second];
  return sizes;
}

}  // namespace adjoin
