#include "primitives/geometry/transfer_counts.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

// Calls visit(position, coordinates) for every rank of `mesh`.
template <typename Visit>
void ForEachPosition(const Mesh& mesh, const Visit& visit) {
  std::vector<int64_t> coords(mesh.axes(), 0);
  for (int64_t position = 0; position < mesh.size(); ++position) {
    visit(position, coords);
    for (int axis = mesh.axes() - 1; axis >= 0 && ++coords[axis] == mesh.shape()[axis]; --axis) coords[axis] = 0;
  }
}

}  // namespace

// Positions, and which dims the axes split.
void TransferCounts::SetAxes(End& end) {
  const Mesh& mesh = end.layout->mesh();
  const int dims = end.layout->dims();
  end.axes.resize(mesh.axes());
  end.fixed.assign(dims, 1);
  std::vector<int64_t> weight(dims, 1);
  int64_t stride = 1;
  for (int axis = mesh.axes() - 1; axis >= 0; --axis) {
    Axis& a = end.axes[axis];
    a.size = mesh.shape()[axis];
    a.stride = stride;
    stride *= a.size;
    const Placement& placement = end.layout->placements()[axis];
    if (placement.kind != Kind::kSplit) continue;
    a.part_dim = placement.dim;
    a.part_weight = weight[placement.dim];
    weight[placement.dim] *= a.size;
  }
}

// The selection of exchange_schedule.h, axis by axis.
void TransferCounts::LinkAxes() {
  const auto rows_of = [](End& own, int axis, int dim) {
    own.axes[axis].row_dim = dim;
    own.axes[axis].row_weight = own.fixed[dim];
    own.fixed[dim] *= own.axes[axis].size;
  };
  if (same_mesh_) {
    for (int axis = static_cast<int>(from_.axes.size()) - 1; axis >= 0; --axis) {
      const Placement& source = from_.layout->placements()[axis];
      const Placement& dest = to_.layout->placements()[axis];
      Axis &a = from_.axes[axis], &b = to_.axes[axis];
      const bool meets = source.kind == Kind::kPartial && !sums_;
      switch (dest.kind) {
        case Kind::kSplit: b.link = Link::kByPart; break;
        case Kind::kBroadcast: b.link = source.kind == Kind::kBroadcast ? Link::kSame : Link::kAny; break;
        case Kind::kPartial: b.link = source.kind == Kind::kBroadcast || meets ? Link::kZero : Link::kSame; break;
      }
      switch (source.kind) {
        case Kind::kSplit: a.link = Link::kByPart; break;
        case Kind::kBroadcast: a.link = Link::kSame; break;
        case Kind::kPartial: a.link = dest.kind == Kind::kPartial && !meets ? Link::kSame : Link::kAny; break;
      }
      if (source.kind == Kind::kBroadcast && dest.kind == Kind::kPartial) a.zero_only = b.zero_only = true;
      if (meets && dest.kind == Kind::kPartial) b.zero_only = true;
      if (source.kind == Kind::kBroadcast && dest.kind == Kind::kSplit) rows_of(from_, axis, dest.dim);
      if (source.kind == Kind::kSplit && dest.kind == Kind::kPartial) rows_of(to_, axis, source.dim);
    }
  } else {
    for (size_t axis = 0; axis < from_.axes.size(); ++axis) {
      const Kind kind = from_.layout->placements()[axis].kind;
      from_.axes[axis].link = kind == Kind::kSplit ? Link::kByPart : kind == Kind::kPartial ? Link::kAny : Link::kZero;
    }
    for (size_t axis = 0; axis < to_.axes.size(); ++axis) {
      const Kind kind = to_.layout->placements()[axis].kind;
      to_.axes[axis].link = kind == Kind::kSplit ? Link::kByPart : kind == Kind::kBroadcast ? Link::kAny : Link::kZero;
      to_.axes[axis].zero_only = kind == Kind::kPartial;
    }
  }
  for (End* end : {&from_, &to_}) {
    const End& other = end == &from_ ? to_ : from_;
    for (const Axis& axis : other.axes) {
      if (axis.link == Link::kAny) end->factor *= axis.size;
    }
    // Rows are numbered part by part.
    for (Axis& axis : end->axes) {
      if (axis.part_dim < 0) continue;
      axis.row_dim = axis.part_dim;
      axis.row_weight = axis.part_weight * end->fixed[axis.part_dim];
    }
  }
}

