// Which tensors a rank has at each moment of a step, and the moment at which they take most memory.
//
//   MemoryLedger ledger(layers);
//   const auto x = ledger.New(bytes, {MemoryPart::kActivations, layer});
//   ledger.Hold(x);                    // a second holder
//   ledger.Drop(x), ledger.Drop(x);    // gone
//   ledger.peak();
#ifndef ADJOIN_PLANNER_MEMORY_MEMORY_LEDGER_H_
#define ADJOIN_PLANNER_MEMORY_MEMORY_LEDGER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/memory/tensor_bytes.h"

namespace adjoin {

// What a tensor is for.
enum class MemoryPart { kParameters, kGradients, kOptimizer, kFields, kActivations, kWork };
inline constexpr int kMemoryParts = 6;

// Tensors by number of holders. A tensor counts until its last holder drops it.
class MemoryLedger {
 public:
  using Tensor = int;
  struct Owner {
    MemoryPart part = MemoryPart::kWork;
    int layer = -1;  // in ProgramPlan.layer; -1: none's
  };
  // Who has how much at a moment.
  struct Moment {
    int64_t bytes = 0;
    std::string during;             // as Enter says
    std::vector<int64_t> of_part;   // by MemoryPart
    std::vector<int64_t> of_layer;  // by Owner::layer; the last element: of none
  };

  explicit MemoryLedger(int layers) : of_part_(kMemoryParts, 0), of_layer_(layers + 1, 0) {}

  // Names what happens from now on, as "backward pass of \"conv1\"".
  void Enter(std::string what) { during_ = std::move(what); }
  Tensor New(int64_t bytes, Owner owner) {
    bytes = std::min(bytes, kMostBytes);
    tensors_.push_back({bytes, owner, 1});
    Count(tensors_.back(), bytes);
    if (now_ > peak_.bytes) peak_ = {now_, during_, of_part_, of_layer_};
    return static_cast<Tensor>(tensors_.size()) - 1;
  }
  void Hold(Tensor tensor) { ++tensors_[tensor].holders; }
  void Drop(Tensor tensor) {
    if (--tensors_[tensor].holders == 0) Count(tensors_[tensor], -tensors_[tensor].bytes);
  }
  int64_t BytesOf(Tensor tensor) const { return tensors_[tensor].bytes; }
  // Returns whether nothing but the caller holds it.
  bool IsLast(Tensor tensor) const { return tensors_[tensor].holders == 1; }

  const Moment& peak() const { return peak_; }

 private:
  struct Entry {
    int64_t bytes;
    Owner owner;
    int holders;
  };
  void Count(const Entry& entry, int64_t bytes) {
    now_ += bytes;
    of_part_[static_cast<int>(entry.owner.part)] += bytes;
    of_layer_[entry.owner.layer < 0 ? of_layer_.size() - 1 : entry.owner.layer] += bytes;
  }

  std::string during_;
  std::vector<Entry> tensors_;
  int64_t now_ = 0;
  std::vector<int64_t> of_part_, of_layer_;  // as Moment
  Moment peak_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_MEMORY_LEDGER_H_
