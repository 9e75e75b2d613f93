#include "layers/parameters.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/plan/layout_proto.h"
#include "primitives/random/philox.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

// Calls fn(position in the box, position in the whole tensor) for every cell of `box`, both row-major.
template <typename Fn>
void ForEachCell(const Box& box, const std::vector<int64_t>& shape, Fn fn) {
  const int64_t volume = box.Volume();
  std::vector<int64_t> at = box.Origin();
  for (int64_t local = 0; local < volume; ++local) {
    int64_t global = 0;
    for (int dim = 0; dim < box.dims(); ++dim) global = global * shape[dim] + at[dim];
    fn(local, global);
    for (int dim = box.dims() - 1; dim >= 0 && ++at[dim] == box[dim].hi; --dim) at[dim] = box[dim].lo;
  }
}

}  // namespace

absl::StatusOr<Parameters> Parameters::Create(const Plan& plan, int rank) {
  Parameters parameters(rank);
  for (const ParameterPlan& entry : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout home, LayoutFromProto(entry.home()));
    if (!parameters.index_of_.emplace(entry.name(), parameters.size()).second) {
      return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name(), "\" stands twice in the plan"));
    }
    std::optional<double> initial;
    if (entry.has_init()) {
      if (entry.init().kind() != "constant") {
        return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name(), "\" has init \"",
                                                       entry.init().kind(), "\"; known: \"constant\""));
      }
      initial = entry.init().value();
    }
    torch::Tensor tensor = torch::zeros(home.LocalShape(rank), ScalarTypeOf(home.dtype()));
    tensor.set_requires_grad(!entry.frozen());
    parameters.entries_.push_back(
        {entry.name(), std::move(home), entry.fan_in(), entry.frozen(), initial, std::move(tensor)});
  }
  return parameters;
}

absl::StatusOr<int> Parameters::IndexOf(const std::string& name) const {
  auto found = index_of_.find(name);
  if (found != index_of_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(
      "no parameter \"", name, "\"; known: ",
      absl::StrJoin(entries_, ", ", [](std::string* out, const Entry& entry) { out->append(entry.name); })));
}

void Parameters::Initialise(uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (int i = 0; i < size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.initial.has_value()) {
      entry.tensor.fill_(*entry.initial);
      continue;
    }
    const double bound = entry.fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(entry.fan_in)) : 0.0;
    const RandomStream stream(seed, kPurposeInit, i);
    const Box box = entry.home.BoxOf(rank_);
    torch::Tensor drawn = torch::empty(box.Shape(), torch::kFloat64);
    double* values = drawn.data_ptr<double>();
    ForEachCell(box, entry.home.shape(), [&](int64_t local, int64_t global) {
      values[local] = bound * (2.0 * stream.UniformAt(global) - 1.0);
    });
    entry.tensor.copy_(drawn);
  }
}

absl::Status Parameters::SetFromGlobal(int index, const torch::Tensor& global) {
  Entry& entry = entries_[index];
  if (global.sizes() != torch::IntArrayRef(entry.home.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("parameter \"", entry.name, "\" has shape ",
                                                   absl::StrJoin(entry.home.shape(), "x"), ", but was given ",
                                                   absl::StrJoin(global.sizes(), "x")));
  }
  torch::NoGradGuard no_grad;
  const Box box = entry.home.BoxOf(rank_);
  torch::Tensor part = global;
  for (int dim = 0; dim < box.dims(); ++dim) part = part.narrow(dim, box[dim].lo, box[dim].size());
  entry.tensor.copy_(part);
  return absl::OkStatus();
}

}  // namespace adjoin
