#include "planner/memory/step_memory.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "planner/memory/step_simulation.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr int kLargest = 5;
// Ranks to compare; of more ranks than kFew only the first of them, since each takes as long as all of a small job.
constexpr size_t kMostSimulated = 4;
constexpr int kFew = 64;

absl::StatusOr<int64_t> LocalBytes(const LayoutPlan& plan, int rank) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(plan));
  return BytesOf(layout.LocalShape(rank), layout.dtype());
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

absl::StatusOr<RankMemory> Simulated(const Plan& plan, const ProgramPlan& program, int rank, MemoryLedger ledger) {
  StepSimulation step(plan, program, rank, &ledger);
  ADJOIN_RETURN_IF_ERROR(step.Prepare());
  step.Run();
  return MemoryAt(ledger, program, rank);
}

// What stays from step to step: parameters with the optimizer's state, gradients that several parts of a batch add to,
// and the batch that is read while another is computed.
absl::StatusOr<MemoryLedger> WithWhatStays(const Plan& plan, const ProgramPlan& program, int rank) {
  MemoryLedger ledger(program.layer_size());
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, LocalBytes(parameter.home(), rank));
    ledger.New(bytes, {MemoryPart::kParameters, -1});
    if (!program.training() || parameter.frozen() || parameter.buffer()) continue;
    ledger.New(StatesOf(plan.spec().train().optimizer()) * bytes, {MemoryPart::kOptimizer, -1});
    if (plan.spec().train().microbatches() > 1) ledger.New(bytes, {MemoryPart::kGradients, -1});
  }
  for (const ValuePlan& value : program.value()) {
    if (value.field().empty()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, LocalBytes(value.layout(), rank));
    ledger.New(bytes, {MemoryPart::kFields, -1});
  }
  return ledger;
}

// The ranks with the largest parts, in order.
absl::StatusOr<std::vector<int>> RanksToCompare(const Plan& plan) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<std::pair<int64_t, int>> by_bytes;
  for (int rank = 0; rank < ranks; ++rank) by_bytes.emplace_back(0, -rank);
  if (plan.program().empty()) return std::vector<int>{0};
  for (const ValuePlan& value : plan.program(0).value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    for (const int rank : layout.mesh().ranks()) {
      by_bytes[rank].first += BytesOf(layout.LocalShape(rank), layout.dtype());
    }
  }
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
    const int copies = parameter.frozen() || parameter.buffer() ? 1 : 2 + StatesOf(plan.spec().train().optimizer());
    for (const int rank : home.mesh().ranks()) {
      by_bytes[rank].first += copies * BytesOf(home.LocalShape(rank), home.dtype());
    }
  }
  std::sort(by_bytes.rbegin(), by_bytes.rend());
  std::vector<int> found;
  for (const auto& [bytes, rank] : by_bytes) found.push_back(-rank);
  found.resize(std::min(found.size(), ranks > kFew ? 1 : kMostSimulated));
  return found;
}

}  // namespace

absl::StatusOr<RankMemory> PredictStepMemory(const Plan& plan, const ProgramPlan& program, int rank) {
  return Simulated(plan, program, rank, MemoryLedger(program.layer_size()));
}

absl::StatusOr<RankMemory> PredictMemory(const Plan& plan, int rank) {
  RankMemory most;
  most.rank = rank;
  most.of_part.assign(kMemoryParts, 0);
  for (const ProgramPlan& program : plan.program()) {
    ADJOIN_ASSIGN_OR_RETURN(MemoryLedger ledger, WithWhatStays(plan, program, rank));
    ADJOIN_ASSIGN_OR_RETURN(RankMemory found, Simulated(plan, program, rank, std::move(ledger)));
    if (found.bytes > most.bytes) most = std::move(found);
  }
  return most;
}

absl::StatusOr<RankMemory> PredictLargestMemory(const Plan& plan) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int> ranks, RanksToCompare(plan));
  RankMemory most;
  for (const int rank : ranks) {
    ADJOIN_ASSIGN_OR_RETURN(RankMemory found, PredictMemory(plan, rank));
    if (found.bytes > most.bytes || most.of_part.empty()) most = std::move(found);
  }
  return most;
}

}  // namespace adjoin
