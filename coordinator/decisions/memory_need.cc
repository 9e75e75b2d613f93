#include "coordinator/decisions/memory_need.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/amount_text.h"
#include "base/printable_text.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr char kWhatHelps[] = "what helps: more ranks, micro-batches, recompute, `adjoin plan --auto --memory`";

int64_t RoomOn(const std::vector<FreeSlots>& workers, const JobSpec& spec, const RankNeed& need) {
  int64_t ranks = 0;
  for (const FreeSlots& worker : workers) ranks += RoomFor(worker, spec.resources(), need);
  return ranks;
}

// Null where a rank that takes `bytes` fits on one of the workers, or may; else the worker that has most.
const FreeSlots* LargestOfTooSmall(const std::vector<FreeSlots>& workers, std::optional<int64_t> FreeSlots::*memory,
                                   int64_t bytes) {
  const FreeSlots* largest = nullptr;
  for (const FreeSlots& worker : workers) {
    if (!(worker.*memory).has_value() || *(worker.*memory) >= bytes) return nullptr;
    if (largest == nullptr || *(worker.*memory) > *(largest->*memory)) largest = &worker;
  }
  return largest;
}

}  // namespace

RankNeed NeedOf(const JobSpec& spec, const StepPrediction& predicted) {
  RankNeed need;
  need.memory = std::max<int64_t>(predicted.resident_bytes(), 0);
  if (spec.resources().gpus() > 0) need.gpu = std::max<int64_t>(predicted.tensor_bytes(), 0);
  return need;
}

RankNeed NeedOf(const JobRecord& job) { return NeedOf(job.spec, job.predicted); }

absl::Status CheckMemory(const PlannedJob& planned, const JobSpec& spec, const std::vector<FreeSlots>& connected) {
  const RankNeed need = NeedOf(spec, planned.predicted);
  std::vector<FreeSlots> able;  // those that have what else a rank asks for
  for (const FreeSlots& worker : connected) {
    if (RoomFor(worker, spec.resources()) > 0) able.push_back(worker);
  }
  const auto refusal = [&](const std::string& offer) {
    return absl::FailedPreconditionError(
        absl::StrCat("a rank needs about ", BytesText(need.gpu > 0 ? need.gpu : need.memory), " ",
                     PrintableText(planned.memory, kMaxErrorBytes / 2), "; the ", offer, "; ", kWhatHelps));
  };
  if (const FreeSlots* node = LargestOfTooSmall(able, &FreeSlots::gpu_memory, need.gpu); node != nullptr) {
    return refusal(absl::StrCat("largest GPU, of ", node->worker, ", has ", BytesText(*node->gpu_memory)));
  }
  if (const FreeSlots* node = LargestOfTooSmall(able, &FreeSlots::memory, need.memory); node != nullptr) {
    const std::string host = need.gpu > 0 ? absl::StrCat("process of a rank takes ", BytesText(need.memory),
                                                         " of the node's own memory, and the ")
                                          : "";
    return refusal(
        absl::StrCat(host, "largest node, ", node->worker, ", offers ", BytesText(*node->memory), " for ranks"));
  }
  return absl::OkStatus();
}

std::string MemoryReason(const JobSpec& spec, const RankNeed& need, const std::vector<FreeSlots>& free,
                         const std::vector<FreeSlots>& all) {
  if (need.memory == 0 && need.gpu == 0) return "";
  const int64_t room = RoomOn(free, spec, need);
  if (room >= spec.ranks() || room == RoomOn(free, spec, {})) return "";
  const bool on_gpu = need.gpu > 0 && room == RoomOn(free, spec, {.memory = 0, .gpu = need.gpu});
  std::string reason =
      absl::StrCat("each rank takes ", BytesText(on_gpu ? need.gpu : need.memory), " of ", on_gpu ? "a GPU's " : "",
                   "memory, for which ", room, room == 1 ? " rank finds room" : " ranks find room");
  if (RoomOn(all, spec, need) < spec.ranks() && RoomOn(all, spec, {}) >= spec.ranks()) {
    absl::StrAppend(&reason, "; it starts when workers with more memory connect");
  }
  return reason;
}

}  // namespace adjoin
