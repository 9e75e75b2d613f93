#include "planner/memory/memory_ledger.h"

namespace adjoin {

void MemoryLedger::Remember() {
  peak_.bytes = now_;
  peak_.during = during_;
  peak_.of_part.assign(kMemoryParts, 0);
  peak_.of_layer.assign(layers_ + 1, 0);
  for (const Entry& entry : tensors_) {
    if (entry.holders == 0) continue;
    peak_.of_part[static_cast<int>(entry.owner.part)] += entry.bytes;
    peak_.of_layer[entry.owner.layer < 0 ? layers_ : entry.owner.layer] += entry.bytes;
  }
}

}  // namespace adjoin
