#include "cli/worker_rows.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/amount_text.h"
#include "cli/text.h"

namespace adjoin {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string MemoryText(const WorkerSummary& worker, uint64_t bytes) {
  return worker.memory_bytes() == 0 ? "?" : BytesText(static_cast<int64_t>(bytes));
}

}  // namespace

std::vector<std::vector<std::string>> WorkerRows(const ListJobsResponse& list) {
  Rows rows = {{"WORKER", "ADDRESS", "SLOTS", "FREE", "STATE", "HEARTBEAT"}};
  const bool unfit = std::any_of(list.worker().begin(), list.worker().end(),
                                 [](const WorkerSummary& worker) { return !worker.condition().empty(); });
  const bool gpus = std::any_of(list.worker().begin(), list.worker().end(),
                                [](const WorkerSummary& worker) { return worker.gpus() > 0; });
  if (gpus) rows[0].insert(rows[0].begin() + 4, {"GPUS", "FREE"});
  const bool memory = std::any_of(list.worker().begin(), list.worker().end(),
                                  [](const WorkerSummary& worker) { return worker.memory_bytes() > 0; });
  if (memory) rows[0].insert(rows[0].begin() + 4, {"MEMORY", "FREE"});
  if (unfit) rows[0].push_back("CONDITION");
  for (const WorkerSummary& worker : list.worker()) {
    rows.push_back({worker.name(), worker.address(), absl::StrCat(worker.slots()), absl::StrCat(worker.free_slots()),
                    worker.state(), DurationText(worker.heartbeat_age_seconds()) + " ago"});
    if (gpus) {
      rows.back().insert(rows.back().begin() + 4, {absl::StrCat(worker.gpus()), absl::StrCat(worker.free_gpus())});
    }
    if (memory) {
      rows.back().insert(rows.back().begin() + 4,
                         {MemoryText(worker, worker.memory_bytes()), MemoryText(worker, worker.free_memory_bytes())});
    }
    if (unfit) rows.back().push_back(worker.condition());
  }
  return rows;
}

}  // namespace adjoin
