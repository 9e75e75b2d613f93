#include "tests/vs_serial/placed_output.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/layout_proto.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {

using at::Tensor;

absl::StatusOr<Tensor> OutputAt(StepAt at, const Plan& plan, const std::string& program, const Tensor& x) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  Tensor whole = at::full(x.sizes(), -12345.0, at::kDouble);
  std::vector<Tensor> parts(ranks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
    parameters.Initialise(plan.spec().seed());
    ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, program, &communicator, &parameters, BuiltinLayers()));
    const Tensors fields = {{"x", x}, {"label", at::zeros({x.size(0)}, at::kLong)}};
    ADJOIN_ASSIGN_OR_RETURN(const Tensors local, LocalFields(network->program(), fields, transport.rank()));
    network->SetPlace(at.step, at.first_sample);
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(local, tape, /*keep_values=*/true));
    parts[transport.rank()] = result.values.at("y").detach();
    return absl::OkStatus();
  }));
  for (const ProgramPlan& candidate : plan.program()) {
    if (candidate.name() != program) continue;
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout,
                            LayoutFromProto(candidate.value(candidate.layer(0).output()).layout()));
    for (int rank = 0; rank < ranks; ++rank) PartOf(whole, layout, rank).copy_(parts[rank]);
    // All copies are alike.
    for (int rank = 0; rank < ranks; ++rank) {
      if (!at::equal(PartOf(whole, layout, rank), parts[rank])) return absl::InternalError("copies differ");
    }
  }
  return whole;
}

}  // namespace adjoin
