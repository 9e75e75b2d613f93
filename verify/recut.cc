#include "verify/recut.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/layout.h"
#include "verify/trained_data.h"

namespace adjoin {
namespace {

int64_t ProductOf(const std::vector<int64_t>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{1}, std::multiplies<int64_t>());
}

// How much of its parts the most shortened axis keeps.
double KeptOfWorst(const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  double kept = 1;
  for (size_t i = 0; i < before.size(); ++i) {
    kept = std::min(kept, static_cast<double>(after[i]) / static_cast<double>(before[i]));
  }
  return kept;
}

bool IsBetter(const std::vector<int64_t>& before, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (ProductOf(a) != ProductOf(b)) return ProductOf(a) > ProductOf(b);
  const double of_a = KeptOfWorst(before, a), of_b = KeptOfWorst(before, b);
  return of_a != of_b ? of_a > of_b : a > b;
}

// Tries every number of parts of axis `axis` and those after it; there are never more ways than the layout has parts.
void Shorten(const std::vector<int64_t>& parts, size_t axis, int64_t most, std::vector<int64_t>& way,
             std::vector<int64_t>& best) {
  if (axis == parts.size()) {
    if (best.empty() || IsBetter(parts, way, best)) best = way;
    return;
  }
  for (int64_t n = std::min(parts[axis], most); n >= 1; --n) {
    way.push_back(n);
    Shorten(parts, axis + 1, most / n, way, best);
    way.pop_back();
  }
}

std::vector<int64_t> PrimeFactors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; n > 1; ++p) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  std::reverse(factors.begin(), factors.end());
  return factors;
}

// Parts of tensor dim `dim`.
int64_t PartsOf(const LayoutSpec& layout, const std::vector<int64_t>& parts, int dim) {
  if (!layout.partition().empty()) return dim < static_cast<int>(parts.size()) ? parts[dim] : 1;
  int64_t product = 1;
  for (int axis = 0; axis < layout.sbp_size(); ++axis) {
    const auto placement = Placement::Parse(layout.sbp(axis));
    if (placement.ok() && placement->kind == Placement::Kind::kSplit && placement->dim == dim) product *= parts[axis];
  }
  return product;
}

void RecutLayout(int64_t from, int64_t ranks, LayoutSpec& layout) {
  std::vector<int64_t> before(layout.partition().begin(), layout.partition().end());
  if (before.empty()) {
    for (const Axis& axis : layout.mesh()) before.push_back(axis.size());
  }
  const std::vector<int64_t> after = RecutParts(before, from, ranks);
  google::protobuf::RepeatedPtrField<Cut> cuts;
  for (const Cut& cut : layout.cut()) {
    if (PartsOf(layout, before, cut.dim()) == PartsOf(layout, after, cut.dim())) *cuts.Add() = cut;
  }
  *layout.mutable_cut() = std::move(cuts);
  for (size_t i = 0; i < after.size(); ++i) {
    if (!layout.partition().empty()) {
      layout.set_partition(static_cast<int>(i), static_cast<uint32_t>(after[i]));
    } else {
      layout.mutable_mesh(static_cast<int>(i))->set_size(static_cast<uint32_t>(after[i]));
    }
  }
  const bool some_gone =
      std::any_of(layout.rank().begin(), layout.rank().end(), [&](uint32_t r) { return r >= ranks; });
  if (some_gone || ProductOf(after) != ProductOf(before)) layout.clear_rank();
}

// Names the layout in which each layer reads a field, where the job on one rank had no need to.
void CutFieldsByBatch(JobSpec& spec) {
  const Dataset& dataset = TrainedData(spec);
  std::set<std::string> earlier, made;
  for (Layer& layer : *spec.mutable_layer()) {
    for (int i = 0; i < layer.input_size(); ++i) {
      const Field* field = earlier.count(layer.input(i)) > 0 ? nullptr : FieldOf(dataset, layer.input(i));
      if (field == nullptr || (i < layer.x_size() && !layer.x(i).empty())) continue;
      const std::string name = absl::StrCat("verify.batch.", field->shape_size() + 1);
      while (layer.x_size() <= i) layer.add_x("");
      layer.set_x(i, name);
      if (!made.insert(name).second) continue;
      LayoutSpec* layout = spec.add_layout();
      layout->set_name(name);
      layout->add_partition(spec.ranks());
      for (int dim = 0; dim < field->shape_size(); ++dim) layout->add_partition(1);
    }
    earlier.insert(layer.name());
  }
}

}  // namespace

std::vector<int64_t> RecutParts(const std::vector<int64_t>& parts, int64_t from, int64_t ranks) {
  if (ProductOf(parts) > ranks) {
    std::vector<int64_t> way, best;
    Shorten(parts, 0, ranks, way, best);
    return best;
  }
  std::vector<int64_t> after = parts;
  for (int64_t factor : PrimeFactors(std::max<int64_t>(1, ranks / from))) {
    auto fewest = after.end();
    for (auto axis = after.begin(); axis != after.end(); ++axis) {
      if (*axis > 1 && (fewest == after.end() || *axis < *fewest)) fewest = axis;
    }
    if (fewest != after.end()) *fewest *= factor;
  }
  return after;
}

std::vector<double> RecutWeights(const JobSpec& spec, uint32_t ranks) {
  std::vector<double> weights;
  for (uint32_t rank = 0; rank < ranks && !spec.rank_weight().empty(); ++rank) {
    weights.push_back(spec.rank_weight(static_cast<int>(rank) % spec.rank_weight_size()));
  }
  return weights;
}

JobSpec Recut(const JobSpec& spec, uint32_t ranks) {
  JobSpec recut = spec;
  if (ranks == spec.ranks()) return recut;
  recut.set_ranks(ranks);
  const std::vector<double> weights = RecutWeights(spec, ranks);
  recut.mutable_rank_weight()->Assign(weights.begin(), weights.end());
  for (LayoutSpec& layout : *recut.mutable_layout()) RecutLayout(spec.ranks(), ranks, layout);
  for (Layer& layer : *recut.mutable_layer()) layer.clear_owner();
  if (ranks > 1 && spec.ranks() == 1) CutFieldsByBatch(recut);
  return recut;
}

}  // namespace adjoin
