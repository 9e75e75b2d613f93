#include "planner/plan/shared_parameters.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

// As in a state_dict.
const std::vector<int64_t>& ShapeOf(const ParameterNeed& need) {
  return need.stored_shape.empty() ? need.home.shape() : need.stored_shape;
}

bool HaveOneShape(const ParameterNeed& a, const ParameterNeed& b) {
  return ShapeOf(a) == ShapeOf(b) && a.home.shape() == b.home.shape();
}

// "weight 8x4, bias 8"; of a parameter that is kept in another shape than a state_dict's, both.
std::string Text(const std::vector<ParameterNeed>& needs) {
  return absl::StrJoin(needs, ", ", [](std::string* out, const ParameterNeed& need) {
    absl::StrAppend(out, need.role, " ", ShapeText(ShapeOf(need)));
    if (!need.stored_shape.empty()) absl::StrAppend(out, " (as ", ShapeText(need.home.shape()), ")");
  });
}

}  // namespace

const ParameterNeed* FindNeed(const std::vector<ParameterNeed>& needs, absl::string_view role) {
  const auto found =
      std::find_if(needs.begin(), needs.end(), [role](const ParameterNeed& need) { return need.role == role; });
  return found == needs.end() ? nullptr : &*found;
}

absl::Status CheckSharedParameters(const std::string& owner, const std::vector<ParameterNeed>& owned,
                                   const std::vector<ParameterNeed>& needed, bool updates_buffers) {
  if (needed.empty()) {
    return InvalidSpec("weights_of is for a layer with parameters, which this one does not have; leave it out");
  }
  const bool keeps_state = updates_buffers && std::any_of(needed.begin(), needed.end(),
                                                          [](const ParameterNeed& need) { return need.buffer; });
  if (keeps_state) {
    return InvalidSpec(
        "it keeps running statistics, which two layers cannot share; leave weights_of out, or use a"
        " layer without such, as a norm of kind \"group\", \"instance\", \"layer\" or \"rms\"");
  }
  bool same = owned.size() == needed.size();
  for (const ParameterNeed& need : needed) {
    const ParameterNeed* const of_owner = FindNeed(owned, need.role);
    same = same && of_owner != nullptr && HaveOneShape(need, *of_owner);
  }
  if (same) return absl::OkStatus();
  return InvalidSpec("it has the parameters ", Text(needed), ", but layer \"", owner, "\" has ",
                     owned.empty() ? "none" : Text(owned), "; both need the same ones, in the same shapes");
}

}  // namespace adjoin
