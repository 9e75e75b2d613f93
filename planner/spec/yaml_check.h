// Tells YAML from a job's text format: users of other systems write jobs in YAML, and to the parser of text format that
// is a mistake like any other.
//
//   LooksLikeYaml("name: lenet\nlayer:\n  - name: conv1\n", "job.txt");   // true
#ifndef ADJOIN_PLANNER_SPEC_YAML_CHECK_H_
#define ADJOIN_PLANNER_SPEC_YAML_CHECK_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

// For a text that is not in text format. True where its file is called so (.yaml, .yml), or where one of its lines
// begins a document ("---") or an element of a list ("- name"), or is an entry below another ("layer:", indented).
bool LooksLikeYaml(absl::string_view text, const std::string& file_name);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_YAML_CHECK_H_