void TransferCounts::SetPositions(End& end) {
  const int dims = end.layout->dims();
  const Mesh& mesh = end.layout->mesh();
  end.part_of.assign(mesh.size() * dims, 0);
  end.row_of.assign(mesh.size() * dims, 0);
  end.active.assign(mesh.size(), true);
  ForEachPosition(mesh, [&](int64_t position, const std::vector<int64_t>& coords) {
    int* const part_of = end.part_of.data() + position * dims;
    int* const row_of = end.row_of.data() + position * dims;
    for (size_t i = 0; i < end.axes.size(); ++i) {
      const Axis& axis = end.axes[i];
      if (coords[i] == 0) continue;
      if (axis.zero_only) end.active[position] = false;
      if (axis.part_dim >= 0) part_of[axis.part_dim] += static_cast<int>(coords[i] * axis.part_weight);
      if (axis.row_dim >= 0) row_of[axis.row_dim] += static_cast<int>(coords[i] * axis.row_weight);
    }
  });
  end.part_position.resize(dims);
  for (int dim = 0; dim < dims; ++dim) {
    std::vector<int64_t>& positions = end.part_position[dim];
    positions.assign(end.dims[dim].extents.size(), 0);
    for (const Axis& axis : end.axes) {
      if (axis.part_dim != dim) continue;
      for (size_t part = 0; part < positions.size(); ++part) {
        positions[part] += static_cast<int64_t>(part) / axis.part_weight % axis.size * axis.stride;
      }
    }
  }
}

void TransferCounts::FillRows(End& own, const End& other, int dim, bool own_is_from) const {
  const DimParts &mine = own.dims[dim], &theirs = other.dims[dim];
  const int64_t fixed = own.fixed[dim];
  // A partner's part has the coordinates of one of the part's rows.
  std::vector<int>& fixed_of = own.fixed_of_partner[dim];
  fixed_of.assign(theirs.extents.size(), 0);
  if (fixed > 1) {
    for (size_t i = 0; i < own.axes.size(); ++i) {
      const Axis& axis = own.axes[i];
      if (axis.row_dim != dim || axis.part_dim == dim) continue;
      for (size_t part = 0; part < theirs.extents.size(); ++part) {
        const int64_t coord = static_cast<int64_t>(part) / other.axes[i].part_weight % axis.size;
        fixed_of[part] += static_cast<int>(coord * axis.row_weight);
      }
    }
  }
  std::vector<Row>& rows = own.rows[dim];
  rows.assign(mine.extents.size() * fixed, {});
  for (const PartOverlap& overlap : overlaps_[dim]) {
    const int part = own_is_from ? overlap.p : overlap.q;
    const int partner = own_is_from ? overlap.q : overlap.p;
    Row& row = rows[part * fixed + fixed_of[partner]];
    row.elements += overlap.elements;
    ++row.partners;
    if (overlap.runs == 1 && overlap.elements == mine.extents[part]) ++row.whole;
    if (row.first < 0) row.first = partner;
    row.depth = 1;
  }
  if (!theirs.plain) AddDepths(mine, theirs, fixed_of, fixed, rows);
}

// How many of the partners' runs at most share a cell of each part.
void TransferCounts::AddDepths(const DimParts& own, const DimParts& others, const std::vector<int>& fixed_of_partner,
                               int64_t fixed, std::vector<Row>& rows) {
  std::vector<PartRun> runs = own.runs;
  std::sort(runs.begin(), runs.end(), [](const PartRun& a, const PartRun& b) { return a.lo < b.lo; });
  std::vector<int64_t> reach;
  for (const PartRun& run : runs) reach.push_back(std::max(run.hi, reach.empty() ? run.hi : reach.back()));
  // (row, run, index, +1 or -1): where a partner's run begins or ends in one of the part's runs; ends come first.
  std::vector<std::tuple<int64_t, int64_t, int64_t, int>> events;
  for (const PartRun& b : others.runs) {
    auto end = std::lower_bound(runs.begin(), runs.end(), b.hi, [](const PartRun& a, int64_t hi) { return a.lo < hi; });
    for (int64_t i = end - runs.begin() - 1; i >= 0 && reach[i] > b.lo; --i) {
      const int64_t lo = std::max(runs[i].lo, b.lo), hi = std::min(runs[i].hi, b.hi);
      if (lo >= hi) continue;
      const int64_t row = runs[i].part * fixed + fixed_of_partner[b.part];
      events.emplace_back(row, i, lo, 1);
      events.emplace_back(row, i, hi, -1);
    }
  }
  std::sort(events.begin(), events.end());
  int64_t depth = 0;
  for (const auto& [row, run, index, change] : events) {
    depth += change;
    rows[row].depth = std::max(rows[row].depth, depth);
  }
}

