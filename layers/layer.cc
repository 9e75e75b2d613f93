#include "layers/layer.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include "absl/strings/str_cat.h"

namespace adjoin {

at::Tensor LayerModule::Input(const std::vector<at::Tensor>& inputs, int index, Tape& tape) {
  const std::string role = index == 0 ? "x" : absl::StrCat("x", index);
  at::Tensor x = Move(role, inputs[index], tape);
  if (static_cast<size_t>(index) < context_.reads.size()) {
    for (const auto& [dim, reads] : context_.reads[index]) {
      if (!reads.boundary.defined()) continue;
      // The gradient adds up all that came of a cell, which may be many: not in bfloat16.
      x = x.scalar_type() == at::kBFloat16
              ? at::index_select(x.to(at::kFloat), dim, reads.boundary).to(at::kBFloat16)
              : at::index_select(x, dim, reads.boundary);
    }
  }
  peak_elements_ = std::max(peak_elements_, x.numel());
  return x;
}

at::Tensor LayerModule::Output(const at::Tensor& y, Tape& tape) { return Move("y", y, tape); }

at::Tensor LayerModule::Move(const std::string& role, const at::Tensor& x, Tape& tape) {
  auto movement = context_.movements.find(role);
  at::Tensor moved = movement == context_.movements.end() ? x : movement->second->Apply(x, tape);
  peak_elements_ = std::max({peak_elements_, x.numel(), moved.numel()});
  return moved;
}

at::Tensor LayerModule::Parameter(const std::string& role, Tape& tape) const {
  auto parameter = context_.parameters.find(role);
  if (parameter == context_.parameters.end()) return at::Tensor();
  auto movement = context_.movements.find(role);
  return movement == context_.movements.end() ? parameter->second : movement->second->Apply(parameter->second, tape);
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
