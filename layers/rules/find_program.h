// A program of a plan, by its name: "train", "train_tail", "evaluate", ...
#ifndef ADJOIN_LAYERS_RULES_FIND_PROGRAM_H_
#define ADJOIN_LAYERS_RULES_FIND_PROGRAM_H_

#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Returns null where the plan has no such program. The result belongs to `plan`.
inline const ProgramPlan* FindProgram(const Plan& plan, absl::string_view name) {
  for (const ProgramPlan& program : plan.program()) {
    if (program.name() == name) return &program;
  }
  return nullptr;
}

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_FIND_PROGRAM_H_
