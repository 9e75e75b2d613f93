#include "planner/spec/augment.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

constexpr int64_t kMostShift = 1 << 30;

// Parses the number in "WORD(NUMBER)".
bool ParseCall(absl::string_view text, absl::string_view word, int64_t* number) {
  text = absl::StripAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, word) || !absl::ConsumePrefix(&text, "(") || !absl::ConsumeSuffix(&text, ")")) {
    return false;
  }
  return absl::SimpleAtoi(text, number);
}

// Returns which dims are spatial and why, for those who left out the extent of the channels.
std::string SpatialDimsText(const Dataset& dataset) {
  if (dataset.has_blocks())
    return absl::StrCat("; spatial dims are those of blocks.size, ", dataset.blocks().size_size());
  const Field* most = nullptr;
  for (const Field& field : dataset.field()) {
    if (most == nullptr || field.shape_size() > most->shape_size()) most = &field;
  }
  if (most == nullptr || most->shape().empty()) return "; no field has a shape";
  return absl::StrCat("; spatial dims are all but the first, the channels, of the field with most dims, \"",
                      most->name(), "\" of shape [", absl::StrJoin(most->shape(), ", "),
                      "]; a field without channels gets a leading 1, shape: [1, ", absl::StrJoin(most->shape(), ", "),
                      "]");
}

absl::Status ParseOne(const std::string& text, const Dataset& dataset, Augment& augment) {
  const int spatial_dims = SpatialDims(dataset);
  int64_t number = 0;
  if (ParseCall(text, "flip", &number)) {
    if (number < 0 || number >= spatial_dims) {
      const std::string possible = spatial_dims == 0 ? ""
                                   : spatial_dims == 1
                                       ? ": write flip(0)"
                                       : absl::StrCat(": write flip(0) to flip(", spatial_dims - 1, ")");
      return InvalidSpec("\"", text, "\" names spatial dim ", number, " from the last; the fields have ", spatial_dims,
                         possible, SpatialDimsText(dataset));
    }
    if (std::count(augment.flip.begin(), augment.flip.end(), number) > 0) {
      return InvalidSpec("\"", text, "\" stands twice");
    }
    augment.flip.push_back(static_cast<int>(number));
    return absl::OkStatus();
  }
  if (ParseCall(text, "shift", &number)) {
    if (spatial_dims == 0) {
      return InvalidSpec("\"", text, "\" moves along spatial dims; the fields have none", SpatialDimsText(dataset));
    }
    if (number < 1 || number > kMostShift) {
      return InvalidSpec("\"", text, "\" moves by ", number, " cells; it must be from 1 to ", kMostShift);
    }
    if (augment.shift != 0) return InvalidSpec("\"", text, "\" is the second shift; write one");
    augment.shift = number;
    return absl::OkStatus();
  }
  return InvalidSpec("\"", text,
                     "\" is not known; write \"flip(D)\", D a spatial dim counted from the last, or"
                     " \"shift(N)\", N in cells");
}

}  // namespace

absl::StatusOr<Augment> ParseAugment(const Dataset& dataset) {
  Augment augment;
  for (int i = 0; i < dataset.augment_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("augment[", i, "]"), ParseOne(dataset.augment(i), dataset, augment)));
  }
  return augment;
}

int SpatialDims(const Dataset& dataset) {
  if (dataset.has_blocks()) return dataset.blocks().size_size();
  int most = 0;
  for (const Field& field : dataset.field()) most = std::max(most, field.shape_size() - 1);
  return most;
}

bool HasSpatialDims(const Dataset& dataset, int dims) {
  const int spatial = SpatialDims(dataset);
  return spatial > 0 && dims >= spatial;
}

bool HasChannels(const Dataset& dataset, const Field& field) {
  const int spatial = SpatialDims(dataset);
  return spatial > 0 && field.shape_size() > spatial;
}

}  // namespace adjoin
