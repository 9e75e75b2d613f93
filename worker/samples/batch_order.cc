#include "worker/samples/batch_order.h"

namespace adjoin {
namespace {

const std::string& Tail() {
  static const std::string* tail = new std::string("_tail");
  return *tail;
}

// "train" of "train" and of "train_tail".
std::string BaseOf(const std::string& name) {
  const bool ends =
      name.size() > Tail().size() && name.compare(name.size() - Tail().size(), Tail().size(), Tail()) == 0;
  return ends ? name.substr(0, name.size() - Tail().size()) : name;
}

}  // namespace

bool BatchOrder::Fits(const std::string& name, int64_t first) const {
  const auto program = programs_.find(name);
  if (program == programs_.end()) return false;
  return first + program->second.batch <= (program->second.training ? trained_ : samples_);
}

std::optional<BatchKey> BatchOrder::After(const BatchKey& key) const {
  const Program& program = programs_.at(key.program);
  const std::string base = BaseOf(key.program);
  const int64_t next = key.first + program.batch;
  for (const std::string& name : {base, base + Tail()}) {
    if (Fits(name, next)) return BatchKey{name, key.epoch, next};
  }
  if (!program.training) return std::nullopt;
  for (const std::string& name : {base, base + Tail()}) {
    if (Fits(name, 0)) return BatchKey{name, key.epoch + 1, 0};
  }
  return std::nullopt;
}

}  // namespace adjoin
