#include "planner/plan/plan_warnings.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_ranges.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "planner/checks/name_check.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/whole_volumes.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// Looks at the program with the whole batch: a smaller, last one may well leave ranks without samples.
void AddIdleRanks(const Plan& plan, std::vector<std::string>& warnings) {
  if (plan.program().empty()) return;
  std::vector<bool> busy(plan.spec().ranks(), false);
  for (const LayerPlan& layer : plan.program(0).layer()) {
    const auto compute = LayoutFromProto(layer.compute());
    if (!compute.ok()) continue;
    for (int rank : compute->mesh().ranks()) busy[rank] = busy[rank] || compute->BoxOf(rank).Volume() > 0;
  }
  std::vector<uint32_t> idle;
  for (uint32_t rank = 0; rank < busy.size(); ++rank) {
    if (!busy[rank]) idle.push_back(rank);
  }
  if (idle.empty()) return;
  warnings.push_back(absl::StrCat(idle.size() == 1 ? "rank " : "ranks ", NumberRanges(idle),
                                  idle.size() == 1 ? " has" : " have",
                                  " no part of any layer's result; use fewer ranks, or layouts with more parts"));
}

// True where the result of a whole batch would not have the input's samples in their order.
bool ChangesSamples(const Layer& spec, int64_t batch) {
  if (spec.has_roll()) {
    int64_t shift = 0;
    for (int i = 0; i + 1 < spec.roll().arg_size(); i += 2) {
      if (spec.roll().arg(i) == 0) shift += spec.roll().arg(i + 1) % batch;
    }
    return shift % batch != 0;
  }
  if (spec.has_flip())
    return std::find(spec.flip().arg().begin(), spec.flip().arg().end(), 0) != spec.flip().arg().end();
  if (spec.has_repeat()) return spec.repeat().arg_size() > 0 && spec.repeat().arg(0) != 1;
  return spec.has_index_select() && spec.index_select().arg_size() > 0 && spec.index_select().arg(0) == 0;
}

void AddMicroBatches(const Plan& plan, std::vector<std::string>& warnings) {
  const uint32_t parts = plan.spec().train().microbatches();
  if (plan.spec().kind() != TRAIN || parts < 2 || plan.program().empty()) return;
  for (const LayerPlan& layer : plan.program(0).layer()) {
    if (!ChangesSamples(layer.spec(), std::max<int64_t>(1, plan.spec().train().batch()))) continue;
    warnings.push_back(absl::StrCat("layer \"", layer.name(), "\" changes the order or the number of samples (",
                                    KindOf(layer.spec()), " of dim 0), and does so in each of the ", parts,
                                    " micro-batches by itself: the result is not that of the whole batch"));
  }
}

// A program for volumes of different extents is shown for some extents.
void AddWholeVolumes(const Plan& plan, std::vector<std::string>& warnings) {
  for (const ProgramPlan& program : plan.program()) {
    const Dataset* const dataset = FindDataset(plan.spec(), program.dataset());
    if (dataset == nullptr || !HasWholeVolumes(*dataset)) continue;
    for (const ValuePlan& value : program.value()) {
      const Field* const field = FindField(*dataset, value.field());
      if (field == nullptr || !HasVaryingExtents(*field)) continue;
      warnings.push_back(
          absl::StrCat("program \"", program.name(), "\" is shown for samples of ",
                       absl::StrJoin(value.layout().shape().begin() + 1, value.layout().shape().end(), "x"), " of \"",
                       field->name(), "\"; the volumes of data set \"", dataset->name(),
                       "\" have extents of their own, for which the ranks plan it one after the other"));
      break;
    }
  }
}

}  // namespace

std::vector<std::string> PlanWarnings(const Plan& plan) {
  std::vector<std::string> warnings;
  AddIdleRanks(plan, warnings);
  AddMicroBatches(plan, warnings);
  AddWholeVolumes(plan, warnings);
  return warnings;
}

}  // namespace adjoin
