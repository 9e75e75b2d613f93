#include "planner/plan/file_halos.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/conv/edge_roles.h"
#include "layers/rules/roles.h"
#include "planner/plan/operator_plan.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

int UsesOf(const ProgramPlan& program, uint32_t value) {
  int uses = 0;
  for (const LayerPlan& layer : program.layer()) {
    for (uint32_t input : layer.input()) uses += input == value;
  }
  for (const LossPlan& loss : program.loss()) uses += loss.target() == value;
  return uses;
}

std::string FreeName(const ProgramPlan& program, const std::string& field) {
  std::set<std::string> taken;
  for (const ValuePlan& value : program.value()) taken.insert(value.name());
  int number = 2;
  while (taken.count(absl::StrCat(field, "#", number)) > 0) ++number;
  return absl::StrCat(field, "#", number);
}

bool CanBeRead(const ProgramPlan& program, const LayerPlan& layer, const OperatorUse& use, int input) {
  if (use.role() != InputRole(input)) return false;
  for (const OperatorUse& other : layer.op()) {
    if (IsEdgeRole(other.role())) return false;  // uses the input without halos
  }
  const ValuePlan& value = program.value(layer.input(input));
  const OperatorPlan& op = program.op(use.index());
  return !value.field().empty() && !value.has_read() && !value.needs_grad() && !op.differentiable() &&
         !op.reading().empty() && op.source().empty() && std::isfinite(op.fill());
}

// Returns the operators that are not needed any more.
std::set<uint32_t> MoveHalos(ProgramPlan& program) {
  std::set<uint32_t> gone;
  for (LayerPlan& layer : *program.mutable_layer()) {
    for (int input = 0; input < layer.input_size(); ++input) {
      for (int i = 0; i < layer.op_size(); ++i) {
        if (!CanBeRead(program, layer, layer.op(i), input)) continue;
        const uint32_t op = layer.op(i).index();
        uint32_t value = layer.input(input);
        if (UsesOf(program, value) > 1) {
          ValuePlan own = program.value(value);
          own.set_name(FreeName(program, own.field()));
          *program.add_value() = std::move(own);
          value = program.value_size() - 1;
          layer.set_input(input, value);
        }
        *program.mutable_value(value)->mutable_read() = program.op(op);
        layer.mutable_op()->DeleteSubrange(i, 1);
        layer.clear_keeps_halo_apart();
        gone.insert(op);
        break;
      }
    }
  }
  return gone;
}

// Keeps the order and the ids of the other operators.
void RemoveOperators(ProgramPlan& program, const std::set<uint32_t>& gone) {
  std::vector<uint32_t> index_of(program.op_size());
  google::protobuf::RepeatedPtrField<OperatorPlan> kept;
  for (int i = 0; i < program.op_size(); ++i) {
    index_of[i] = kept.size();
    if (gone.count(i) == 0) {
      kept.Add(std::move(*program.mutable_op(i)));
      continue;
    }
    const absl::StatusOr<TwoWayTraffic> traffic = TrafficOf(program.op(i));
    // The planner made the operator from the same layouts.
    if (traffic.ok()) AddBytes(traffic->forward, -1, *program.mutable_bytes_per_step());
  }
  program.mutable_op()->Swap(&kept);
  const auto renumber = [&](auto* uses) {
    for (OperatorUse& use : *uses) use.set_index(index_of[use.index()]);
  };
  for (LayerPlan& layer : *program.mutable_layer()) renumber(layer.mutable_op());
  for (LossPlan& loss : *program.mutable_loss()) renumber(loss.mutable_op());
  for (OutputPlan& output : *program.mutable_output()) {
    if (output.has_op()) output.mutable_op()->set_index(index_of[output.op().index()]);
  }
  program.set_report_op(index_of[program.report_op()]);
}

}  // namespace

void ReadHalosFromFiles(Plan* plan) {
  for (ProgramPlan& program : *plan->mutable_program()) {
    const std::set<uint32_t> gone = MoveHalos(program);
    if (!gone.empty()) RemoveOperators(program, gone);
  }
}

}  // namespace adjoin
