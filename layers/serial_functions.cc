#include "layers/serial_functions.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

namespace adjoin {
namespace {

// The layer's own, or that of the layer whose weights it uses.
std::string NameOf(const Layer& layer, const std::string& role) {
  const auto named = layer.parameter_name().find(role);
  if (named != layer.parameter_name().end()) return named->second;
  return (layer.weights_of().empty() ? layer.name() : layer.weights_of()) + "." + role;
}

}  // namespace

void SerialParameters::Add(const std::string& name, at::Tensor tensor, bool trained) {
  index_of_[name] = entries_.size();
  at::Tensor initial = tensor.detach().clone();
  entries_.push_back({name, std::move(tensor), std::move(initial), trained});
}

at::Tensor SerialParameters::Draw(at::IntArrayRef shape, double centre, double spread) {
  return (at::rand(shape, generator_, at::kDouble) * 2 - 1) * spread + centre;
}

at::Tensor SerialCall::Parameter(const std::string& role, const std::vector<int64_t>& shape, double spread,
                                 double centre) {
  const std::string name = NameOf(spec_, role);
  if (!parameters_->Has(name)) {
    const bool trained = !spec_.frozen();
    parameters_->Add(name, parameters_->Draw(shape, centre, spread).set_requires_grad(trained), trained);
  }
  return parameters_->Get(name);
}

at::Tensor SerialCall::Buffer(const std::string& role, const std::vector<int64_t>& shape, double spread,
                              double centre) {
  const std::string name = NameOf(spec_, role);
  if (!parameters_->Has(name)) parameters_->Add(name, parameters_->Draw(shape, centre, spread), /*trained=*/false);
  return parameters_->Get(name);
}

at::Tensor SerialCall::Counter(const std::string& role) {
  const std::string name = NameOf(spec_, role);
  if (!parameters_->Has(name)) parameters_->Add(name, at::zeros({}, at::kLong), /*trained=*/false);
  return parameters_->Get(name);
}

const SerialFunction* SerialFunctions::Find(const std::string& kind) const {
  auto found = functions_.find(kind);
  return found == functions_.end() ? nullptr : &found->second;
}

std::vector<std::string> SerialFunctions::Kinds() const {
  std::vector<std::string> kinds;
  for (const auto& entry : functions_) kinds.push_back(entry.first);
  return kinds;
}

}  // namespace adjoin
