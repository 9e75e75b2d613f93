#include "layers/layer.h"

#include <algorithm>
#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include "layers/rules/roles.h"
#include "layers/sum_type.h"

namespace adjoin {

at::Tensor LayerModule::Input(const std::vector<at::Tensor>& inputs, int index, Tape& tape) {
  at::Tensor x = Move(InputRole(index), inputs[index], tape);
  if (static_cast<size_t>(index) < context_.reads.size()) {
    for (const auto& [dim, reads] : context_.reads[index]) {
      if (!reads.boundary.defined()) continue;
      // The gradient adds up all that came of a cell, which may be many: not in bfloat16.
      x = at::index_select(InSumType(x), dim, reads.boundary).to(x.scalar_type());
    }
  }
  peak_elements_ = std::max(peak_elements_, x.numel());
  return x;
}

at::Tensor LayerModule::Output(const at::Tensor& y, Tape& tape) { return Move(kRoleOutput, y, tape); }

at::Tensor LayerModule::Move(const std::string& role, const at::Tensor& x, Tape& tape) {
  const std::shared_ptr<Movement> movement = MovementOf(role);
  at::Tensor moved = movement == nullptr ? x : movement->Apply(x, tape);
  peak_elements_ = std::max({peak_elements_, x.numel(), moved.numel()});
  return moved;
}

at::Tensor LayerModule::Parameter(const std::string& role, Tape& tape) const {
  auto parameter = context_.parameters.find(role);
  if (parameter == context_.parameters.end()) return at::Tensor();
  const std::unique_ptr<Movement::Pending> started = context_.roles->TakeStarted(role);
  const std::shared_ptr<Movement> movement = MovementOf(role);
  if (movement == nullptr) return parameter->second;
  return started != nullptr ? started->Wait(tape) : movement->Apply(parameter->second, tape);
}

void LayerModule::StartParameters(Tape& tape) {
  for (const OperatorUse& use : context_.plan.op()) {
    const auto parameter = context_.parameters.find(use.role());
    if (parameter != context_.parameters.end()) context_.roles->Start(use.role(), parameter->second, tape);
  }
}

bool LayerModule::MovesParameters() const {
  return std::any_of(context_.parameters.begin(), context_.parameters.end(),
                     [this](const auto& parameter) { return context_.roles->Starts(parameter.first); });
}

RandomStream LayerModule::Draws(uint64_t purpose) const {
  // A plan has fewer than 2^16 layers.
  constexpr uint64_t kLayers = uint64_t{1} << 16;
  return RandomStream(place().seed, purpose, static_cast<uint64_t>(place().step) * kLayers + context_.index);
}

at::Tensor EmptyResult(const std::vector<int64_t>& shape, const std::vector<at::Tensor>& sources) {
  at::Tensor result;
  for (const at::Tensor& source : sources) {
    if (!source.defined()) continue;
    at::Tensor nothing = source.reshape({-1}).narrow(0, 0, 0).reshape(shape);
    result = result.defined() ? result + nothing : nothing;
  }
  return result;
}

}  // namespace adjoin
