// Between two meshes, from a source with copies: TransferCounts lists the pairs of ranks.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "primitives/geometry/transfer_counts.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

// More pairs than this are not listed.
constexpr int64_t kMostPairs = int64_t{1} << 23;

}  // namespace

// Each destination takes its own copy where it has one, else that of its turn.
bool TransferCounts::CountPairs() {
  listed_ = true;
  const int dims = from_.layout->dims();
  const Mesh &from = from_.layout->mesh(), &to = to_.layout->mesh();
  // Each overlap by q; a destination's combinations of parts are walked through in order.
  std::vector<std::vector<std::vector<const PartOverlap*>>> by_part(dims);
  for (int dim = 0; dim < dims; ++dim) {
    // What is used of one part of the source could be used of another as well.
    if (!from_.dims[dim].plain) return false;
    by_part[dim].resize(to_.dims[dim].extents.size());
    for (const PartOverlap& overlap : overlaps_[dim]) by_part[dim][overlap.q].push_back(&overlap);
  }
  std::vector<int64_t> copies = {0}, terms = {0};  // positions of the axes that are B, and P
  for (int axis = 0; axis < from.axes(); ++axis) {
    const Kind kind = from_.layout->placements()[axis].kind;
    if (kind == Kind::kSplit) continue;
    std::vector<int64_t>& positions = kind == Kind::kBroadcast ? copies : terms;
    std::vector<int64_t> finer;
    for (int64_t position : positions) {
      for (int64_t i = 0; i < from_.axes[axis].size; ++i) finer.push_back(position + i * from_.axes[axis].stride);
    }
    positions = std::move(finer);
  }
  from_.partners.resize(from.size());
  to_.partners.resize(to.size());
  from_.ends.resize(from.size());
  to_.ends.resize(to.size());
  for (End* end : {&from_, &to_}) {
    for (size_t position = 0; position < end->ends.size(); ++position) {
      int64_t volume = 1;
      for (int dim = 0; dim < dims; ++dim) volume *= end->dims[dim].extents[end->part_of[position * dims + dim]];
      end->ends[position].volume = volume;
    }
  }
  std::vector<int64_t> whole_from(from.size()), whole_to(to.size());
  int64_t pairs = 0;
  for (int64_t q = 0; q < to.size(); ++q) {
    if (!to_.active[q]) continue;
    const int* const parts = to_.part_of.data() + q * dims;
    int64_t combinations = 1;
    for (int dim = 0; dim < dims; ++dim) combinations *= by_part[dim][parts[dim]].size();
    if (combinations == 0) continue;
    pairs += combinations * static_cast<int64_t>(terms.size());
    if (pairs > kMostPairs) return false;
    int64_t turn = 0;
    for (const Axis& axis : to_.axes) {
      if (!axis.zero_only) turn = turn * axis.size + q / axis.stride % axis.size;
    }
    const std::optional<int64_t> own = from.IndexOf(to.ranks()[q]);
    for (int64_t combination = 0; combination < combinations; ++combination) {
      int64_t rest = combination, split = 0, elements = 1;
      bool all_of_source = true, all_of_dest = true, is_own = own.has_value();
      for (int dim = dims - 1; dim >= 0; --dim) {
        const std::vector<const PartOverlap*>& choices = by_part[dim][parts[dim]];
        const PartOverlap& overlap = *choices[rest % choices.size()];
        rest /= static_cast<int64_t>(choices.size());
        split += from_.part_position[dim][overlap.p];
        elements *= overlap.elements;
        const bool one = overlap.runs == 1;
        all_of_source = all_of_source && one && overlap.elements == from_.dims[dim].extents[overlap.p];
        all_of_dest = all_of_dest && one && overlap.elements == to_.dims[dim].extents[overlap.q];
        is_own = is_own && from_.part_of[*own * dims + dim] == overlap.p;
      }
      int64_t copy = copies[turn % copies.size()];
      if (is_own) {
        copy = 0;
        for (size_t axis = 0; axis < from_.axes.size(); ++axis) {
          if (from_.layout->placements()[axis].kind != Kind::kBroadcast) continue;
          const Axis& a = from_.axes[axis];
          copy += *own / a.stride % a.size * a.stride;
        }
      }
      for (int64_t term : terms) {
        const int64_t p = split + copy + term;
        from_.ends[p].elements += elements;
        to_.ends[q].elements += elements;
        whole_from[p] += all_of_source ? 1 : 0;
        whole_to[q] += all_of_dest ? 1 : 0;
        from_.partners[p].push_back(static_cast<int>(q));
        to_.partners[q].push_back(static_cast<int>(p));
      }
    }
    std::sort(to_.partners[q].begin(), to_.partners[q].end());
    to_.ends[q].meets = terms.size() > 1;
  }
  for (End* end : {&from_, &to_}) {
    for (size_t position = 0; position < end->ends.size(); ++position) {
      EndCounts& counts = end->ends[position];
      const std::vector<int>& partners = end->partners[position];
      counts.transfers = static_cast<int64_t>(partners.size());
      const int64_t whole = (end == &from_ ? whole_from : whole_to)[position];
      counts.whole = counts.transfers > 0 && whole == counts.transfers;
      if (!partners.empty()) counts.first = partners[0];
    }
  }
  return FindMeetings();
}

