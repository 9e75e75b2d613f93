// The layouts that candidates of the search name, and the numbers of what the names mean for tensors: each found once,
// for however many layers a cut is tried.
//
//   ResolvedLayouts layouts(*NamedLayouts::Create(job));
//   ADJOIN_ASSIGN_OR_RETURN(const int x, layouts.Number("4x1x2x1", {8, 3, 32, 32}, DType::kFloat32, &table));
//   table[x];
#ifndef ADJOIN_PLANNER_AUTO_RESOLVED_LAYOUTS_H_
#define ADJOIN_PLANNER_AUTO_RESOLVED_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "layers/rules/named_layouts.h"
#include "planner/auto/movement_costs.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

class ResolvedLayouts {
 public:
  explicit ResolvedLayouts(NamedLayouts named) : named_(std::move(named)) {}

  const NamedLayouts& named() const { return named_; }
  // The number in `table`, which is the same one in every call, of the layout that NamedLayouts::Resolve returns.
  // Errors: as Resolve.
  absl::StatusOr<int> Number(const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                             LayoutTable* table);

 private:
  const NamedLayouts named_;
  absl::flat_hash_map<std::tuple<std::string, std::vector<int64_t>, DType>, int> numbers_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_RESOLVED_LAYOUTS_H_
