#include "planner/memory/step_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "layers/loss/loss_roles.h"
#include "layers/rules/roles.h"
#include "planner/memory/local_sizes.h"
#include "planner/memory/step_simulation.h"
#include "planner/memory/tensor_bytes.h"
#include "planner/plan/pipeline_stages.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr int kLargest = 5;
// Ranks to compare: of those that run the same layers, and in all. Of more ranks than kFew fewer, since each takes as
// long as all of a small job.
constexpr size_t kFew = 64;
constexpr size_t kAlikeOfFew = 4, kAlikeOfMany = 2;
constexpr size_t kMostOfMany = 16;

absl::StatusOr<int64_t> LocalBytes(PlanGeometry& geometry, const LayoutPlan& plan, int rank) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry.LayoutOf(plan));
  return BytesOf(layout->LocalShape(rank), layout->dtype());
}

}  // namespace

int StatesOf(const Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd: return optimizer.sgd().momentum() != 0 ? 1 : 0;
    case Optimizer::kAdam: return optimizer.adam().amsgrad() ? 3 : 2;
    case Optimizer::kRmsprop:
      return 1 + (optimizer.rmsprop().momentum() > 0 ? 1 : 0) + (optimizer.rmsprop().centered() ? 1 : 0);
    case Optimizer::kAdagrad: return 1;
    case Optimizer::KIND_NOT_SET: break;
  }
  return 0;
}

namespace {

RankMemory MemoryAt(const MemoryLedger& ledger, const ProgramPlan& program, int rank) {
  const MemoryLedger::Moment& peak = ledger.peak();
  RankMemory memory;
  memory.rank = rank;
  memory.bytes = peak.bytes;
  memory.program = program.name();
  memory.during = peak.during;
  memory.of_part = peak.of_part;
  memory.of_part.resize(kMemoryParts, 0);
  for (int i = 0; i < program.layer_size() && peak.bytes > 0; ++i) {
    memory.largest.push_back({program.layer(i).name(), peak.of_layer[i]});
  }
  std::stable_sort(memory.largest.begin(), memory.largest.end(),
                   [](const RankMemory::Share& a, const RankMemory::Share& b) { return a.bytes > b.bytes; });
  if (memory.largest.size() > kLargest) memory.largest.resize(kLargest);
  return memory;
}

absl::StatusOr<RankMemory> Simulated(const Plan& plan, const ProgramPlan& program, int rank, PlanGeometry& geometry,
                                     MemoryLedger ledger) {
  StepSimulation step(plan, program, rank, &geometry, &ledger);
  ADJOIN_RETURN_IF_ERROR(step.Prepare());
  step.Run();
  return MemoryAt(ledger, program, rank);
}

// What stays from step to step: parameters with the optimizer's state, gradients that several parts of a batch add to,
// and the batch that is read while another is computed.
absl::StatusOr<MemoryLedger> WithWhatStays(const Plan& plan, const ProgramPlan& program, int rank,
                                           PlanGeometry& geometry) {
  MemoryLedger ledger(program.layer_size());
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, LocalBytes(geometry, parameter.home(), rank));
    ledger.New(bytes, {MemoryPart::kParameters, -1});
    if (!program.training() || parameter.frozen() || parameter.buffer()) continue;
    ledger.New(StatesOf(plan.spec().train().optimizer()) * bytes, {MemoryPart::kOptimizer, -1});
    if (plan.spec().train().microbatches() > 1) ledger.New(bytes, {MemoryPart::kGradients, -1});
  }
  for (const ValuePlan& value : program.value()) {
    if (value.field().empty()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, LocalBytes(geometry, value.layout(), rank));
    ledger.New(bytes, {MemoryPart::kFields, -1});
  }
  return ledger;
}

