// Which part of a module's own parameter each rank reads, and uses.
//
//   ADJOIN_ASSIGN_OR_RETURN(Layout needed, ParameterNeeded(spec, compute, dtype));   // what the plan brings
//   ADJOIN_ASSIGN_OR_RETURN(Layout used, ParameterUsed(spec, compute, dtype));       // what each rank keeps of it
#ifndef ADJOIN_LAYERS_POINTWISE_PARAMETER_PART_H_
#define ADJOIN_LAYERS_POINTWISE_PARAMETER_PART_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {

// OwnParameter.length, or its shape where that is absent.
std::vector<int64_t> UsedShape(const OwnParameter& spec);

// On the mesh of `compute`, the result's layout: the used elements, cut as the result is that they are combined to.
// Errors of both: as Layout::Create.
absl::StatusOr<Layout> ParameterUsed(const OwnParameter& spec, const Layout& compute, DType dtype);

// The same of the whole parameter: every rank has all of a dim of which some elements are not used.
absl::StatusOr<Layout> ParameterNeeded(const OwnParameter& spec, const Layout& compute, DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_POINTWISE_PARAMETER_PART_H_
