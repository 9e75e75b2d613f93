#include "worker/model/model_differences.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable_list.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {

std::string ModelDifferences::ToString() const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back(absl::StrCat("missing: ", PrintableList(missing)));
  if (!extra.empty()) parts.push_back(absl::StrCat("not in the model: ", PrintableList(extra)));
  if (!misshaped.empty()) parts.push_back(absl::StrCat("other shapes: ", PrintableList(misshaped)));
  return absl::StrJoin(parts, "; ");
}

ModelDifferences CompareModel(const std::vector<SafetensorsEntry>& file, const std::vector<NamedShape>& model) {
  ModelDifferences differences;
  std::map<std::string, const SafetensorsEntry*> in_file;
  for (const SafetensorsEntry& entry : file) in_file[entry.name] = &entry;
  std::set<std::string> names;
  for (const NamedShape& parameter : model) {
    names.insert(parameter.name);
    const auto entry = in_file.find(parameter.name);
    if (entry == in_file.end()) {
      differences.missing.push_back(parameter.name);
    } else if (entry->second->shape != parameter.shape) {
      differences.misshaped.push_back(absl::StrCat(parameter.name, ": ", ShapeText(parameter.shape), " in the model, ",
                                                   ShapeText(entry->second->shape), " in the file"));
    } else {
      ++differences.fitting;
    }
  }
  for (const SafetensorsEntry& entry : file) {
    if (names.count(entry.name) == 0) differences.extra.push_back(entry.name);
  }
  return differences;
}

absl::Status CheckDifferences(const std::string& path, const ModelDifferences& differences, bool strict) {
  if (differences.empty()) return absl::OkStatus();
  if (strict) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " does not fit the model (right would be every parameter in its shape and nothing else, or weights { strict:"
        " false }): ",
        differences.ToString()));
  }
  if (differences.fitting > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has no tensor of the model in its shape: ", differences.ToString()));
}

}  // namespace adjoin
