#include "layers/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/rules/layer_kind.h"

namespace adjoin {

std::vector<std::string> LayerRegistry::Kinds() const {
  std::vector<std::string> kinds;
  for (const auto& entry : builders_) kinds.push_back(entry.first);
  return kinds;
}

absl::StatusOr<std::unique_ptr<LayerModule>> LayerRegistry::Build(LayerContext context) const {
  const std::string name = context.plan.name();
  const std::string kind = KindOf(context.plan.spec());
  auto builder = builders_.find(kind);
  if (builder == builders_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("layer \"", name, "\": no builder for kind \"", kind,
                                                   "\"; known: ", absl::StrJoin(Kinds(), ", ")));
  }
  auto module = builder->second(std::move(context));
  if (!module.ok()) {
    return absl::Status(module.status().code(), absl::StrCat("layer \"", name, "\": ", module.status().message()));
  }
  return module;
}

}  // namespace adjoin
