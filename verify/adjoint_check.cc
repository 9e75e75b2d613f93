#include "verify/adjoint_check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/network/operators.h"
#include "planner/plan/gradient_buckets.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "primitives/transport/rank_threads.h"
#include "primitives/transport/transport.h"
#include "verify/partitioned_run.h"

namespace adjoin {
namespace {

constexpr absl::Duration kCheckTimeout = absl::Hours(2);

// One rank's share of the sums that make the test.
struct Sums {
  double fx_y = 0, x_fy = 0, fx_fx = 0, x_x = 0, y_y = 0, fy_fy = 0;
};

bool IsExtreme(const OperatorPlan& op) {
  return std::any_of(op.from().placement().begin(), op.from().placement().end(),
                     [](const std::string& placement) { return absl::StartsWith(placement, "P(m"); });
}

// As a differentiable operator of float64, whatever the plan uses it for: it moves the same cells.
OperatorPlan InFloat64(OperatorPlan op, uint32_t id) {
  op.set_id(id);
  op.set_differentiable(true);
  op.mutable_from()->set_dtype("float64");
  op.mutable_to()->set_dtype("float64");
  if (op.has_read()) op.mutable_read()->set_dtype("float64");
  return op;
}

absl::StatusOr<std::vector<OperatorPlan>> OperatorsOf(const Plan& plan) {
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, VerifiedProgramOf(plan));
  std::vector<OperatorPlan> ops(program->op().begin(), program->op().end());
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.has_sync()) ops.push_back(parameter.sync());
    if (parameter.has_collect()) ops.push_back(parameter.collect());
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan));
  for (const GradientSum& sum : sums) {
    if (sum.parameters.size() > 1) ops.push_back(sum.movement);
  }
  return ops;
}

absl::StatusOr<Sums> CheckOnRank(const OperatorPlan& op, Communicator& communicator, uint64_t seed) {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Movement> f, CreateMovement(op, &communicator));
  try {
    at::NoGradGuard no_grad;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor x = at::randn(f->forward_plan().direct().from_shape(), generator, at::kDouble);
    const at::Tensor y = at::randn(f->forward_plan().direct().to_shape(), generator, at::kDouble);
    const at::Tensor fx = f->Linear(x), fy = f->Adjoint(y);
    const auto inner = [](const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); };
    return Sums{inner(fx, y), inner(x, fy), inner(fx, fx), inner(x, x), inner(y, y), inner(fy, fy)};
  } catch (...) {
    return StatusFromCurrentException();
  }
}

double ErrorOf(const std::vector<Sums>& ranks) {
  Sums all;
  for (const Sums& rank : ranks) {
    all.fx_y += rank.fx_y;
    all.x_fy += rank.x_fy;
    all.fx_fx += rank.fx_fx;
    all.x_x += rank.x_x;
    all.y_y += rank.y_y;
    all.fy_fy += rank.fy_fy;
  }
  const double scale = std::max(std::sqrt(all.fx_fx * all.y_y), std::sqrt(all.x_x * all.fy_fy));
  return scale == 0 ? std::abs(all.fx_y - all.x_fy) : std::abs(all.fx_y - all.x_fy) / scale;
}

}  // namespace

absl::StatusOr<std::vector<AdjointResult>> CheckAdjoints(const Plan& plan, uint64_t seed) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<OperatorPlan> ops, OperatorsOf(plan));
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<std::vector<Sums>> sums(ops.size(), std::vector<Sums>(ranks));
  const auto run = [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {.id = 0, .timeout = kCheckTimeout});
    for (size_t i = 0; i < ops.size(); ++i) {
      if (IsExtreme(ops[i])) continue;
      const OperatorPlan op = InFloat64(ops[i], static_cast<uint32_t>(i + 1));
      // Each rank's cells are its own, also where they are copies.
      ADJOIN_ASSIGN_OR_RETURN(sums[i][transport.rank()],
                              CheckOnRank(op, communicator, (seed * 1000003 + i) * 4099 + transport.rank()));
    }
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(RunRanksInMemory(ranks, run, kCheckTimeout));
  std::vector<AdjointResult> results;
  for (size_t i = 0; i < ops.size(); ++i) {
    results.push_back({ops[i].name(), ErrorOf(sums[i]), !IsExtreme(ops[i])});
  }
  return results;
}

}  // namespace adjoin
