// Layers whose activations are thrown away in the forward pass and computed again in the backward pass, as by
// torch.utils.checkpoint: memory against time. What they move is moved again as well, at one place of the tape's chain,
// so in the same order on every rank.
//
//   for (const RecomputedRun& run : RecomputedRuns(program)) ...
//   std::vector<at::Tensor> y = Recompute(run_layers, {x}, {weight, bias}, tape);
//
// Gradients are bit for bit those of a pass that keeps everything. One thread.
#ifndef ADJOIN_LAYERS_RECOMPUTE_H_
#define ADJOIN_LAYERS_RECOMPUTE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/tape.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Layers that are computed again together: of all their values only those stay that others read, or hand in.
struct RecomputedRun {
  int first = 0;  // in ProgramPlan.layer
  int end = 0;
  std::vector<uint32_t> inputs;   // in ProgramPlan.value: read by the run, made before it
  std::vector<uint32_t> outputs;  // made by the run, read after it
};

// Returns the stretches of neighbouring layers of a training program that are marked `recompute`. One of n layers is
// cut into pieces of about sqrt(n): what is kept between them and what a piece makes again at a time are then about as
// much. Pieces that no gradient goes through are left out. None for other programs.
std::vector<RecomputedRun> RecomputedRuns(const ProgramPlan& program);

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
