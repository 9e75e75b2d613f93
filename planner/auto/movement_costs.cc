#include "planner/auto/movement_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/auto/pairwise_minimum.h"

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

// Pairs of tensors with more dims are counted one by one.
constexpr int kMostScaledDims = 16;

// Returns whether all parts of the dim have the same extent, above 0.
bool IsEven(const Layout& layout, int dim) {
  const std::vector<int64_t>& boundaries = layout.Boundaries(dim);
  if (boundaries[1] <= boundaries[0]) return false;
  for (size_t part = 1; part + 1 < boundaries.size(); ++part) {
    if (boundaries[part + 1] - boundaries[part] != boundaries[1]) return false;
  }
  return true;
}

// The same messages with `scale` times as many bytes each.
RankTraffic Scaled(RankTraffic traffic, int64_t scale) {
  for (int64_t* bytes : {&traffic.bytes_sent, &traffic.bytes_received, &traffic.bytes_kept, &traffic.bytes_added}) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    *bytes = *bytes > kMost / scale ? kMost : *bytes * scale;
  }
  return traffic;
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

int MovementCosts::AddRead(int layout) {
  if (static_cast<int>(read_by_layout_.size()) <= layout) read_by_layout_.resize(layouts_.size(), -1);
  int& read = read_by_layout_[layout];
  if (read >= 0) return read;
  read = static_cast<int>(reads_.size());
  reads_.push_back({.to = &layouts_[layout], .layout = layout});
  return read;
}

int MovementCosts::AddRead(const ReadNeed& need) {
  const auto any = [](const std::map<int, Reading>* readings) { return readings != nullptr && !readings->empty(); };
  const int to = layouts_.Add(*need.to);
  if (!any(need.readings) && !any(need.source) && need.read == nullptr) return AddRead(to);
  const int as = need.read != nullptr ? layouts_.Add(*need.read) : -1;
  std::string key = absl::StrCat(to, ",", as);
  if (any(need.readings)) AppendReadings(*need.readings, &key);
  absl::StrAppend(&key, ";");
  if (any(need.source)) AppendReadings(*need.source, &key);
  const auto [it, fresh] = read_by_key_.emplace(std::move(key), static_cast<int>(reads_.size()));
  if (!fresh) return it->second;
  KnownRead read{.to = &layouts_[to], .read = as < 0 ? nullptr : &layouts_[as], .layout = as < 0 ? to : as};
  if (any(need.readings)) read.readings = *need.readings;
  if (any(need.source)) read.source = *need.source;
  reads_.push_back(std::move(read));
  return it->second;
}

MovementCosts::LayoutClasses& MovementCosts::ClassesOf(int layout) {
  if (static_cast<int>(classes_.size()) <= layout) classes_.resize(layouts_.size());
  std::optional<LayoutClasses>& classes = classes_[layout];
  if (classes.has_value()) return *classes;
  classes.emplace();
  const Layout& of = layouts_[layout];
  // On a mesh with weights, other extents are not cut in the same proportion.
  if (of.mesh().weights() != nullptr || of.dims() > kMostScaledDims) return *classes;
  for (int dim = 0; dim < of.dims(); ++dim) {
    if (IsEven(of, dim)) classes->even |= Dims{1} << dim;
  }
  return *classes;
}

MovementCosts::ReadClasses& MovementCosts::ClassesOfRead(int read) {
  if (static_cast<int>(read_classes_.size()) <= read) read_classes_.resize(reads_.size());
  std::optional<ReadClasses>& classes = read_classes_[read];
  if (classes.has_value()) return *classes;
  classes.emplace();
  const KnownRead& need = reads_[read];
  const bool is_one_layout = need.readings.empty() == (need.read == nullptr);
  if (!need.source.empty() || !is_one_layout) return *classes;
  classes->scalable = ClassesOf(need.layout).even;
  for (const auto& [dim, reading] : need.readings) classes->scalable &= ~(Dims{1} << dim);
  return *classes;
}

MovementCosts::Class MovementCosts::NumberOf(std::string key) {
  return class_numbers_.emplace(std::move(key), static_cast<Class>(class_numbers_.size())).first->second;
}

MovementCosts::Class MovementCosts::ClassOf(int layout, Dims scaled) {
  const auto [it, fresh] = ClassesOf(layout).number.try_emplace(scaled, -1);
  if (!fresh) return it->second;
  const Layout& of = layouts_[layout];
  std::string key = absl::StrCat(static_cast<int>(of.dtype()), " ", of.mesh().ToString());
  for (const Placement& placement : of.placements()) absl::StrAppend(&key, " ", placement.ToString());
  for (int dim = 0; dim < of.dims(); ++dim) {
    const bool is_scaled = (scaled >> dim & 1) != 0;
    absl::StrAppend(&key, "|", is_scaled ? "" : absl::StrJoin(of.Boundaries(dim), ","));
  }
  return it->second = NumberOf(std::move(key));
}

