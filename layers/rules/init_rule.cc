#include "layers/rules/init_rule.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

// By kind, the fields of Init that it reads.
const std::map<std::string, std::set<std::string>>& Kinds() {
  static const auto* kinds = new std::map<std::string, std::set<std::string>>{
      {"constant", {"value"}},
      {"dirac", {}},
      {"eye", {}},
      {"kaiming_normal", {"gain"}},
      {"kaiming_normal_fan_out", {"gain"}},
      {"kaiming_uniform", {"gain"}},
      {"kaiming_uniform_fan_out", {"gain"}},
      {"normal", {"gain", "value"}},
      {"normal_with_padding", {"gain", "value"}},
      {"ones", {}},
      {"trunc_normal", {"gain", "value"}},
      {"uniform", {"gain", "value"}},
      {"values", {"values"}},
      {"xavier_normal", {"gain"}},
      {"xavier_uniform", {"gain"}},
      {"zeros", {}},
  };
  return *kinds;
}

bool ReadsFans(const std::string& kind) {
  return absl::StartsWith(kind, "kaiming_") || absl::StartsWith(kind, "xavier_");
}

bool IsRow(double value, int64_t rows) {
  return value >= 0 && value < static_cast<double>(rows) && value == std::floor(value);
}

absl::Status CheckFields(const Init& init, const std::set<std::string>& read) {
  const std::map<std::string, bool> written = {
      {"gain", init.gain() != 0}, {"value", init.value() != 0}, {"values", init.values_size() > 0}};
  for (const auto& [field, is_written] : written) {
    if (!is_written || read.count(field) > 0) continue;
    return AtField(field == "values" ? "values[0]" : field,
                   InvalidSpec("init.", field, " is not for kind \"", init.kind(), "\"; leave it out"));
  }
  if (!std::isfinite(init.gain()) || init.gain() < 0) {
    return AtField("gain", InvalidSpec("init.gain is ", init.gain(), "; it must be a finite number above 0"));
  }
  if (!std::isfinite(init.value())) {
    return AtField("value", InvalidSpec("init.value is ", init.value(), "; it must be a finite number"));
  }
  return absl::OkStatus();
}

absl::Status CheckValues(const Init& init, const std::vector<int64_t>& shape) {
  if (init.values_size() != VolumeOf(shape)) {
    return AtField("values", InvalidSpec("init.values has ", init.values_size(), " numbers; the weight, ",
                                         ShapeText(shape), ", has ", VolumeOf(shape), ": one for each, row-major"));
  }
  for (int i = 0; i < init.values_size(); ++i) {
    if (!std::isfinite(init.values(i))) {
      return AtField(absl::StrCat("values[", i, "]"),
                     InvalidSpec("init.values has ", init.values(i), "; every number must be finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool HasPadding(const Init& init) { return init.kind() == "normal_with_padding"; }

absl::Status CheckInit(const Init& init, const std::vector<int64_t>& shape) {
  std::vector<std::string> names;
  for (const auto& entry : Kinds()) names.push_back(entry.first);
  const std::string known = absl::StrJoin(names, ", ");
  if (init.kind().empty()) return AtField("kind", InvalidSpec("init.kind is missing; write one of ", known));
  if (init.kind() == "orthogonal" || init.kind() == "sparse") {
    return AtField("kind",
                   NotSupportedYet(absl::StrCat("init.kind \"", init.kind(), "\""), absl::StrCat(known, " are")));
  }
  const auto kind = Kinds().find(init.kind());
  if (kind == Kinds().end()) {
    return AtField("kind", InvalidSpec("init.kind \"", init.kind(), "\" is not known; write one of ", known));
  }
  ADJOIN_RETURN_IF_ERROR(CheckFields(init, kind->second));
  const size_t dims = shape.size();
  const char* needs = ReadsFans(init.kind()) && dims < 2                        ? "2 dims or more"
                      : (init.kind() == "eye" || HasPadding(init)) && dims != 2 ? "2 dims"
                      : init.kind() == "dirac" && (dims < 3 || dims > 5)        ? "3 to 5 dims"
                                                                                : nullptr;
  if (needs != nullptr) {
    return AtField("kind", InvalidSpec("init.kind \"", init.kind(), "\" is for a weight of ", needs,
                                       "; this layer's is ", ShapeText(shape)));
  }
  if (HasPadding(init) && !IsRow(init.value(), shape[0])) {
    return AtField("value", InvalidSpec("init.value is ", init.value(), "; of kind \"", init.kind(),
                                        "\" it is the row that is 0, from 0 to ", shape[0] - 1));
  }
  return init.kind() == "values" ? CheckValues(init, shape) : absl::OkStatus();
}

InitSpread Spread(const Init& init, const std::vector<int64_t>& shape) {
  const std::string& kind = init.kind();
  const double gain = init.gain() > 0 ? init.gain() : absl::StartsWith(kind, "kaiming_") ? std::sqrt(2.0) : 1.0;
  InitSpread spread;
  spread.center = HasPadding(init) ? 0 : init.value();
  spread.scale = gain;
  if (absl::StrContains(kind, "trunc_normal")) {
    spread.kind = InitSpread::Kind::kTruncatedNormal;
  } else if (absl::StrContains(kind, "normal")) {
    spread.kind = InitSpread::Kind::kNormal;
  } else if (absl::StrContains(kind, "uniform")) {
    spread.kind = InitSpread::Kind::kUniform;
  }
  if (!ReadsFans(kind)) return spread;
  double kernel = 1;
  for (size_t dim = 2; dim < shape.size(); ++dim) kernel *= static_cast<double>(shape[dim]);
  const double fan_in = static_cast<double>(shape[1]) * kernel;
  const double fan_out = static_cast<double>(shape[0]) * kernel;
  const double fans = absl::StartsWith(kind, "xavier_")  ? (fan_in + fan_out) / 2
                      : absl::EndsWith(kind, "_fan_out") ? fan_out
                                                         : fan_in;
  spread.scale = fans > 0 ? gain / std::sqrt(fans) : 0;
  // A uniform distribution reaches sqrt(3) standard deviations far.
  if (spread.kind == InitSpread::Kind::kUniform) spread.scale *= std::sqrt(3.0);
  return spread;
}

}  // namespace adjoin
