#include "layers/network/running_layer.h"

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

std::string& Now() {
  static thread_local std::string running;
  return running;
}

}  // namespace

void SetRunning(const std::string& what) { Now() = what; }

const std::string& Running() { return Now(); }

void MarkBackwardOf(const std::string& layer, const at::Tensor& output) {
  if (!output.requires_grad()) return;
  // TensorBase's hooks, unlike Tensor's, take an undefined gradient, as a second derivative that is 0.
  static_cast<const at::TensorBase&>(output).register_hook(
      [what = absl::StrCat("the backward pass of layer \"", layer, "\"")](const at::TensorBase&) { SetRunning(what); });
}

}  // namespace adjoin
