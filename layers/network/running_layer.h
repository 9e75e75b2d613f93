// What this thread computes at the moment, for errors that do not say it: those of LibTorch, from anywhere in a pass.
//
//   SetRunning("the optimizer");
//   MarkBackwardOf("conv1", output);      // from when the gradient of `output` is there, that layer's backward pass
//   absl::StrCat(Running(), ": ", what);
//
// Each thread has its own.
#ifndef ADJOIN_LAYERS_NETWORK_RUNNING_LAYER_H_
#define ADJOIN_LAYERS_NETWORK_RUNNING_LAYER_H_

#include <string>

#include <ATen/core/Tensor.h>

namespace adjoin {

void SetRunning(const std::string& what);
// "" before the first.
const std::string& Running();

// `output` is what the layer returned; nothing is done where it needs no gradient.
void MarkBackwardOf(const std::string& layer, const at::Tensor& output);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_RUNNING_LAYER_H_