// Every number is a product over the dims.
void TransferCounts::CountProducts(End& own, const End& other) {
  const int dims = own.layout->dims();
  const int64_t size = own.layout->mesh().size();
  own.ends.resize(size);
  // A partner's position but for its parts.
  const auto base_of = [&](int64_t position) {
    int64_t base = 0;
    for (size_t i = 0; i < other.axes.size(); ++i) {
      if (other.axes[i].link == Link::kSame)
        base += position / own.axes[i].stride % own.axes[i].size * own.axes[i].stride;
    }
    return base;
  };
  for (int64_t position = 0; position < size; ++position) {
    EndCounts& end = own.ends[position];
    const int* const row_of = own.row_of.data() + position * dims;
    const int* const part_of = own.part_of.data() + position * dims;
    end.volume = 1;
    for (int dim = 0; dim < dims; ++dim) end.volume *= own.dims[dim].extents[part_of[dim]];
    if (!own.active[position]) continue;
    int64_t elements = own.factor, transfers = own.factor, whole = own.factor, depth = own.factor;
    for (int dim = 0; dim < dims; ++dim) {
      const Row& row = own.rows[dim][row_of[dim]];
      elements *= row.elements;
      transfers *= row.partners;
      whole *= row.whole;
      depth *= row.depth;
    }
    if (transfers == 0) continue;
    end.elements = elements;
    end.transfers = transfers;
    end.whole = whole == transfers;
    end.meets = depth > 1;
    int64_t first = base_of(position);
    for (int dim = 0; dim < dims; ++dim) first += other.part_position[dim][own.rows[dim][row_of[dim]].first];
    end.first = static_cast<int>(first);
  }
}

void TransferCounts::CountKept() {
  const int dims = from_.layout->dims();
  const Mesh &from = from_.layout->mesh(), &to = to_.layout->mesh();
  if (!same_mesh_) {
    // A rank of one side only has an empty tensor on the other.
    for (End* end : {&from_, &to_}) {
      for (size_t i = 0; i < end->part_of.size(); ++i) {
        if (end->dims[i % dims].extents[end->part_of[i]] > 0) end->ends[i / dims].in_place = false;
      }
    }
  }
  for (int64_t q = 0; q < to.size(); ++q) {
    const bool alike = same_mesh_ || (q < from.size() && from.ranks()[q] == to.ranks()[q]);
    const std::optional<int64_t> p = alike ? q : from.IndexOf(to.ranks()[q]);
    if (!p.has_value()) continue;
    EndCounts &a = from_.ends[*p], &b = to_.ends[q];
    bool in_place = true;
    int64_t kept = 1;
    for (int dim = 0; dim < dims; ++dim) {
      const DimParts &source = from_.dims[dim], &dest = to_.dims[dim];
      const int i = from_.part_of[*p * dims + dim], j = to_.part_of[q * dims + dim];
      if (source.extents[i] != dest.extents[j]) in_place = false;
      int64_t shared = 0;
      for (int m = source.first_run[i]; m < source.first_run[i + 1]; ++m) {
        const PartRun& x = source.runs[m];
        for (int n = dest.first_run[j]; n < dest.first_run[j + 1]; ++n) {
          const PartRun& y = dest.runs[n];
          const int64_t lo = std::max(x.lo, y.lo), hi = std::min(x.hi, y.hi);
          if (lo >= hi) continue;
          shared += hi - lo;
          if (lo - x.lo + x.at != lo - y.lo + y.at) in_place = false;
        }
      }
      kept *= shared;
      if (kept == 0 && !in_place) break;
    }
    a.in_place = b.in_place = in_place;
    if (from_.active[*p] && to_.active[q]) a.kept = b.kept = kept;
  }
}

void TransferCounts::Clear() {
  for (End* end : {&from_, &to_}) {
    end->axes.clear();
    end->dims.clear();
    end->ends.clear();
    end->partners.clear();
    end->factor = 1;
  }
  listed_ = false;
  overlaps_.clear();
}

