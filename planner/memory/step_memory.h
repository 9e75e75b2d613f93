// How much memory the tensors of a rank take in a step, and when: the planner's prediction.
//
//   ADJOIN_ASSIGN_OR_RETURN(const RankMemory memory, PredictMemory(plan, /*rank=*/0));
//   memory.bytes;               // at the worst moment
//   memory.during;              // "backward pass of \"left1.conv1\""
//   memory.of_part[static_cast<int>(MemoryPart::kActivations)];
//
// A step is gone through tensor by tensor, as Network and LibTorch's autograd go through it: a value lives until its
// last reader has run or the backward pass has taken it. What kernels need within is from planner/memory/layer_memory.
// Pure: no LibTorch.
#ifndef ADJOIN_PLANNER_MEMORY_STEP_MEMORY_H_
#define ADJOIN_PLANNER_MEMORY_STEP_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/memory/memory_ledger.h"
#include "proto/plan.pb.h"

namespace adjoin {

struct RankMemory {
  int rank = 0;
  int64_t bytes = 0;             // of tensors, at the moment with most
  std::string program;           // in which it is
  std::string during;            // what runs then: "forward pass of \"conv1\"", "backward pass of \"conv1\""
  std::vector<int64_t> of_part;  // at that moment, by MemoryPart
  struct Share {
    std::string layer;
    int64_t bytes = 0;
  };
  std::vector<Share> largest;  // layers by what they hold then, at most five, the largest first
};

// Returns how many tensors of a trained parameter's shape the optimizer keeps (worker/training/optimizer).
int StatesOf(const Optimizer& optimizer);

// Predicts one step of `program` alone: fields, activations and their gradients, parameters' gradients. Parameters and
// optimizer's state are not counted. Errors: as LayoutFromProto.
absl::StatusOr<RankMemory> PredictStepMemory(const Plan& plan, const ProgramPlan& program, int rank);

// Predicts the whole job: the program that needs most, with parameters, the optimizer's state and the batch that is
// read ahead.
absl::StatusOr<RankMemory> PredictMemory(const Plan& plan, int rank);

// Predicts the rank that needs most. Of ranks with equal parts and equally many neighbours one is looked at, and of
// many such classes those with the largest parts, and that with most neighbours.
absl::StatusOr<RankMemory> PredictLargestMemory(const Plan& plan);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_STEP_MEMORY_H_
