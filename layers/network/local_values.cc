#include "layers/network/local_values.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/torch_dtype.h"

namespace adjoin {

absl::StatusOr<LocalValues> LocalValues::Of(const ProgramPlan& program, int rank) {
  LocalValues local;
  local.rank_ = rank;
  for (const ValuePlan& value : program.value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    local.shape_.push_back(layout.LocalShape(rank));
    if (value.has_read()) {
      ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(value.read()));
      local.shape_.back() = ends.to.View(rank).shape;
    }
    local.type_.push_back(ScalarTypeOf(layout.dtype()));
  }
  return local;
}

absl::StatusOr<std::vector<at::Tensor>> LocalValues::TakeFields(const ProgramPlan& program,
                                                                const std::map<std::string, at::Tensor>& fields,
                                                                at::Device device) const {
  std::vector<at::Tensor> values(program.value_size());
  for (int i = 0; i < program.value_size(); ++i) {
    const ValuePlan& value = program.value(i);
    if (value.field().empty()) continue;
    auto found = fields.find(value.name());
    if (found == fields.end() || !found->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("program \"", program.name(), "\" on rank ", rank_,
                                                     ": no data for \"", value.name(), "\", field \"", value.field(),
                                                     "\""));
    }
    const at::Tensor& tensor = found->second;
    if (tensor.sizes() != at::IntArrayRef(shape_[i]) || tensor.scalar_type() != type_[i]) {
      return absl::InvalidArgumentError(absl::StrCat("program \"", program.name(), "\" on rank ", rank_,
                                                     ": data for \"", value.name(), "\" is ",
                                                     at::toString(tensor.scalar_type()), " ", ShapeText(tensor.sizes()),
                                                     ", expected ", at::toString(type_[i]), " ", ShapeText(shape_[i])));
    }
    if (tensor.device() != device) {
      return absl::InvalidArgumentError(absl::StrCat("program \"", program.name(), "\" on rank ", rank_,
                                                     ": data for \"", value.name(), "\" is on ", tensor.device().str(),
                                                     ", expected ", device.str()));
    }
    values[i] = tensor;
  }
  return values;
}

}  // namespace adjoin