bool TransferCounts::Count(const Layout& from, const std::map<int, Reading>& source, const Layout& read,
                           const std::map<int, Reading>& readings, const Layout& to) {
  Clear();
  from_.layout = &from;
  to_.layout = &to;
  same_mesh_ = from.mesh() == to.mesh();
  sums_ = ReduceOf(from) == ReduceOp::kSum;
  const int dims = from.dims();
  for (int dim = 0; dim < dims; ++dim) {
    const auto selected = source.find(dim), reading = readings.find(dim);
    from_.dims.push_back(selected == source.end() ? PartsOf(from, dim) : PartsOf(from, selected->second, from, dim));
    to_.dims.push_back(reading == readings.end() ? PartsOf(readings.empty() ? to : read, dim)
                                                 : PartsOf(read, reading->second, to, dim));
    overlaps_.push_back(OverlapsOf(from_.dims.back(), to_.dims.back()));
  }
  SetAxes(from_);
  SetAxes(to_);
  LinkAxes();
  SetPositions(from_);
  SetPositions(to_);
  int64_t copies = 1;
  for (int axis = 0; axis < from.mesh().axes(); ++axis) {
    if (from.placements()[axis].kind == Kind::kBroadcast) copies *= from.mesh().shape()[axis];
  }
  if (!same_mesh_ && copies > 1) {
    if (!CountPairs()) return false;
  } else {
    for (End* end : {&from_, &to_}) {
      end->rows.resize(dims);
      end->fixed_of_partner.resize(dims);
    }
    for (int dim = 0; dim < dims; ++dim) {
      FillRows(from_, to_, dim, /*own_is_from=*/true);
      FillRows(to_, from_, dim, /*own_is_from=*/false);
    }
    CountProducts(from_, to_);
    CountProducts(to_, from_);
  }
  CountKept();
  return true;
}

std::vector<int> TransferCounts::PartnersOf(Side side, int position) const {
  const End &own = EndOf(side), &other = EndOf(side == Side::kFrom ? Side::kTo : Side::kFrom);
  if (listed_) return own.partners[position];
  if (!own.active[position]) return {};
  std::vector<int> positions = {0};
  const auto combine = [&positions](const std::vector<int64_t>& choices) {
    std::vector<int> finer;
    finer.reserve(positions.size() * choices.size());
    for (int so_far : positions) {
      for (int64_t choice : choices) finer.push_back(static_cast<int>(so_far + choice));
    }
    positions = std::move(finer);
  };
  for (size_t i = 0; i < other.axes.size(); ++i) {
    const Axis& axis = other.axes[i];
    if (axis.link == Link::kSame) {
      combine({position / axis.stride % axis.size * axis.stride});
    } else if (axis.link == Link::kAny) {
      std::vector<int64_t> choices;
      for (int64_t coord = 0; coord < axis.size; ++coord) choices.push_back(coord * axis.stride);
      combine(choices);
    }
  }
  const int dims = own.layout->dims();
  for (int dim = 0; dim < dims; ++dim) {
    const int part = own.part_of[position * dims + dim];
    const int fixed = static_cast<int>(own.row_of[position * dims + dim] - part * own.fixed[dim]);
    std::vector<int64_t> choices;
    for (const PartOverlap& overlap : overlaps_[dim]) {
      if ((side == Side::kFrom ? overlap.p : overlap.q) != part) continue;
      const int partner = side == Side::kFrom ? overlap.q : overlap.p;
      if (own.fixed_of_partner[dim][partner] == fixed) choices.push_back(other.part_position[dim][partner]);
    }
    combine(choices);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

bool TransferCounts::HaveSamePartners(Side side, int a, int b) const {
  const End &own = EndOf(side), &other = EndOf(side == Side::kFrom ? Side::kTo : Side::kFrom);
  if (listed_ || own.active[a] != own.active[b]) return false;
  const int dims = own.layout->dims();
  for (int dim = 0; dim < dims; ++dim) {
    if (own.row_of[a * dims + dim] != own.row_of[b * dims + dim]) return false;
  }
  for (size_t i = 0; i < other.axes.size(); ++i) {
    const Axis& axis = other.axes[i];
    if (axis.link == Link::kSame && a / axis.stride % axis.size != b / axis.stride % axis.size) return false;
  }
  return true;
}

}  // namespace adjoin
