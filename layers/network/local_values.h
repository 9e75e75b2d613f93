// What a program's values are on one rank: shape and type of each local tensor, and those that a pass begins with.
//
//   ADJOIN_ASSIGN_OR_RETURN(const LocalValues local, LocalValues::Of(program, rank));
//   local.shape(program.layer(0).output());
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<at::Tensor> values, local.TakeFields(program, fields, device));
#ifndef ADJOIN_LAYERS_NETWORK_LOCAL_VALUES_H_
#define ADJOIN_LAYERS_NETWORK_LOCAL_VALUES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

class LocalValues {
 public:
  LocalValues() = default;
  // Errors: as LayoutFromProto and DistributionsOf.
  static absl::StatusOr<LocalValues> Of(const ProgramPlan& program, int rank);

  const std::vector<int64_t>& shape(uint32_t value) const { return shape_[value]; }

  // Returns a tensor for each value of `program`, the one that this was made from: a field's from `fields`, by
  // ValuePlan::name, the others undefined. Errors: kInvalidArgument for a missing field, or one of another shape or
  // type than the plan's, or elsewhere than on `device`.
  absl::StatusOr<std::vector<at::Tensor>> TakeFields(const ProgramPlan& program,
                                                     const std::map<std::string, at::Tensor>& fields,
                                                     at::Device device) const;

 private:
  int rank_ = 0;
  std::vector<std::vector<int64_t>> shape_;  // by ProgramPlan.value
  std::vector<at::ScalarType> type_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_LOCAL_VALUES_H_
