#include "tests/vs_serial/step_peak.h"

#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "tests/vs_serial/tensor_peak.h"

namespace adjoin {

absl::StatusOr<int64_t> StepPeak(const Plan& plan, const Tensors& whole, Transport& transport) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  parameters.Initialise(1);
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
  network->SumInBackward(sync.get());
  const auto peak = std::make_shared<TensorPeak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  ADJOIN_ASSIGN_OR_RETURN(Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  for (auto& [name, field] : fields) field = field.clone();
  Tape tape;
  at::Tensor loss;
  {
    ADJOIN_ASSIGN_OR_RETURN(Network::Result result, network->Forward(std::move(fields), tape));
    loss = result.loss;
  }
  try {
    tape.Backward(loss);
  } catch (...) {
    return StatusFromCurrentException();
  }
  // The sums that are still in flight end after the pass.
  const int64_t bytes = peak->bytes();
  ADJOIN_RETURN_IF_ERROR(sync->Sync());
  return bytes;
}

}  // namespace adjoin
