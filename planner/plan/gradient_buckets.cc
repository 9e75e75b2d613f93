#include "planner/plan/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

// How a movement adds the ranks' terms of an element.
enum class Order { kOfTwo, kPlainList, kDoubling, kPairwise };

// The sum of one gradient that may share a bucket.
struct Candidate {
  Layout home;
  std::vector<int64_t> elements;  // of the local parts, by part of the home
  Order order = Order::kOfTwo;
};

// Ranks that add up one part, and the ranks that have each part.
class Groups {
 public:
  explicit Groups(const Layout& home) : home_(home) {
    for (int axis = 0; axis < home.mesh().axes(); ++axis) {
      if (IsSplit(axis)) {
        parts_ *= home.mesh().shape()[axis];
      } else {
        ranks_ *= home.mesh().shape()[axis];
      }
    }
  }

  int64_t ranks() const { return ranks_; }

  // The elements of each part, in row-major order of the axes that split.
  std::vector<int64_t> Elements() const {
    std::vector<int64_t> elements;
    for (int64_t part = 0; part < parts_; ++part) {
      std::vector<int64_t> coords(home_.mesh().axes(), 0);
      int64_t rest = part;
      for (int axis = home_.mesh().axes() - 1; axis >= 0; --axis) {
        if (!IsSplit(axis)) continue;
        coords[axis] = rest % home_.mesh().shape()[axis];
        rest /= home_.mesh().shape()[axis];
      }
      elements.push_back(VolumeOf(home_.LocalShape(home_.mesh().RankAt(coords))));
    }
    return elements;
  }

 private:
  bool IsSplit(int axis) const { return home_.placements()[axis].kind == Placement::Kind::kSplit; }

  const Layout& home_;
  int64_t parts_ = 1;
  int64_t ranks_ = 1;
};

Order OrderOf(int64_t ranks, int64_t elements, DType dtype) {
  if (ranks == 2) return Order::kOfTwo;
  CollectiveGroup group;
  group.kind = CollectiveGroup::Kind::kAllSumReduce;
  group.ranks.resize(static_cast<size_t>(ranks));
  group.elements = elements;
  if (PlainListIsCheaper(group, dtype)) return Order::kPlainList;
  return AlgorithmOf(group, dtype) == "recursive doubling" ? Order::kDoubling : Order::kPairwise;
}

// Returns nothing for a gradient that is summed by itself.
std::optional<Candidate> CandidateOf(const Layout& home) {
  if (home.dims() == 0) return std::nullopt;
  const Groups groups(home);
  Candidate candidate{home, groups.Elements(), Order::kOfTwo};
  std::optional<Order> order;
  for (const int64_t elements : candidate.elements) {
    if (elements > kLargestInBucket / SizeOf(home.dtype())) return std::nullopt;
    if (elements == 0) continue;
    const Order of_part = OrderOf(groups.ranks(), elements, home.dtype());
    if (order.has_value() && *order != of_part) return std::nullopt;
    order = of_part;
  }
  if (!order.has_value()) return std::nullopt;
  candidate.order = *order;
  return candidate;
}

// A bucket that is being filled.
struct Bucket {
  GradientSum sum;
  Layout home;                   // of the first gradient in it
  std::vector<int64_t> columns;  // of the local tensors, by part
};

// The columns with one more gradient; nothing where it does not fit.
std::optional<std::vector<int64_t>> Joined(const std::vector<int64_t>& columns, const Candidate& candidate,
                                           int64_t ranks, int64_t rows) {
  std::vector<int64_t> joined = columns;
  for (size_t part = 0; part < joined.size(); ++part) {
    joined[part] += BucketColumns(candidate.elements[part], rows);
    const int64_t elements = joined[part] * rows;
    const DType dtype = candidate.home.dtype();
    if (elements * SizeOf(dtype) > kLargestBucket) return std::nullopt;
    if (elements > 0 && OrderOf(ranks, elements, dtype) != candidate.order) return std::nullopt;
  }
  return joined;
}

