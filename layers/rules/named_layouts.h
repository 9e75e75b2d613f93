// The layouts that a job names, checked once, and made into a Layout of a tensor where they are used.
//
//   ADJOIN_ASSIGN_OR_RETURN(NamedLayouts layouts, NamedLayouts::Create(spec));
//   ADJOIN_ASSIGN_OR_RETURN(Layout x, layouts.Resolve("grid", {64, 1, 28, 28}, DType::kFloat32));
#ifndef ADJOIN_LAYERS_RULES_NAMED_LAYOUTS_H_
#define ADJOIN_LAYERS_RULES_NAMED_LAYOUTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/rank_weights.h"
#include "proto/job.pb.h"

namespace adjoin {

// JobSpec.rank_weight; even where the job has none.
// Errors: kInvalidArgument, located (another number than ranks; as RankWeights::Create).
absl::StatusOr<RankWeights> RankWeightsOf(const JobSpec& spec);

class NamedLayouts {
 public:
  // Checks every layout for itself: names, one form, parts that multiply to the ranks named, ranks below JobSpec.ranks.
  // And JobSpec.rank_weight, in whose proportion the layouts cut what they do not size.
  // Errors: kInvalidArgument, located at the layout (spec_error.h).
  static absl::StatusOr<NamedLayouts> Create(const JobSpec& spec);

  // Errors: kInvalidArgument: no such layout (lists the known ones), made for another number of dims, cuts that do not
  // sum to the extent, P along an axis.
  absl::StatusOr<Layout> Resolve(const std::string& name, const std::vector<int64_t>& shape, DType dtype) const;

 private:
  struct Entry {
    std::vector<int64_t> partition;  // empty: mesh and placements
    std::vector<int64_t> mesh;
    std::vector<std::string> axis;
    std::vector<Placement> placements;
    std::vector<int> ranks;
    Layout::Cuts cuts;
  };
  static absl::StatusOr<Entry> Check(const LayoutSpec& layout, uint32_t ranks);
  std::map<std::string, Entry> entries_;
  std::shared_ptr<const RankWeights> weights_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_NAMED_LAYOUTS_H_
