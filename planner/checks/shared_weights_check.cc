#include "planner/checks/shared_weights_check.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

// What the owner alone says of the parameters.
absl::Status CheckOwnersFields(const Layer& layer) {
  const char* field = layer.home() != HOME_DEFAULT      ? "home"
                      : layer.owner() != 0              ? "owner"
                      : layer.has_init()                ? "init"
                      : layer.frozen()                  ? "frozen"
                      : !layer.parameter_name().empty() ? "parameter_name"
                                                        : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return AtField(field, InvalidSpec("it uses the weights of layer \"", layer.weights_of(), "\", so ", field,
                                    " is said there; leave it out here"));
}

// An embedding's table is a linear layer's weight, both [rows, features].
bool AreTied(const Layer& a, const Layer& b) {
  return (a.has_embedding() && b.has_linear()) || (a.has_linear() && b.has_embedding());
}

absl::Status CheckPair(const Layer& layer, const Layer& owner) {
  if (!owner.weights_of().empty()) {
    return AtField("weights_of", InvalidSpec("layer \"", owner.name(), "\" itself uses the weights of layer \"",
                                             owner.weights_of(), "\"; write weights_of: \"", owner.weights_of(), "\""));
  }
  if (AreTied(layer, owner)) {
    const Layer& linear = layer.has_linear() ? layer : owner;
    if (linear.linear().has_bias() && !linear.linear().bias()) return absl::OkStatus();
    return AtField("weights_of",
                   InvalidSpec("an embedding has no bias that the linear layer \"", linear.name(),
                               "\" could share; write linear { bias: false } to share the weight with it"));
  }
  const std::string kind = KindOf(layer), of_owner = KindOf(owner);
  if (kind == of_owner) return absl::OkStatus();
  return AtField("weights_of", InvalidSpec("it is of kind ", kind, ", but layer \"", owner.name(), "\" of kind ",
                                           of_owner, "; both must be of one kind, or an embedding and a linear layer"));
}

}  // namespace

absl::Status CheckSharedWeights(const JobSpec& spec) {
  std::map<std::string, const Layer*> layers;
  for (const Layer& layer : spec.layer()) layers[layer.name()] = &layer;
  const bool has_blocks =
      std::any_of(spec.layer().begin(), spec.layer().end(), [](const Layer& layer) { return layer.has_transformer(); });
  for (int i = 0; i < spec.layer_size(); ++i) {
    const Layer& layer = spec.layer(i);
    const std::string& named = layer.weights_of();
    if (named.empty()) continue;
    const std::string at = absl::StrCat("layer[", i, "]");
    if (absl::Status status = CheckOwnersFields(layer); !status.ok()) return AtField(at, status);
    if (named == layer.name()) {
      return AtField(at,
                     AtField("weights_of", InvalidSpec("it names the layer itself; leave it out, or name another")));
    }
    const auto owner = layers.find(named);
    if (owner == layers.end()) {
      if (has_blocks) continue;
      return AtField(at, AtField("weights_of", InvalidSpec("there is no layer \"", named, "\"; the last one is \"",
                                                           spec.layer(spec.layer_size() - 1).name(), "\"")));
    }
    if (absl::Status status = CheckPair(layer, *owner->second); !status.ok()) return AtField(at, status);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
