#include "tests/vs_serial/second_derivative.h"

#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/layout_proto.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

using at::Tensor;

absl::Status RunRank(const Plan& plan, const TwiceInput& input, Transport& transport, Tensor& result) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  const ProgramPlan& program = plan.program(0);
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  for (const auto& [name, whole] : input.parameters) {
    ADJOIN_ASSIGN_OR_RETURN(const int index, parameters.IndexOf(name));
    ADJOIN_RETURN_IF_ERROR(parameters.SetFromGlobal(index, whole));
  }
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  const Tensors whole = {{"x", input.x}, {"label", at::zeros({input.x.size(0)}, at::kLong)}};
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(program, whole, transport.rank()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(program.value(program.layer(0).output()).layout()));
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result forward, network->Forward(fields, tape, /*keep_values=*/true));
  try {
    const Tensor x = fields.at("x");
    const Tensor u = PartOf(input.u, layout, transport.rank());
    const Tensor v = PartOf(input.v, layout, transport.rank());
    const Tensor once = tape.Grad({forward.values.at("y")}, {x}, {u}, /*create_graph=*/true)[0];
    tape.Backward((once * v).sum());
    result = x.grad().defined() ? x.grad() : at::zeros_like(x);
  } catch (...) {
    return StatusFromCurrentException();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> SecondDerivative(const Plan& plan, const TwiceInput& input, uint64_t seed) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<Tensor> results(ranks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) {
    return RunRank(plan, input, transport, results[transport.rank()]);
  }));
  return results;
}

}  // namespace adjoin
