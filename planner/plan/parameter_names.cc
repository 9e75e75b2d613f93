#include "planner/plan/parameter_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/plan/shared_parameters.h"

namespace adjoin {

std::string ParameterName(const Layer& layer, const std::string& role) {
  const auto named = layer.parameter_name().find(role);
  return named != layer.parameter_name().end() ? named->second : absl::StrCat(layer.name(), ".", role);
}

absl::Status CheckParameterNames(const Layer& layer, const std::vector<ParameterNeed>& needs) {
  for (const auto& [role, name] : layer.parameter_name()) {
    if (FindNeed(needs, role) == nullptr) {
      const std::string roles = absl::StrJoin(needs, ", ", [](std::string* out, const ParameterNeed& need) {
        absl::StrAppend(out, "\"", need.role, "\"");
      });
      return AtField("parameter_name", InvalidSpec("the layer has no parameter \"", role, "\"; it has ",
                                                   needs.empty() ? "none: leave parameter_name out" : roles));
    }
    if (const absl::Status status = CheckName("a parameter", name); !status.ok()) {
      return AtField("parameter_name", absl::Status(status.code(), status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
