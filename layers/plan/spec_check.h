// What can be said of a job without its tensors' shapes: names, references, numbers out of range, what is not built.
#ifndef ADJOIN_LAYERS_PLAN_SPEC_CHECK_H_
#define ADJOIN_LAYERS_PLAN_SPEC_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/plan/layer_rule.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors: kInvalidArgument and kUnimplemented, at the field.
absl::Status CheckSpec(const JobSpec& spec, const LayerRules& rules, uint32_t max_ranks);

// Of activations and of parameters; the same for both. Errors: as CheckSpec.
absl::StatusOr<DType> ComputeType(const JobSpec& spec);

// Null where there is none of this name.
const Dataset* FindDataset(const JobSpec& spec, const std::string& name);
const Field* FindField(const Dataset& dataset, const std::string& name);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_SPEC_CHECK_H_
