#include "layers/serial_functions.h"

#include <utility>

namespace adjoin {

void SerialParameters::Add(const std::string& name, torch::Tensor tensor, bool trained) {
  index_of_[name] = entries_.size();
  torch::Tensor initial = tensor.detach().clone();
  entries_.push_back({name, std::move(tensor), std::move(initial), trained});
}

torch::Tensor SerialParameters::Draw(torch::IntArrayRef shape, double centre, double spread) {
  return (torch::rand(shape, generator_, torch::kFloat64) * 2 - 1) * spread + centre;
}

torch::Tensor SerialCall::Parameter(const std::string& role, const std::vector<int64_t>& shape, double spread,
                                    double centre) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) {
    const bool trained = !spec_.frozen();
    parameters_->Add(name, parameters_->Draw(shape, centre, spread).set_requires_grad(trained), trained);
  }
  return parameters_->Get(name);
}

torch::Tensor SerialCall::Buffer(const std::string& role, const std::vector<int64_t>& shape, double spread,
                                 double centre) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) parameters_->Add(name, parameters_->Draw(shape, centre, spread), /*trained=*/false);
  return parameters_->Get(name);
}

torch::Tensor SerialCall::Counter(const std::string& role) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) parameters_->Add(name, torch::zeros({}, torch::kInt64), /*trained=*/false);
  return parameters_->Get(name);
}

const SerialFunction* SerialFunctions::Find(const std::string& kind) const {
  auto found = functions_.find(kind);
  return found == functions_.end() ? nullptr : &found->second;
}

}  // namespace adjoin
