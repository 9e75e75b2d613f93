#include "layers/plan/dataset_check.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/name_check.h"
#include "layers/plan/spec_error.h"

namespace adjoin {
namespace {

absl::Status CheckField(const Field& field) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a field", field.name()));
  if (field.source_case() == Field::SOURCE_NOT_SET) {
    return InvalidSpec("says nothing of where it comes from; write idx { path: ... }");
  }
  if (field.idx().path().empty()) return AtField("idx", InvalidSpec("idx.path is missing: the file"));
  for (int i = 0; i < field.idx().path_size(); ++i) {
    if (field.idx().path(i).empty()) return AtField(absl::StrCat("idx.path[", i, "]"), InvalidSpec("an empty path"));
    ADJOIN_RETURN_IF_ERROR(CheckPath(absl::StrCat("idx.path[", i, "]"), "--data-root", field.idx().path(i)));
  }
  if (!field.dtype().empty() && field.dtype() != "float32" && field.dtype() != "float64" && field.dtype() != "int64") {
    return AtField("dtype",
                   InvalidSpec("dtype \"", field.dtype(), "\" is not one of \"float32\", \"float64\", \"int64\""));
  }
  for (int i = 0; i < field.shape_size(); ++i) {
    if (field.shape(i) < 1) {
      return AtField(absl::StrCat("shape[", i, "]"),
                     InvalidSpec("shape has ", field.shape(i), "; every extent must be at least 1"));
    }
  }
  const int64_t channels = field.shape_size() > 0 ? field.shape(0) : 1;
  for (const auto* list : {&field.mean(), &field.std()}) {
    const char* name = list == &field.mean() ? "mean" : "std";
    if (list->size() > 1 && list->size() != channels) {
      return AtField(
          name, InvalidSpec(name, " has ", list->size(), " values; write one, or one per channel (", channels, ")"));
    }
    for (double value : *list) ADJOIN_RETURN_IF_ERROR(CheckFinite(name, value));
  }
  for (double value : field.std()) {
    if (value == 0) return AtField("std", InvalidSpec("std is 0; values are divided by it"));
  }
  return CheckFinite("scale", field.scale());
}

absl::Status CheckDataset(const Dataset& dataset) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a data set", dataset.name()));
  if (dataset.field().empty()) return InvalidSpec("it has no field");
  if (dataset.has_limit() && dataset.limit() < 1) {
    return AtField("limit", InvalidSpec("limit is ", dataset.limit(), "; it must be at least 1"));
  }
  std::set<std::string> names;
  for (int i = 0; i < dataset.field_size(); ++i) {
    const std::string at = absl::StrCat("field[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckField(dataset.field(i))));
    if (!names.insert(dataset.field(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another field has this name; names are unique"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDatasets(const JobSpec& spec) {
  std::set<std::string> names;
  for (int i = 0; i < spec.dataset_size(); ++i) {
    const std::string at = absl::StrCat("dataset[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckDataset(spec.dataset(i))));
    if (!names.insert(spec.dataset(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another data set has this name; names are unique"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
