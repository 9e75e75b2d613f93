// In which order the layers of a program run, and how long its values are needed: what Network does, and the planner
// predicts.
//
//   for (const LayerStretch& stretch : StretchesOf(program, recomputed)) { ... }
//   for (const uint32_t value : ReadLast(program)[layer]) values[value].reset();
//
// Pure: the same on every rank.
#ifndef ADJOIN_LAYERS_RULES_PROGRAM_ORDER_H_
#define ADJOIN_LAYERS_RULES_PROGRAM_ORDER_H_

#include <cstdint>
#include <vector>

#include "layers/rules/recomputed_runs.h"
#include "proto/plan.pb.h"

namespace adjoin {

// A layer by itself, or layers that are computed again together.
struct LayerStretch {
  int first = 0;  // in ProgramPlan.layer
  int end = 0;
  const RecomputedRun* again = nullptr;  // null: a layer by itself
};

// Returns all layers of the program, in order. `recomputed`: stretches of it, in order, which outlive the result.
std::vector<LayerStretch> StretchesOf(const ProgramPlan& program, const std::vector<RecomputedRun>& recomputed);

// Returns for each layer the values that nothing reads after it has run, by index in ProgramPlan.value.
std::vector<std::vector<uint32_t>> ReadLast(const ProgramPlan& program);

// Returns for each layer the outputs that are its value, by index in ProgramPlan.output.
std::vector<std::vector<int>> WrittenBy(const ProgramPlan& program);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_PROGRAM_ORDER_H_
