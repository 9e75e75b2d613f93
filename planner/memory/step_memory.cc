#include "planner/memory/step_memory.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "planner/memory/local_sizes.h"
#include "planner/memory/step_simulation.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr int kLargest = 5;
// Ranks to compare; of more ranks than kFew fewer, since each takes as long as all of a small job.
constexpr size_t kMostSimulated = 4, kSimulatedOfMany = 2;
constexpr size_t kFew = 64;

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
  int rank = 0;
};

absl::StatusOr<std::vector<RankClass>> ClassesOfRanks(const Plan& plan, PlanGeometry& geometry) {
  std::vector<RankClass> classes(plan.spec().ranks());
  for (size_t rank = 0; rank < classes.size(); ++rank) classes[rank].rank = static_cast<int>(rank);
  for (const ValuePlan& value : plan.program(0).value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry.LayoutOf(value.layout()));
    for (const int rank : layout->mesh().ranks()) {
      const Box part = layout->BoxOf(rank);
      classes[rank].bytes += BytesOf(part.Shape(), layout->dtype());
      for (int dim = 2; dim < layout->dims() && !part.empty(); ++dim) {
        classes[rank].neighbours += (part[dim].lo > 0 ? 1 : 0) + (part[dim].hi < layout->shape()[dim] ? 1 : 0);
      }
    }
  }
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* home, geometry.LayoutOf(parameter.home()));
    const int copies = parameter.frozen() || parameter.buffer() ? 1 : 2 + StatesOf(plan.spec().train().optimizer());
    for (const int rank : home->mesh().ranks()) {
      classes[rank].bytes += copies * BytesOf(home->LocalShape(rank), home->dtype());
    }
  }
  return classes;
}

// Ranks among which that is which needs most, one of each class: those with the largest parts, and that with most
// neighbours.
absl::StatusOr<std::vector<int>> RanksToCompare(const Plan& plan, PlanGeometry& geometry) {
  if (plan.program().empty()) return std::vector<int>{0};
  ADJOIN_ASSIGN_OR_RETURN(std::vector<RankClass> classes, ClassesOfRanks(plan, geometry));
  if (classes.empty()) return std::vector<int>{0};
  std::sort(classes.begin(), classes.end(), [](const RankClass& a, const RankClass& b) {
    return std::tuple(-a.bytes, -a.neighbours, a.rank) < std::tuple(-b.bytes, -b.neighbours, b.rank);
  });
  const auto surrounded = std::max_element(classes.begin(), classes.end(),
                                           [](const auto& a, const auto& b) { return a.neighbours < b.neighbours; });
  const size_t most = classes.size() > kFew ? kSimulatedOfMany : kMostSimulated;
  std::vector<int> found;
  std::set<std::pair<int64_t, int64_t>> seen;
  const auto add = [&](const RankClass& of) {
    if (found.size() < most && seen.emplace(of.bytes, of.neighbours).second) found.push_back(of.rank);
  };
  add(classes.front());
  add(*surrounded);
  for (const RankClass& of : classes) add(of);
  return found;
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