// What tells ranks apart before a step is simulated.
struct RankClass {
  int64_t bytes = 0;       // of its parts of values and parameters
  int64_t neighbours = 0;  // beside its parts in spatial dims: where halos come from
  uint64_t runs = 0;       // a hash: of which values it has a part, and so which layers it runs
  uint64_t shapes = 0;     // a hash of all its parts' extents
  int rank = 0;
};

uint64_t Mixed(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

// Takes the rank's part of the `number`-th parameter into its hash; an empty part is none.
void AddHome(uint64_t number, const std::vector<int64_t>& shape, RankClass& of) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  of.shapes = Mixed(of.shapes, number);
  for (const int64_t extent : shape) of.shapes = Mixed(of.shapes, static_cast<uint64_t>(extent));
}

// Likewise of the `number`-th value.
void AddPart(uint64_t number, const std::vector<int64_t>& shape, RankClass& of) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  of.runs = Mixed(of.runs, number);
  AddHome(number, shape, of);
}

// Tensors that the rank has only while a layer or a loss runs: the output before it moves, the prediction after it has.
std::vector<const LayoutPlan*> LayoutsWithinSteps(const ProgramPlan& program) {
  std::vector<const LayoutPlan*> layouts;
  for (const LayerPlan& layer : program.layer()) {
    if (OperatorOf(program, layer, kRoleOutput) != nullptr) layouts.push_back(&layer.compute());
  }
  for (const LossPlan& loss : program.loss()) {
    for (const OperatorUse& use : loss.op()) {
      if (use.role() == kRolePrediction) layouts.push_back(&program.op(use.index()).to());
    }
  }
  return layouts;
}

absl::StatusOr<std::vector<RankClass>> ClassesOfRanks(const Plan& plan, PlanGeometry& geometry) {
  std::vector<RankClass> classes(plan.spec().ranks());
  for (size_t rank = 0; rank < classes.size(); ++rank) classes[rank].rank = static_cast<int>(rank);
  std::vector<int64_t> passes(classes.size(), 1);  // by rank: whose values it has at once
  if (plan.spec().train().microbatches_in_flight() > 1) {
    ADJOIN_ASSIGN_OR_RETURN(const PipelineStages stages, PipelineStages::Of(plan));
    for (size_t rank = 0; rank < passes.size(); ++rank) passes[rank] = stages.in_flight(static_cast<int>(rank));
  }
  uint64_t number = 0;
  for (const ValuePlan& value : plan.program(0).value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry.LayoutOf(value.layout()));
    ++number;
    for (const int rank : layout->mesh().ranks()) {
      const Box part = layout->BoxOf(rank);
      const std::vector<int64_t> shape = part.Shape();
      AddPart(number, shape, classes[rank]);
      classes[rank].bytes += BoundedProduct({passes[rank], BytesOf(shape, layout->dtype())});
      for (int dim = 2; dim < layout->dims() && !part.empty(); ++dim) {
        classes[rank].neighbours += (part[dim].lo > 0 ? 1 : 0) + (part[dim].hi < layout->shape()[dim] ? 1 : 0);
      }
    }
  }
  for (const LayoutPlan* within : LayoutsWithinSteps(plan.program(0))) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry.LayoutOf(*within));
    ++number;
    for (const int rank : layout->mesh().ranks()) AddPart(number, layout->LocalShape(rank), classes[rank]);
  }
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* home, geometry.LayoutOf(parameter.home()));
    ++number;
    const int copies = parameter.frozen() || parameter.buffer() ? 1 : 2 + StatesOf(plan.spec().train().optimizer());
    for (const int rank : home->mesh().ranks()) {
      const std::vector<int64_t> shape = home->LocalShape(rank);
      AddHome(number, shape, classes[rank]);
      classes[rank].bytes += copies * BytesOf(shape, home->dtype());
    }
  }
  return classes;
}

