// The parameters and buffers that LayerBuilder's layers take, and what they are called in the job.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/layers/layer_builder.h"
#include "importer/layers/layer_names.h"

namespace adjoin {

// True where none of the parameters that can have a gradient has one: a buffer has none, but is none of those where it
// is what the layer itself changes or keeps. Errors: only some have none.
absl::StatusOr<bool> LayerBuilder::AreFrozen(const Layer& layer, const std::vector<LayerParameter>& parameters) const {
  std::string trained, frozen;
  for (const auto& [role, value] : parameters) {
    const bool is_kept = role == "running_mean" || role == "running_var" || layer.parameter().buffer();
    if (graph_.IsTrained(value)) trained = value;
    if (graph_.frozen.count(value) > 0 || (graph_.buffers.count(value) > 0 && !is_kept)) frozen = value;
  }
  if (trained.empty() || frozen.empty()) return !frozen.empty();
  return absl::InvalidArgumentError(absl::StrCat("its parameter ", PrintableText(graph_.parameters.at(frozen)),
                                                 " has no gradient (a buffer, or requires_grad=False), and ",
                                                 PrintableText(graph_.parameters.at(trained)),
                                                 " has one; right would be all or none"));
}

// The other layer's parameters have to be of one kind, and are then of the same shapes.
absl::Status LayerBuilder::CheckShared(const Layer& layer, const std::string& owner) const {
  const Layer& other = layers_[index_.at(owner)];
  if (layer.op_case() == other.op_case()) return absl::OkStatus();
  const Layer& linear = layer.has_linear() ? layer : other;
  if (linear.has_linear() && linear.linear().has_bias() && !linear.linear().bias() &&
      (layer.has_embedding() || other.has_embedding())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("its parameter is also that of ", owner, ", a layer of another kind; ",
                                                 "right would be two of one kind, or an embedding and a linear layer ",
                                                 "without a bias"));
}

absl::Status LayerBuilder::TakeParameters(const std::vector<LayerParameter>& parameters, Layer& layer) {
  std::set<std::string> owners, names;
  std::vector<std::pair<std::string, std::string>> taken;  // role and value
  for (const auto& [role, value] : parameters) {
    if (value.empty()) continue;
    const std::string& name = graph_.parameters.at(value);
    const auto owner = owner_.find(name);
    owners.insert(owner == owner_.end() ? "" : owner->second);
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("it reads the parameter ", PrintableText(name), " twice; right would be one for each use"));
    }
    if (owner != owner_.end() && role_.at(name) != role) {
      return absl::InvalidArgumentError(absl::StrCat("its ", role, ", ", PrintableText(name), ", is also the ",
                                                     role_.at(name), " of ", owner->second,
                                                     "; right would be the same use in both"));
    }
    taken.emplace_back(role, value);
  }
  if (owners.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("it shares some of its parameters with another layer, and others not; ",
                     "right would be to share all of them, or none"));
  }
  if (owners.size() == 1 && !owners.begin()->empty()) {
    ADJOIN_RETURN_IF_ERROR(CheckShared(layer, *owners.begin()));
    layer.set_weights_of(*owners.begin());
    return absl::OkStatus();
  }
  ADJOIN_ASSIGN_OR_RETURN(const bool frozen, AreFrozen(layer, parameters));
  if (frozen) layer.set_frozen(true);
  for (const auto& [role, value] : taken) {
    const std::string& name = graph_.parameters.at(value);
    owner_[name] = layer.name();
    role_[name] = role;
    std::string in_job = absl::StrCat(layer.name(), ".", role);
    if (in_job != name && IsName(name)) {
      in_job = name;
      (*layer.mutable_parameter_name())[role] = name;
    }
    const auto tensor = graph_.tensors.find(value);
    weights_.push_back({in_job, name, tensor != graph_.tensors.end() && tensor->second.shape.empty()});
  }
  return absl::OkStatus();
}

void LayerBuilder::AddUnreadBuffer(const std::string& role, const std::string& sibling) {
  const std::string& beside = graph_.parameters.at(sibling);
  const size_t dot = beside.rfind('.');
  const std::string name = dot == std::string::npos ? role : absl::StrCat(beside.substr(0, dot), ".", role);
  Layer& layer = layers_.back();
  std::string in_job = absl::StrCat(layer.name(), ".", role);
  if (in_job != name && !layer.parameter_name().empty() && IsName(name)) {
    in_job = name;
    (*layer.mutable_parameter_name())[role] = name;
  }
  weights_.push_back({in_job, parameter_names_.count(name) > 0 ? name : ""});
}

}  // namespace adjoin
