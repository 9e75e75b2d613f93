#include "layers/rules/named_layouts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

// The product of the parts, which are at least 1; more than `limit` counts as limit + 1, so that nothing overflows.
int64_t ProductUpTo(const std::vector<int64_t>& parts, int64_t limit) {
  int64_t product = 1;
  for (int64_t part : parts) {
    if (part > limit || product * part > limit) return limit + 1;
    product *= part;
  }
  return product;
}

// The ranks a layout uses: those it names, or 0, 1, ...
absl::StatusOr<std::vector<int>> RanksOf(const LayoutSpec& layout, const std::vector<int64_t>& parts, uint32_t ranks) {
  const std::string form = absl::StrJoin(parts, "x");
  if (layout.rank().empty()) {
    const int64_t count = ProductUpTo(parts, ranks);
    if (count > ranks) {
      return AtField(layout.partition().empty() ? "mesh" : "partition",
                     InvalidSpec(form, " takes more ranks than the job has, ", ranks));
    }
    std::vector<int> all(count);
    for (int64_t i = 0; i < count; ++i) all[i] = static_cast<int>(i);
    return all;
  }
  const int64_t named = layout.rank_size();
  const int64_t count = ProductUpTo(parts, std::max<int64_t>(named, ranks));
  if (count != named) {
    return AtField("rank", InvalidSpec(form, " takes ", count > std::max<int64_t>(named, ranks) ? "more than " : "",
                                       std::min(count, std::max<int64_t>(named, ranks)), " ranks, but ", named,
                                       " are named; their number must be the product of the parts"));
  }
  std::set<uint32_t> seen;
  for (int i = 0; i < layout.rank_size(); ++i) {
    const uint32_t rank = layout.rank(i);
    if (rank >= ranks) {
      return AtField(absl::StrCat("rank[", i, "]"),
                     InvalidSpec("rank ", rank, " does not exist: the job has ranks 0 to ", ranks - 1));
    }
    if (!seen.insert(rank).second) {
      return AtField(absl::StrCat("rank[", i, "]"), InvalidSpec("rank ", rank, " is named twice"));
    }
  }
  return std::vector<int>(layout.rank().begin(), layout.rank().end());
}

absl::StatusOr<Layout::Cuts> CutsOf(const LayoutSpec& layout) {
  Layout::Cuts cuts;
  for (int i = 0; i < layout.cut_size(); ++i) {
    const Cut& cut = layout.cut(i);
    const std::string field = absl::StrCat("cut[", i, "]");
    if (cut.dim() >= (1u << 30)) return AtField(field, InvalidSpec("cut of dim ", cut.dim(), ", which no tensor has"));
    if (!cuts.emplace(static_cast<int>(cut.dim()), std::vector<int64_t>(cut.size().begin(), cut.size().end())).second) {
      return AtField(field, InvalidSpec("dim ", cut.dim(), " has two cuts"));
    }
  }
  return cuts;
}

}  // namespace

absl::StatusOr<NamedLayouts::Entry> NamedLayouts::Check(const LayoutSpec& layout, uint32_t ranks) {
  Entry entry;
  if (layout.partition().empty() == layout.mesh().empty()) {
    return InvalidSpec("needs either partition, as in partition: [1, 1, 2, 2], or mesh with sbp",
                       layout.mesh().empty() ? "" : ", not both");
  }
  for (uint32_t parts : layout.partition()) entry.partition.push_back(parts);
  for (const Axis& axis : layout.mesh()) {
    entry.mesh.push_back(axis.size());
    entry.axis.push_back(axis.name());
  }
  const std::vector<int64_t>& parts = entry.partition.empty() ? entry.mesh : entry.partition;
  const std::string form = entry.partition.empty() ? "mesh" : "partition";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 1) {
      return AtField(absl::StrCat(form, "[", i, "]"),
                     InvalidSpec(form, " ", absl::StrJoin(parts, "x"), " has a 0; every number must be at least 1"));
    }
  }
  if (layout.sbp_size() != layout.mesh_size()) {
    return AtField("sbp", InvalidSpec("sbp has ", layout.sbp_size(), " entries for ", layout.mesh_size(),
                                      " axes of the mesh; it needs one per axis"));
  }
  for (int i = 0; i < layout.sbp_size(); ++i) {
    auto placement = Placement::Parse(layout.sbp(i));
    if (!placement.ok()) return AtField(absl::StrCat("sbp[", i, "]"), placement.status());
    entry.placements.push_back(*placement);
  }
  ADJOIN_ASSIGN_OR_RETURN(entry.ranks, RanksOf(layout, parts, ranks));
  ADJOIN_ASSIGN_OR_RETURN(entry.cuts, CutsOf(layout));
  return entry;
}