// Ranks to compare among those that run the same layers, one of each class: first one with the largest parts, then one
// with most neighbours. `alike`: the largest parts first.
std::vector<int> RanksToCompareOf(const std::vector<RankClass>& alike, size_t most) {
  const auto surrounded = std::max_element(alike.begin(), alike.end(),
                                           [](const auto& a, const auto& b) { return a.neighbours < b.neighbours; });
  std::vector<int> found;
  std::set<std::pair<int64_t, uint64_t>> seen;
  const auto add = [&](const RankClass& of) {
    if (found.size() < most && seen.emplace(of.neighbours, of.shapes).second) found.push_back(of.rank);
  };
  add(alike.front());
  add(*surrounded);
  for (const RankClass& of : alike) add(of);
  return found;
}

// Ranks among which that is which needs most. What a layer keeps tells more than the bytes of its output do, so some
// are of each set of ranks that run the same layers, as the stages of a network that is divided by layers.
absl::StatusOr<std::vector<int>> RanksToCompare(const Plan& plan, PlanGeometry& geometry) {
  if (plan.program().empty()) return std::vector<int>{0};
  ADJOIN_ASSIGN_OR_RETURN(std::vector<RankClass> classes, ClassesOfRanks(plan, geometry));
  if (classes.empty()) return std::vector<int>{0};
  std::sort(classes.begin(), classes.end(), [](const RankClass& a, const RankClass& b) {
    return std::tuple(-a.bytes, -a.neighbours, a.rank) < std::tuple(-b.bytes, -b.neighbours, b.rank);
  });
  std::vector<std::vector<RankClass>> sets;  // that with the largest parts first
  std::map<uint64_t, size_t> set_of;         // by RankClass::runs
  for (const RankClass& of : classes) {
    const auto [set, is_new] = set_of.emplace(of.runs, sets.size());
    if (is_new) sets.emplace_back();
    sets[set->second].push_back(of);
  }
  const bool many = classes.size() > kFew;
  std::vector<std::vector<int>> found;
  for (const std::vector<RankClass>& alike : sets) {
    found.push_back(RanksToCompareOf(alike, many ? kAlikeOfMany : kAlikeOfFew));
  }
  // The first of each set, then the second: where not all are compared, none is left out for a second one of others.
  std::vector<int> ranks;
  for (size_t i = 0; i < kAlikeOfFew; ++i) {
    for (const std::vector<int>& of_set : found) {
      if (i < of_set.size() && (!many || ranks.size() < kMostOfMany)) ranks.push_back(of_set[i]);
    }
  }
  return ranks;
}

absl::StatusOr<RankMemory> MemoryOfRank(const Plan& plan, int rank, PlanGeometry& geometry) {
  RankMemory most;
  most.rank = rank;
  most.of_part.assign(kMemoryParts, 0);
  for (const ProgramPlan& program : plan.program()) {
    ADJOIN_ASSIGN_OR_RETURN(MemoryLedger ledger, WithWhatStays(plan, program, rank, geometry));
    ADJOIN_ASSIGN_OR_RETURN(RankMemory found, Simulated(plan, program, rank, geometry, std::move(ledger)));
    if (found.bytes > most.bytes) most = std::move(found);
  }
  return most;
}

}  // namespace

absl::StatusOr<RankMemory> PredictStepMemory(const Plan& plan, const ProgramPlan& program, int rank) {
  PlanGeometry geometry;
  return Simulated(plan, program, rank, geometry, MemoryLedger(program.layer_size()));
}

absl::StatusOr<RankMemory> PredictMemory(const Plan& plan, int rank) {
  PlanGeometry geometry;
  return MemoryOfRank(plan, rank, geometry);
}

absl::StatusOr<RankMemory> PredictLargestMemory(const Plan& plan) {
  PlanGeometry geometry;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int> ranks, RanksToCompare(plan, geometry));
  RankMemory most;
  for (const int rank : ranks) {
    ADJOIN_ASSIGN_OR_RETURN(RankMemory found, MemoryOfRank(plan, rank, geometry));
    if (found.bytes > most.bytes || most.of_part.empty()) most = std::move(found);
  }
  return most;
}

}  // namespace adjoin
