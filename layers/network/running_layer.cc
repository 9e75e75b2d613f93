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
  output.register_hook(
      [what = absl::StrCat("the backward pass of layer \"", layer, "\"")](const at::Tensor&) { SetRunning(what); });
}

}  // namespace adjoin
