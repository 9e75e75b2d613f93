#include "layers/network/parameters.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/network/weight_init.h"
#include "layers/rules/init_rule.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/random/philox.h"
#include "primitives/torch_dtype.h"

namespace adjoin {

absl::StatusOr<Parameters> Parameters::Create(const Plan& plan, int rank, at::Device device) {
  Parameters parameters(rank);
  for (const ParameterPlan& entry : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout home, LayoutFromProto(entry.home()));
    if (!parameters.index_of_.emplace(entry.name(), parameters.size()).second) {
      return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name(), "\" stands twice in the plan"));
    }
    std::vector<int64_t> stored_shape(entry.stored_shape().begin(), entry.stored_shape().end());
    if (stored_shape.empty()) stored_shape = home.shape();
    if (VolumeOf(stored_shape) != VolumeOf(home.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name(), "\" of ", VolumeOf(home.shape()),
                                                     " elements is stored as ", absl::StrJoin(stored_shape, "x")));
    }
    std::optional<Init> initial;
    if (entry.has_init()) {
      if (const absl::Status right = CheckInit(entry.init(), stored_shape); !right.ok()) {
        return absl::Status(right.code(), absl::StrCat("parameter \"", entry.name(), "\": ", right.message()));
      }
      initial = entry.init();
    }
    at::Tensor tensor = at::zeros(home.LocalShape(rank), at::TensorOptions(device).dtype(ScalarTypeOf(home.dtype())));
    tensor.set_requires_grad(!entry.frozen());
    parameters.entries_.push_back({entry.name(), std::move(home), std::move(stored_shape), entry.fan_in(),
                                   entry.frozen(), initial, std::move(tensor)});
  }
  return parameters;
}

absl::StatusOr<int> Parameters::IndexOf(const std::string& name) const {
  auto found = index_of_.find(name);
  if (found != index_of_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(
      "no parameter \"", name, "\"; known: ", absl::StrJoin(entries_, ", ", [](std::string* out, const Entry& entry) {
        out->append(entry.name);
      })));
}

void Parameters::Initialise(uint64_t seed) {
  at::NoGradGuard no_grad;
  for (int i = 0; i < size(); ++i) {
    Entry& entry = entries_[i];
    const RandomStream stream(seed, kPurposeInit, i);
    entry.tensor.copy_(InitialBlock(entry.initial, entry.fan_in, entry.stored_shape, entry.home.shape(),
                                    entry.home.BoxOf(rank_), stream));
  }
}

absl::Status Parameters::SetFromGlobal(int index, const at::Tensor& global) {
  Entry& entry = entries_[index];
  const bool as_stored = global.sizes() == at::IntArrayRef(entry.stored_shape);
  if (!as_stored && global.sizes() != at::IntArrayRef(entry.home.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name, "\" has shape ",
                                                   absl::StrJoin(entry.stored_shape, "x"), ", but was given ",
                                                   absl::StrJoin(global.sizes(), "x")));
  }
  at::NoGradGuard no_grad;
  const Box box = entry.home.BoxOf(rank_);
  at::Tensor part = global.reshape(entry.home.shape());
  for (int dim = 0; dim < box.dims(); ++dim) part = part.narrow(dim, box[dim].lo, box[dim].size());
  entry.tensor.copy_(part);
  return absl::OkStatus();
}

}  // namespace adjoin
