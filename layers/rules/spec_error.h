// Errors that know which field of the spec they speak of, so that the planner can add line and layer once, at the top.
//
//   return AtField("conv.window.kernel", InvalidSpec("kernel 7 is larger than the padded input, 5"));   // in a rule
//   return AtField("layer[3]", status);   // around it: the paths are joined, "layer[3].conv.window.kernel"
#ifndef ADJOIN_LAYERS_RULES_SPEC_ERROR_H_
#define ADJOIN_LAYERS_RULES_SPEC_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adjoin {

template <typename... Args>
absl::Status InvalidSpec(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}
// `what`, a noun phrase, is "not supported yet"; `advice` says what is.
absl::Status NotSupportedYet(absl::string_view what, absl::string_view advice = "");

// The same error, of a field below `path`. An ok status stays ok.
absl::Status AtField(absl::string_view path, absl::Status status);
// "" where the error speaks of no field.
std::string FieldOf(const absl::Status& status);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_SPEC_ERROR_H_
