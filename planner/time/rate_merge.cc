#include "planner/time/rate_merge.h"

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "planner/time/rate_check.h"

namespace adjoin {
namespace {

using Key = std::tuple<std::string, std::string, std::vector<int64_t>>;

Key KeyOf(const KernelRate& rate) {
  return {rate.kind(), rate.dtype(), std::vector<int64_t>(rate.size().begin(), rate.size().end())};
}

double Rounded(double number) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", number), &rounded) ? rounded : number;
}

// Kernels of one size, measured in more ways than one, count together.
struct Sum {
  double forward = 0, backward = 0;
  int count = 0;
};

}  // namespace

absl::StatusOr<RateTable> MergeRates(const std::vector<RateTable>& tables) {
  RateTable merged = tables[0];
  merged.clear_kernel();
  std::map<Key, std::vector<Sum>> sums;
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const KernelRate& rate : tables[i].kernel()) {
      std::vector<Sum>& sum = sums[KeyOf(rate)];
      sum.resize(tables.size());
      sum[i].forward += rate.forward_seconds();
      sum[i].backward += rate.backward_seconds();
      ++sum[i].count;
    }
  }
  for (const KernelRate& rate : tables[0].kernel()) {
    const auto found = sums.find(KeyOf(rate));
    if (found == sums.end()) continue;  // it has been added
    Sum all;
    for (const Sum& sum : found->second) {
      if (sum.count == 0) continue;
      all.forward += sum.forward / sum.count;
      all.backward += sum.backward / sum.count;
      ++all.count;
    }
    sums.erase(found);
    if (all.count != static_cast<int>(tables.size())) continue;
    KernelRate& mean = *merged.add_kernel();
    mean = rate;
    mean.set_forward_seconds(Rounded(all.forward / all.count));
    mean.set_backward_seconds(Rounded(all.backward / all.count));
  }
  double launch = 0, step = 0;
  for (const RateTable& table : tables) {
    launch += table.launch_seconds() / static_cast<double>(tables.size());
    step += table.step_seconds() / static_cast<double>(tables.size());
  }
  merged.set_launch_seconds(Rounded(launch));
  merged.set_step_seconds(Rounded(step));
  for (LaneRate& lane : *merged.mutable_lane()) {
    lane.set_round_seconds(Rounded(lane.round_seconds()));
    lane.set_message_seconds(Rounded(lane.message_seconds()));
    lane.set_byte_seconds(Rounded(lane.byte_seconds()));
    lane.set_pack_byte_seconds(Rounded(lane.pack_byte_seconds()));
    lane.set_add_byte_seconds(Rounded(lane.add_byte_seconds()));
  }
  if (const absl::Status status = CheckRates(merged); !status.ok()) return status;
  return merged;
}

}  // namespace adjoin
