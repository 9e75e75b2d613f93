#include "layers/plan/compute_type.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "layers/plan/spec_error.h"

namespace adjoin {

absl::StatusOr<DType> ComputeType(const JobSpec& spec) {
  const Precision& precision = spec.precision();
  const std::string compute = precision.compute().empty() ? "float32" : precision.compute();
  const std::string params = precision.params().empty() ? compute : precision.params();
  if (compute != "float32" && compute != "float64") {
    return AtField("precision.compute", NotSupportedYet(absl::StrCat("precision.compute \"", compute, "\""),
                                                        "\"float32\" and \"float64\" are"));
  }
  if (params != compute) {
    return AtField("precision.params",
                   NotSupportedYet(absl::StrCat("precision.params \"", params, "\" with compute \"", compute, "\""),
                                   "both must be the same"));
  }
  return ParseDType(compute);
}

}  // namespace adjoin
