// Which layers of a program are computed again together in the backward pass (layers/recompute.h).
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<RecomputedRun> runs, RecomputedRuns(program));
//
// Pure: the same on every rank, since what the layers move is moved again in this order.
#ifndef ADJOIN_LAYERS_RULES_RECOMPUTED_RUNS_H_
#define ADJOIN_LAYERS_RULES_RECOMPUTED_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Layers that are computed again together: of all their values only those stay that others read, or hand in.
struct RecomputedRun {
  int first = 0;  // in ProgramPlan.layer
  int end = 0;
  std::vector<uint32_t> inputs;   // in ProgramPlan.value: read by the run, made before it
  std::vector<uint32_t> outputs;  // made by the run, read after it
};

// Returns the stretches of neighbouring layers of a training program that are marked `recompute`, each cut into the
// pieces that need least memory: the bytes of what the pieces keep for each other, and the bytes that the largest of
// them makes again at a time, together within 1.1 times the least that pieces of at most 1024 layers need. Bytes are
// those of layers' outputs, on the rank with the largest part. Pieces that no gradient goes through are left out. None
// for other programs.
// Errors: as LayoutFromProto.
absl::StatusOr<std::vector<RecomputedRun>> RecomputedRuns(const ProgramPlan& program);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_RECOMPUTED_RUNS_H_
