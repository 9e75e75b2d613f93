#include "worker/samples/cell_rules.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adjoin {
namespace {

// Whole numbers up to here are exact as doubles.
constexpr double kMostWhole = 9007199254740992.0;  // 2^53

bool IsWhole(double value) { return std::fabs(value) <= kMostWhole && value == std::floor(value); }

std::string Shown(double value) { return absl::StrFormat("%.17g", value); }

double EntryOf(const google::protobuf::RepeatedField<double>& list, int64_t channel, double absent) {
  if (list.empty()) return absent;
  return list.size() == 1 ? list[0] : list[static_cast<int>(channel)];
}

}  // namespace

absl::StatusOr<CellRules> CellRules::Create(const Field& field, const std::vector<int64_t>& sample_shape, DType dtype) {
  CellRules rules(field);
  rules.whole_ = dtype == DType::kInt64;
  if (!rules.whole_ && dtype != DType::kFloat32 && dtype != DType::kFloat64 && dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\" cannot be read as ", ToString(dtype)));
  }
  const int64_t channels = sample_shape.empty() ? 1 : sample_shape[0];
  for (int size : {field.mean_size(), field.std_size()}) {
    if (size > 1 && size != channels) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\": ", size,
                                                     " means or stds; right would be one, or one for each of the ",
                                                     channels, " channels"));
    }
  }
  return rules;
}

std::optional<CellRules::Wrong> CellRules::Remap(double* cells, int64_t count) const {
  if (field_.remap().empty()) return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    if (!IsWhole(cells[i]) || cells[i] < 0 || cells[i] >= field_.remap_size()) {
      return Wrong{
          i, absl::StrCat("the label is ", Shown(cells[i]), "; remap has entries for 0 to ", field_.remap_size() - 1)};
    }
    cells[i] = static_cast<double>(field_.remap(static_cast<int>(cells[i])));
  }
  return std::nullopt;
}

void CellRules::Normalise(double* cells, int64_t count, const Box& box) const {
  const double scale = field_.scale() == 0 ? 1 : field_.scale();
  if (scale == 1 && field_.mean().empty() && field_.std().empty()) return;
  const Interval channels = box.dims() > 0 ? box[0] : Interval{0, 1};
  const int64_t per_channel = channels.empty() ? 0 : box.Volume() / channels.size();
  for (int64_t sample = 0; sample < count; ++sample) {
    for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
      const double mean = EntryOf(field_.mean(), channel, 0);
      const double std = EntryOf(field_.std(), channel, 1);
      for (int64_t i = 0; i < per_channel; ++i, ++cells) *cells = (*cells * scale - mean) / std;
    }
  }
}

std::optional<CellRules::Wrong> CellRules::CheckWhole(const double* cells, int64_t count) const {
  for (int64_t i = 0; i < count; ++i) {
    if (IsWhole(cells[i])) continue;
    return Wrong{i, absl::StrCat("the value is ", Shown(cells[i]), "; dtype \"int64\" takes whole numbers up to 2^53")};
  }
  return std::nullopt;
}

std::optional<CellRules::Wrong> CellRules::CheckClasses(const double* cells, int64_t count,
                                                        const ClassBound& bound) const {
  for (int64_t i = 0; i < count; ++i) {
    if (cells[i] >= 0 && cells[i] < static_cast<double>(bound.classes)) continue;
    if (bound.ignored.has_value() && cells[i] == static_cast<double>(*bound.ignored)) continue;
    return Wrong{
        i, absl::StrCat("the label is ", Shown(cells[i]), "; the loss compares it with ", bound.classes,
                        " classes, so that 0 to ", bound.classes - 1, " are allowed",
                        bound.ignored.has_value() ? absl::StrCat(", and ", *bound.ignored, ", which it ignores") : "")};
  }
  return std::nullopt;
}

std::optional<CellRules::Wrong> CellRules::Apply(double* cells, int64_t count, const Box& box) const {
  const int64_t all = count * box.Volume();
  if (std::optional<Wrong> wrong = Remap(cells, all)) return wrong;
  Normalise(cells, count, box);
  if (!whole_) return std::nullopt;
  if (std::optional<Wrong> wrong = CheckWhole(cells, all)) return wrong;
  for (const ClassBound& bound : bounds_) {
    if (std::optional<Wrong> wrong = CheckClasses(cells, all, bound)) return wrong;
  }
  return std::nullopt;
}

}  // namespace adjoin
