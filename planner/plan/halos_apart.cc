#include "planner/plan/halos_apart.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "layers/rules/recomputed_runs.h"
#include "layers/rules/roles.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/local_sizes.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// Which layers keep a value as it is.
class Keepers {
 public:
  Keepers(const Plan& plan, const ProgramPlan& program, const std::vector<RecomputedRun>& recomputed)
      : plan_(plan), program_(program), run_of_(program.layer_size(), kNotRecomputed) {
    for (size_t run = 0; run < recomputed.size(); ++run) {
      for (int layer = recomputed[run].first; layer < recomputed[run].end; ++layer)
        run_of_[layer] = static_cast<int>(run);
    }
  }

  // Whether a layer but `reader` keeps input 0 of `reader` as long as that keeps it: both or none are computed again.
  absl::StatusOr<bool> KeepsInputOf(int reader) {
    const uint32_t value = program_.layer(reader).input(0);
    for (int layer = 0; layer < program_.layer_size(); ++layer) {
      if (layer == reader || run_of_[layer] != run_of_[reader]) continue;
      ADJOIN_ASSIGN_OR_RETURN(const bool keeps, Keeps(program_.layer(layer), value));
      if (keeps) return true;
    }
    return false;
  }

 private:
  static constexpr int kNotRecomputed = -1;

  absl::StatusOr<bool> Keeps(const LayerPlan& layer, uint32_t value) {
    bool reads = false;
    for (const uint32_t input : layer.input()) reads = reads || input == value;
    const bool makes = layer.output() == value;
    if ((!makes && !reads) || !program_.value(layer.output()).needs_grad()) return false;
    // What a layer keeps does not depend on the rank.
    ADJOIN_ASSIGN_OR_RETURN(const Layout* compute, geometry_.LayoutOf(layer.compute()));
    const int rank = compute->mesh().ranks()[0];
    ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(plan_, program_, layer, rank, &geometry_));
    const LayerMemory memory = MemoryOf(layer, local.sizes);
    if (memory.in_sum_type) return false;  // it keeps copies of another type
    if (makes) return memory.keeps_output && OperatorOf(program_, layer, kRoleOutput) == nullptr;
    for (int i = 0; i < layer.input_size(); ++i) {
      if (layer.input(i) == value && memory.keeps_input[i] && !local.moved[i]) return true;
    }
    return false;
  }

  const Plan& plan_;
  const ProgramPlan& program_;
  std::vector<int> run_of_;  // by layer
  PlanGeometry geometry_;
};

// Whether the layer is a convolution that fetches nothing but a halo.
bool FetchesHalo(const ProgramPlan& program, const LayerPlan& layer) {
  if (!layer.spec().has_conv() || layer.spec().conv().transposed()) return false;
  const OperatorPlan* op = OperatorOf(program, layer, InputRole(0));
  return op != nullptr && !op->reading().empty() && !op->has_read();
}

}  // namespace

absl::Status KeepHalosApart(const Plan& plan, ProgramPlan* program) {
  if (!program->training()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<RecomputedRun> recomputed, RecomputedRuns(*program));
  Keepers keepers(plan, *program, recomputed);
  for (int layer = 0; layer < program->layer_size(); ++layer) {
    if (!FetchesHalo(*program, program->layer(layer))) continue;
    ADJOIN_ASSIGN_OR_RETURN(const bool kept, keepers.KeepsInputOf(layer));
    if (kept) program->mutable_layer(layer)->set_keeps_halo_apart(true);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