// Cells of a source meet in the adjoint where two of its destinations have them.
bool TransferCounts::FindMeetings() {
  const int dims = from_.layout->dims();
  bool plain = true;
  for (const DimParts& parts : to_.dims) plain = plain && parts.plain;
  int64_t pairs = 0;
  for (size_t p = 0; p < from_.ends.size(); ++p) {
    const std::vector<int>& partners = from_.partners[p];
    std::vector<int64_t> parts;
    for (int q : partners) {
      int64_t number = 0;
      for (int dim = 0; dim < dims; ++dim) {
        number = number * static_cast<int64_t>(to_.dims[dim].extents.size()) + to_.part_of[q * dims + dim];
      }
      parts.push_back(number);
    }
    std::sort(parts.begin(), parts.end());
    bool& meets = from_.ends[p].meets;
    meets = std::adjacent_find(parts.begin(), parts.end()) != parts.end();
    for (size_t i = 0; i < partners.size() && !plain && !meets; ++i) {
      for (size_t k = 0; k <= i && !meets; ++k) meets = ShareCells(static_cast<int>(p), partners[i], partners[k]);
      pairs += static_cast<int64_t>(i) + 1;
      if (pairs > kMostPairs) return false;
    }
  }
  return true;
}

// True where the destinations at `a` and `b` both have a cell of what the source at `p` has; of one destination: where
// it has one twice.
bool TransferCounts::ShareCells(int p, int a, int b) const {
  const int dims = from_.layout->dims();
  bool twice = a != b;
  for (int dim = 0; dim < dims; ++dim) {
    const DimParts &source = from_.dims[dim], &dest = to_.dims[dim];
    const int part = from_.part_of[p * dims + dim];
    const int of_a = to_.part_of[a * dims + dim], of_b = to_.part_of[b * dims + dim];
    bool shared = false;
    for (int own = source.first_run[part]; own < source.first_run[part + 1]; ++own) {
      for (int m = dest.first_run[of_a]; m < dest.first_run[of_a + 1]; ++m) {
        for (int n = dest.first_run[of_b]; n < dest.first_run[of_b + 1]; ++n) {
          const PartRun &x = dest.runs[m], &y = dest.runs[n], &z = source.runs[own];
          if (std::max({x.lo, y.lo, z.lo}) >= std::min({x.hi, y.hi, z.hi})) continue;
          shared = true;
          twice = twice || m != n;
        }
      }
    }
    if (!shared) return false;
  }
  return twice;
}

}  // namespace adjoin
