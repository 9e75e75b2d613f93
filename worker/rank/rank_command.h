// The program adjoin-rank: one rank of one attempt of one job, with the layers that are linked into it. The daemon
// starts it, or another such program that its --rank-binary names.
//
//   int main(int argc, char** argv) {
//     return adjoin::RunRankCommand(argc, argv, adjoin::BuiltinLayers());     // or with a user's own
//   }
#ifndef ADJOIN_WORKER_RANK_RANK_COMMAND_H_
#define ADJOIN_WORKER_RANK_RANK_COMMAND_H_

#include "layers/registry.h"
#include "layers/rules/layer_rule.h"
#include "worker/rank/rank_devices.h"

namespace adjoin {

// Ends the process, unless the command line is wrong: then it returns the exit code. With the one argument --list-gpus
// it prints what `devices` has (gpu_lines.h), and runs nothing.
int RunRankCommand(int argc, char** argv, const LayerRegistry& layers, const RankDevices& devices = CudaDevices());
// The same with rules of a user's own, with which a rank plans for volumes of different extents. Without them it knows
// those of the built-in layers.
int RunRankCommand(int argc, char** argv, const LayerRegistry& layers, const LayerRules& rules,
                   const RankDevices& devices = CudaDevices());

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_RANK_COMMAND_H_
