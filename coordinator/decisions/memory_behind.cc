#include "coordinator/decisions/memory_behind.h"

#include <algorithm>
#include <optional>
#include <string>

namespace adjoin {
namespace {

bool IsOfNoUse(const WorkerRecord& worker, int64_t head) { return worker.Memory().value_or(head) < head; }

// True where the memory that is free suffices for all slots, also those that jobs hold. Then the slack is not less than
// none, and no job there need be looked at.
bool HasPlenty(const WorkerRecord& worker, int64_t head) {
  return !worker.free.memory.has_value() || *worker.free.memory >= int64_t{worker.hello.slots()} * head;
}

// Returns the memory that the worker has beyond `head` for each slot, whichever of the jobs there end first; less than
// none where it may have too little. Absent: its memory is not known.
std::optional<int64_t> Slack(const WorkerRecord& worker, int64_t head) {
  std::optional<int64_t> slack = worker.free.memory;
  if (!slack.has_value()) return slack;
  *slack -= worker.free.slots * head;
  for (const auto& [job, held] : worker.held) *slack -= std::max<int64_t>(0, held.slots * head - held.memory);
  return slack;
}

}  // namespace

MemoryBehind MemoryBehind::Of(int64_t head, const WorkerTable& workers) {
  MemoryBehind memory;
  memory.head_ = head;
  if (head == 0) return memory;
  memory.may_bind_ = std::any_of(workers.All().begin(), workers.All().end(), [&](const auto& named) {
    return !named.second.dead && !HasPlenty(named.second, head) && Slack(named.second, head).value_or(0) < 0;
  });
  return memory;
}

int MemoryBehind::SlotsOutside(const WorkerTable& workers) const {
  int slots = 0;
  for (const FreeSlots& worker : workers.FreeFor(Resources())) {
    if (IsOfNoUse(workers.At(std::string(worker.worker)), head_)) slots += worker.slots;
  }
  return slots;
}

void MemoryBehind::Limit(int64_t need, const WorkerTable& workers, std::vector<FreeSlots>& free) const {
  if (head_ == 0) return;
  if (may_bind_) {
    const auto kept = [&](const FreeSlots& worker) {
      return !IsOfNoUse(workers.At(std::string(worker.worker)), head_);
    };
    free.erase(std::remove_if(free.begin(), free.end(), kept), free.end());
    return;
  }
  if (need <= head_) return;
  for (FreeSlots& worker : free) {
    const std::optional<int64_t> slack = Slack(workers.At(std::string(worker.worker)), head_);
    if (!slack.has_value() || !worker.memory.has_value()) continue;
    worker.memory = std::min(*worker.memory, *slack / (need - head_) * need);
  }
}

}  // namespace adjoin
