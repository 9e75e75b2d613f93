#include "planner/checks/name_check.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "layers/rules/spec_error.h"

namespace adjoin {

absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (name.empty()) return InvalidSpec(what, " needs a name");
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') {
      return AtField("name", InvalidSpec("the name \"", name, "\" may have letters, digits, '-', '_' and '.' only"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPath(absl::string_view field, absl::string_view root, const std::string& path) {
  bool leaves = !path.empty() && path[0] == '/';
  for (absl::string_view part : absl::StrSplit(path, '/')) leaves = leaves || part == "..";
  if (!leaves) return absl::OkStatus();
  return AtField(field, InvalidSpec("the path \"", path, "\" must be relative to the worker's ", root,
                                    " and stay below it: no leading '/', no '..'"));
}

absl::Status CheckFinite(absl::string_view field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return AtField(field, InvalidSpec(field, " is ", value, "; it must be a finite number"));
}

absl::Status CheckReference(const JobSpec& spec, absl::string_view field, const std::string& name) {
  if (name.empty()) return InvalidSpec(field, " is missing: the name of a data set");
  if (FindDataset(spec, name) != nullptr) return absl::OkStatus();
  std::vector<std::string> known;
  for (const Dataset& dataset : spec.dataset()) known.push_back(dataset.name());
  return AtField(
      field, InvalidSpec("there is no data set \"", name, "\"; ",
                         known.empty() ? "the job has none" : absl::StrCat("known are ", absl::StrJoin(known, ", "))));
}

const Dataset* FindDataset(const JobSpec& spec, const std::string& name) {
  for (const Dataset& dataset : spec.dataset()) {
    if (dataset.name() == name) return &dataset;
  }
  return nullptr;
}

const Field* FindField(const Dataset& dataset, const std::string& name) {
  for (const Field& field : dataset.field()) {
    if (field.name() == name) return &field;
  }
  return nullptr;
}

}  // namespace adjoin
