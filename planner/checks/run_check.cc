#include "planner/checks/run_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

constexpr double kMostBackoff = 86400;
constexpr double kMostHours = 24 * 366;
constexpr uint32_t kMostGpus = 1;
constexpr uint64_t kLeastMemory = uint64_t{64} << 20;

absl::Status CheckRange(const std::string& field, double value, double most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return AtField(field, InvalidSpec(field, " is ", value, "; it must be at least 0 and at most ", most));
}

}  // namespace

absl::Status CheckRuns(const JobSpec& spec) {
  const Restart& restart = spec.restart();
  if (absl::Status status = CheckRange("restart.backoff_s", restart.backoff_s(), kMostBackoff); !status.ok())
    return status;
  for (int i = 0; i < restart.on_size(); ++i) {
    const std::string& cause = restart.on(i);
    if (cause == "rank_lost" || cause == "node_lost" || cause == "error") continue;
    return AtField(absl::StrCat("restart.on[", i, "]"),
                   InvalidSpec("restart.on is \"", cause, "\"; it must be \"rank_lost\", \"node_lost\" or \"error\""));
  }
  const Resources& resources = spec.resources();
  if (absl::Status status = CheckRange("resources.max_hours", resources.max_hours(), kMostHours); !status.ok())
    return status;
  if (resources.gpus() > kMostGpus) {
    return AtField("resources.gpus", InvalidSpec("resources.gpus is ", resources.gpus(),
                                                 "; it must be 0 or 1: a rank "
                                                 "computes on one GPU at most, and a job on more GPUs has more ranks"));
  }
  if (resources.memory_bytes() > 0 && resources.memory_bytes() < kLeastMemory) {
    return AtField("resources.memory_bytes", InvalidSpec("resources.memory_bytes is ", resources.memory_bytes(),
                                                         "; no rank runs with less than ", kLeastMemory));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
