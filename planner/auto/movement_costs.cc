#include "planner/auto/movement_costs.h"

#include "absl/strings/str_cat.h"
#include "planner/auto/pairwise_minimum.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

uint64_t HashOf(const Layout& layout) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  const auto mix = [&hash](uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
  };
  mix(static_cast<uint64_t>(layout.dtype()));
  for (const int64_t extent : layout.shape()) mix(static_cast<uint64_t>(extent));
  for (const int64_t size : layout.mesh().shape()) mix(static_cast<uint64_t>(size));
  for (const Placement& placement : layout.placements()) {
    mix(static_cast<uint64_t>(placement.kind) * 64 + static_cast<uint64_t>(placement.dim + 1));
  }
  mix(static_cast<uint64_t>(layout.mesh().ranks().front()));
  for (int dim = 0; dim < layout.dims(); ++dim) {
    for (const int64_t boundary : layout.Boundaries(dim)) mix(static_cast<uint64_t>(boundary));
  }
  return hash;
}

void AppendReadings(const std::map<int, Reading>& readings, std::string* key) {
  for (const auto& [dim, reading] : readings) absl::StrAppend(key, "|", dim, ":", reading.ToString());
}

}  // namespace

int LayoutTable::Add(const Layout& layout) {
  const uint64_t hash = HashOf(layout);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (layouts_[it->second] == layout) return it->second;
  }
  layouts_.push_back(layout);
  by_hash_.emplace(hash, size() - 1);
  return size() - 1;
}

int MovementCosts::AddRead(const ReadNeed& need) {
  std::string key = absl::StrCat(layouts_.Add(need.to), ",", need.read.has_value() ? layouts_.Add(*need.read) : -1);
  AppendReadings(need.readings, &key);
  absl::StrAppend(&key, ";");
  AppendReadings(need.source, &key);
  const auto [it, fresh] = read_by_key_.emplace(std::move(key), static_cast<int>(reads_.size()));
  if (fresh) reads_.push_back(need);
  return it->second;
}

const MovementCosts::Pair& MovementCosts::Seconds(int from, int read) {
  const uint64_t key = (static_cast<uint64_t>(from) << 32) | static_cast<uint32_t>(read);
  const auto [it, fresh] = pairs_.emplace(key, Pair());
  Pair& pair = it->second;
  if (!fresh) return pair;
  const ReadNeed& need = reads_[read];
  const Layout& source = layouts_[from];
  if (need.readings.empty() && need.source.empty() && need.to == source) {
    pair.identity = true;
    return pair;
  }
  const auto traffic = TwoWayTrafficOf({source, need.to, need.readings, need.read, need.source});
  if (!traffic.ok()) {
    pair = {kImpossible, kImpossible, false};
    return pair;
  }
  pair.identity = traffic->is_identity;
  if (pair.identity) return pair;
  pair.forward = model_.OfMovement(traffic->forward.busiest);
  pair.adjoint = model_.OfMovement(traffic->adjoint.busiest);
  const bool is_halo = !need.readings.empty() && (need.read.has_value() ? *need.read : need.to) == source;
  if (!is_halo) pair.forward += change_;
  return pair;
}

}  // namespace adjoin
