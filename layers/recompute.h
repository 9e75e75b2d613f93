// Layers whose activations are thrown away in the forward pass and computed again in the backward pass, as by
// torch.utils.checkpoint: memory against time. What they move is moved again as well, at one place of the tape's chain,
// so in the same order on every rank.
//
//   std::vector<at::Tensor> y = Recompute(run_layers, {x}, {weight, bias}, tape);
//
// Gradients are bit for bit those of a pass that keeps everything. One thread.
#ifndef ADJOIN_LAYERS_RECOMPUTE_H_
#define ADJOIN_LAYERS_RECOMPUTE_H_

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/tape.h"

namespace adjoin {

// Computes outputs from inputs; runs twice, the second time with gradients. Throws as a layer does.
using RecomputedFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, Tape& tape)>;

// function(inputs), of which the graph keeps `inputs` only. `parameters`: the leaves that require grad and that
// `function` reads. Collective.
std::vector<at::Tensor> Recompute(RecomputedFunction function, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& parameters, Tape& tape);

// Whether this thread is in the second run of such a function: a layer then leaves state of its own, as running
// statistics, as the first run has left it.
bool IsRecomputing();

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RECOMPUTE_H_
