#include "planner/auto/resolved_layouts.h"

#include "base/status_macros.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

absl::StatusOr<int> ResolvedLayouts::Number(const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                                            LayoutTable* table) {
  std::tuple<std::string, std::vector<int64_t>, DType> key(name, shape, dtype);
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, named_.Resolve(name, shape, dtype));
  const int number = table->Add(layout);
  numbers_.emplace(std::move(key), number);
  return number;
}

}  // namespace adjoin
