// Makes every stored parameter's gradient the gradient of the whole loss.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
//   tape.Backward(loss);                    // once per micro-batch
//   ADJOIN_RETURN_IF_ERROR(sync->Sync());   // once per optimizer step, before clipping and the step, on every rank
//
// Autograd leaves a leaf's gradient in the dual of the parameter's home: as it should be for one owner and for split
// homes, but a partial sum on each rank of a replicated one. Sync redistributes dual(home) -> home, in the plan's
// order, never from a hook of a leaf (hooks run in another order on each rank). Every replica gets the same bits. One
// thread.
#ifndef ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_
#define ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "primitives/comm/communicator.h"
#include "primitives/movement.h"
#include "proto/plan.pb.h"

namespace adjoin {

class GradientSync {
 public:
  // `communicator` and `parameters`, made from the same plan, must outlive it.
  // Errors: as Movement::Create.
  static absl::StatusOr<std::unique_ptr<GradientSync>> Create(const Plan& plan, Communicator* communicator,
                                                              Parameters* parameters);

  // Replaces the gradients of all trained parameters; undefined ones count as zeros and are defined afterwards.
  // Collective. Errors: what a movement fails with; the gradients are then of no use.
  absl::Status Sync();

 private:
  explicit GradientSync(Parameters* parameters) : parameters_(parameters) {}
  Parameters* parameters_;
  std::vector<std::shared_ptr<Movement>> movements_;  // per parameter; null where nothing moves
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_
