#include "layers/rules/layer_rule.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {

absl::Status LayerRules::Register(std::string kind, LayerRule rule) {
  if (rules_.count(kind) > 0)
    return absl::AlreadyExistsError(absl::StrCat("layer kind \"", kind, "\" has a rule already"));
  rules_.emplace(std::move(kind), std::move(rule));
  return absl::OkStatus();
}

const LayerRule* LayerRules::Find(absl::string_view kind) const {
  const auto it = rules_.find(std::string(kind));
  return it == rules_.end() ? nullptr : &it->second;
}

std::vector<std::string> LayerRules::Kinds() const {
  std::vector<std::string> kinds;
  for (const auto& entry : rules_) kinds.push_back(entry.first);
  return kinds;
}

}  // namespace adjoin
