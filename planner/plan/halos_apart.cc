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
      : plan_(plan), program_(program), run_of_(program.layer_size(), kNotRecomputed), users_(program.value_size()) {
    for (size_t run = 0; run < recomputed.size(); ++run) {
      for (int layer = recomputed[run].first; layer < recomputed[run].end; ++layer)
        run_of_[layer] = static_cast<int>(run);
    }
    for (int layer = 0; layer < program.layer_size(); ++layer) {
      users_[program.layer(layer).output()].push_back(layer);
      for (const uint32_t input : program.layer(layer).input()) users_[input].push_back(layer);
    }
  }

  // Returns whether a layer other than `reader` keeps input 0 of `reader` as long as `reader` does: both are in one
  // recomputed run, or neither is in any.
  absl::StatusOr<bool> KeepsInputOf(int reader) {
    const uint32_t value = program_.layer(reader).input(0);
    for (const int layer : users_[value]) {
      if (layer == reader || run_of_[layer] != run_of_[reader]) continue;
      ADJOIN_ASSIGN_OR_RETURN(const bool keeps, Keeps(program_.layer(layer), value));
      if (keeps) return true;
    }
    return false;
  }

 private:
  static constexpr int kNotRecomputed = -1;

  absl::StatusOr<bool> Keeps(const LayerPlan& layer, uint32_t value) {
    if (!program_.value(layer.output()).needs_grad()) return false;
    // On one rank. Where another does not keep it, that one's part and halo are no more than what is read there.
    ADJOIN_ASSIGN_OR_RETURN(const Layout* compute, geometry_.LayoutOf(layer.compute()));
    const int rank = compute->mesh().ranks()[0];
    ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(plan_, program_, layer, rank, &geometry_));
    const LayerMemory memory = MemoryOf(layer, local.sizes);
    if (memory.in_sum_type) return false;  // it keeps copies of another type
    if (layer.output() == value) return memory.keeps_output && OperatorOf(program_, layer, kRoleOutput) == nullptr;
    for (int i = 0; i < layer.input_size(); ++i) {
      if (layer.input(i) == value && memory.keeps_input[i] && !local.moved[i]) return true;
    }
    return false;
  }

  const Plan& plan_;
  const ProgramPlan& program_;
  std::vector<int> run_of_;              // by layer
  std::vector<std::vector<int>> users_;  // by value, the layers that make it or read it
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
  std::vector<int> candidates;
  for (int layer = 0; layer < program->layer_size() && program->training(); ++layer) {
    const LayerPlan& conv = program->layer(layer);
    if (program->value(conv.output()).needs_grad() && FetchesHalo(*program, conv)) candidates.push_back(layer);
  }
  if (candidates.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<RecomputedRun> recomputed, RecomputedRuns(*program));
  Keepers keepers(plan, *program, recomputed);
  for (const int layer : candidates) {
    ADJOIN_ASSIGN_OR_RETURN(const bool kept, keepers.KeepsInputOf(layer));
    if (kept) program->mutable_layer(layer)->set_keeps_halo_apart(true);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