absl::StatusOr<RankWeights> RankWeightsOf(const JobSpec& spec) {
  const int given = spec.rank_weight_size();
  if (given > 0 && static_cast<uint32_t>(given) != spec.ranks()) {
    return AtField("rank_weight[0]",
                   InvalidSpec("rank_weight has ", given, given == 1 ? " number for " : " numbers for ", spec.ranks(),
                               spec.ranks() == 1 ? " rank" : " ranks", "; write one for each rank, or leave it out"));
  }
  auto weights = RankWeights::Create({spec.rank_weight().begin(), spec.rank_weight().end()});
  if (weights.ok()) return weights;
  const std::string message(weights.status().message());  // begins with the index: "[2] is"
  return AtField(absl::StrCat("rank_weight", message.substr(0, message.find(']') + 1)),
                 InvalidSpec("rank_weight", message));
}

absl::StatusOr<NamedLayouts> NamedLayouts::Create(const JobSpec& spec) {
  NamedLayouts layouts;
  ADJOIN_ASSIGN_OR_RETURN(RankWeights weights, RankWeightsOf(spec));
  if (!weights.even()) layouts.weights_ = std::make_shared<const RankWeights>(std::move(weights));
  for (int i = 0; i < spec.layout_size(); ++i) {
    const LayoutSpec& layout = spec.layout(i);
    const std::string field = absl::StrCat("layout[", i, "]");
    if (layout.name().empty()) return AtField(field, InvalidSpec("a layout needs a name"));
    auto entry = Check(layout, spec.ranks());
    if (!entry.ok()) return AtField(field, entry.status());
    if (!layouts.entries_.emplace(layout.name(), *std::move(entry)).second) {
      return AtField(absl::StrCat(field, ".name"), InvalidSpec("another layout has this name; names are unique"));
    }
  }
  return layouts;
}

absl::StatusOr<Layout> NamedLayouts::Resolve(const std::string& name, const std::vector<int64_t>& shape,
                                             DType dtype) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) {
    std::vector<std::string> known;
    for (const auto& entry : entries_) known.push_back(entry.first);
    return InvalidSpec("there is no layout \"", name, "\"; ",
                       known.empty() ? "the job has none" : absl::StrCat("known are ", absl::StrJoin(known, ", ")));
  }
  const Entry& entry = it->second;
  const std::string tensor = absl::StrCat(shape.empty() ? "a number" : absl::StrJoin(shape, "x"));
  for (const Placement& placement : entry.placements) {
    if (placement.kind == Placement::Kind::kPartial) {
      return InvalidSpec("layout \"", name, "\" has ", placement.ToString(),
                         ", which a layer can neither read nor return; S(<dim>) and B are possible");
    }
  }
  if (!entry.partition.empty() && entry.partition.size() != shape.size()) {
    return InvalidSpec("layout \"", name, "\" is for tensors of ", entry.partition.size(), " dims (partition ",
                       absl::StrJoin(entry.partition, "x"), "), but this one, ", tensor, ", has ", shape.size());
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, entry.partition.empty() ? Mesh::Create(entry.mesh, entry.ranks, entry.axis)
                                                             : Mesh::Create(entry.partition, entry.ranks));
  std::vector<Placement> placements = entry.placements;
  for (size_t dim = 0; dim < entry.partition.size(); ++dim)
    placements.push_back(Placement::Split(static_cast<int>(dim)));
  const absl::StatusOr<Layout> layout =
      Layout::Create(shape, dtype, mesh.WithWeights(weights_), std::move(placements), entry.cuts);
  if (!layout.ok()) {
    return InvalidSpec("layout \"", name, "\" does not fit the tensor ", tensor, ": ",
                       std::string(layout.status().message()));
  }
  return layout;
}

}  // namespace adjoin