// The home of a bucket: the parts of its gradients one after the other, where their homes have them.
absl::StatusOr<Layout> HomeOf(const Bucket& bucket) {
  std::vector<Placement> placements = bucket.home.placements();
  bool split = false;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    placement = Placement::Split(0);
    split = true;
  }
  std::vector<int64_t> elements;
  int64_t all = 0;
  for (const int64_t columns : bucket.columns) {
    elements.push_back(columns * bucket.sum.rows);
    all += elements.back();
  }
  Layout::Cuts cuts;
  if (split) cuts[0] = elements;
  return Layout::Create({all}, bucket.home.dtype(), bucket.home.mesh(), std::move(placements), std::move(cuts));
}

// What two gradients of one bucket have in common: mesh, which of its axes split, type, order.
std::string KeyOf(const Candidate& candidate) {
  std::string key = absl::StrCat(ToString(candidate.home.dtype()), " ", static_cast<int>(candidate.order), " ");
  for (const Placement& placement : candidate.home.placements()) {
    key.push_back(placement.kind == Placement::Kind::kSplit ? 'S' : 'B');
  }
  return absl::StrCat(key, " ", candidate.home.mesh().ToString());
}

absl::StatusOr<GradientSum> Finished(const Plan& plan, const Bucket& bucket) {
  GradientSum sum = bucket.sum;
  const ParameterPlan& first = plan.parameter(sum.parameters.back());
  if (sum.parameters.size() == 1) {
    sum.movement = first.sync();
    sum.rows = 1;
    return sum;
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout home, HomeOf(bucket));
  ADJOIN_ASSIGN_OR_RETURN(const Layout dual, home.Dual());
  // The ids of its gradients' own movements are free.
  sum.movement.set_id(first.sync().id());
  sum.movement.set_name(absl::StrCat(first.sync().name(), " and ", sum.parameters.size() - 1, " more"));
  *sum.movement.mutable_from() = ToProto(dual);
  *sum.movement.mutable_to() = ToProto(home);
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<GradientSum>> GradientSums(const Plan& plan) {
  std::vector<Bucket> buckets;
  std::map<std::string, size_t> open;  // in `buckets`, the one that is being filled, by key
  for (int i = plan.parameter_size() - 1; i >= 0; --i) {
    const ParameterPlan& parameter = plan.parameter(i);
    if (!parameter.has_sync() || parameter.frozen()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
    const std::optional<Candidate> candidate = CandidateOf(home);
    if (!candidate.has_value()) {
      buckets.push_back(Bucket{GradientSum{{i}, {}, 1}, home, {}});
      continue;
    }
    const int64_t ranks = Groups(home).ranks();
    const auto [found, is_new] = open.emplace(KeyOf(*candidate), buckets.size());
    if (!is_new) {
      Bucket& bucket = buckets[found->second];
      if (auto joined = Joined(bucket.columns, *candidate, ranks, bucket.sum.rows)) {
        bucket.columns = *std::move(joined);
        bucket.sum.parameters.push_back(i);
        continue;
      }
      found->second = buckets.size();
    }
    Bucket bucket{GradientSum{{i}, {}, candidate->order == Order::kPairwise ? ranks : 1}, home, {}};
    for (const int64_t elements : candidate->elements) {
      bucket.columns.push_back(BucketColumns(elements, bucket.sum.rows));
    }
    buckets.push_back(std::move(bucket));
  }
  std::vector<GradientSum> sums;
  for (const Bucket& bucket : buckets) {
    ADJOIN_ASSIGN_OR_RETURN(GradientSum sum, Finished(plan, bucket));
    sums.push_back(std::move(sum));
  }
  std::sort(sums.begin(), sums.end(),
            [](const GradientSum& a, const GradientSum& b) { return a.parameters.back() > b.parameters.back(); });
  return sums;
}

std::vector<std::vector<int>> SumsCompleteAt(const std::vector<GradientSum>& sums, const ProgramPlan& program) {
  std::map<int, int> first_use;  // of a parameter
  for (int layer = program.layer_size() - 1; layer >= 0; --layer) {
    for (const ParameterUse& use : program.layer(layer).parameter()) first_use[static_cast<int>(use.index())] = layer;
  }
  std::vector<std::vector<int>> complete(program.layer_size());
  for (size_t i = 0; i < sums.size(); ++i) {
    std::optional<int> first;
    for (const int parameter : sums[i].parameters) {
      const auto use = first_use.find(parameter);
      if (use != first_use.end()) first = std::min(first.value_or(use->second), use->second);
    }
    if (first.has_value()) complete[*first].push_back(static_cast<int>(i));
  }
  return complete;
}

}  // namespace adjoin
