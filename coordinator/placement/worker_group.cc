#include "coordinator/placement/worker_group.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {

bool Suffice(const std::vector<FreeSlots>& workers, const JobSpec& spec) {
  int64_t ranks = 0;
  for (const FreeSlots& worker : workers) ranks += RoomFor(worker, spec.resources());
  return ranks >= spec.ranks();
}

std::string NamesWithSlots(const std::vector<FreeSlots>& workers, bool with_gpus) {
  return absl::StrJoin(workers, " and ", [with_gpus](std::string* out, const FreeSlots& worker) {
    absl::StrAppend(out, worker.worker, " (", worker.slots, worker.slots == 1 ? " slot" : " slots");
    if (with_gpus) absl::StrAppend(out, ", ", worker.gpus, worker.gpus == 1 ? " GPU" : " GPUs");
    absl::StrAppend(out, ")");
  });
}

}  // namespace adjoin
