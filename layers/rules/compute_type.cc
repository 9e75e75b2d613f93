#include "layers/rules/compute_type.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"

namespace adjoin {

absl::StatusOr<NumberTypes> NumberTypesOf(const JobSpec& spec) {
  const Precision& precision = spec.precision();
  const std::string compute = precision.compute().empty() ? "float32" : precision.compute();
  const std::string params = precision.params().empty() ? compute : precision.params();
  if (compute != "float32" && compute != "float64" && compute != "bfloat16") {
    return AtField("precision.compute", NotSupportedYet(absl::StrCat("precision.compute \"", compute, "\""),
                                                        "\"float32\", \"float64\" and \"bfloat16\" are"));
  }
  if (compute == "bfloat16" ? params != "float32" : params != compute) {
    return AtField(precision.params().empty() ? "precision.compute" : "precision.params",
                   NotSupportedYet(absl::StrCat("precision.params \"", params, "\" with compute \"", compute, "\""),
                                   compute == "bfloat16" ? "params: \"float32\" is" : "both must be the same"));
  }
  NumberTypes types;
  ADJOIN_ASSIGN_OR_RETURN(types.compute, ParseDType(compute));
  ADJOIN_ASSIGN_OR_RETURN(types.parameters, ParseDType(params));
  return types;
}

}  // namespace adjoin