MovementCosts::Class MovementCosts::ClassOfRead(int read, Dims scaled) {
  ReadClasses& classes = ClassesOfRead(read);
  const auto [it, fresh] = classes.number.try_emplace(scaled, -1);
  if (!fresh) return it->second;
  const KnownRead& need = reads_[read];
  std::string key = absl::StrCat("read ", ClassOf(need.layout, scaled));
  AppendReadings(need.readings, &key);
  for (const auto& [dim, reading] : need.readings) {
    absl::StrAppend(&key, "|", absl::StrJoin(need.to->Boundaries(dim), ","));
  }
  return it->second = NumberOf(std::move(key));
}

const MovementCosts::Unit* MovementCosts::UnitOf(int from, int read, int64_t* scale) {
  const ReadClasses& of_read = ClassesOfRead(read);
  const Dims scaled = of_read.scalable & ClassesOf(from).even;
  if (scaled == 0) return nullptr;
  const Layout &a = layouts_[from], &b = reads_[read].Lies();
  if (a.shape() != b.shape()) return nullptr;
  const uint64_t key =
      (static_cast<uint64_t>(ClassOf(from, scaled)) << 32) | static_cast<uint32_t>(ClassOfRead(read, scaled));
  auto unit = units_.find(key);
  if (unit == units_.end()) unit = units_.emplace(key, CountUnit(from, read, scaled)).first;
  if (!unit->second.scales) return nullptr;
  *scale = 1;
  for (int dim = 0; dim < a.dims(); ++dim) {
    if ((scaled >> dim & 1) != 0) *scale *= a.shape()[dim] / std::lcm(a.Parts(dim), b.Parts(dim));
  }
  return &unit->second;
}

MovementCosts::Unit MovementCosts::CountUnit(int from, int read, Dims scaled) {
  const KnownRead& need = reads_[read];
  const Layout &a = layouts_[from], &b = need.Lies();
  std::vector<int64_t> shape = a.shape();
  for (int dim = 0; dim < a.dims(); ++dim) {
    if ((scaled >> dim & 1) != 0) shape[dim] = std::lcm(a.Parts(dim), b.Parts(dim));
  }
  const auto source = a.WithShape(shape), wanted = b.WithShape(shape);
  if (!source.ok() || !wanted.ok()) return {};
  const auto traffic = BusiestTrafficOf({.from = *source,
                                         .to = need.readings.empty() ? *wanted : *need.to,
                                         .readings = need.readings,
                                         .read = *wanted,
                                         .source = need.source});
  if (!traffic.ok()) return {};
  // Whether a collective operation pays depends on the bytes, so none may be possible.
  return {*traffic, !traffic->has_groups};
}

MovementCosts::Pair MovementCosts::PairOf(int from, int read, const BusiestTraffic& traffic, int64_t scale) const {
  if (traffic.is_identity) return {0, 0, true};
  Pair pair{model_.OfMovement(Scaled(traffic.forward, scale)), model_.OfMovement(Scaled(traffic.adjoint, scale)),
            false};
  const KnownRead& need = reads_[read];
  const bool is_halo = !need.readings.empty() && need.layout == from;
  if (!is_halo) pair.forward += change_;
  return pair;
}

MovementCosts::Pair MovementCosts::Seconds(int from, int read) {
  const uint64_t key = (static_cast<uint64_t>(from) << 32) | static_cast<uint32_t>(read);
  const auto found = pairs_.find(key);
  if (found != pairs_.end()) return found->second;
  const Pair pair = Count(from, read);
  pairs_.emplace(key, pair);
  return pair;
}

MovementCosts::Pair MovementCosts::Count(int from, int read) {
  const KnownRead& need = reads_[read];
  const Layout& source = layouts_[from];
  if (need.readings.empty() && need.source.empty() && need.layout == from) return {0, 0, true};
  int64_t scale = 1;
  if (const Unit* unit = UnitOf(from, read, &scale); unit != nullptr) return PairOf(from, read, unit->traffic, scale);
  const auto traffic = BusiestTrafficOf({.from = source,
                                         .to = *need.to,
                                         .readings = need.readings,
                                         .read = need.read != nullptr ? *need.read : source,
                                         .source = need.source});
  if (!traffic.ok()) return {kImpossible, kImpossible, false};
  return PairOf(from, read, *traffic, 1);
}

}  // namespace adjoin
