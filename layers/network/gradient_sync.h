// Makes every stored parameter's gradient the gradient of the whole loss.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
//   network->SumInBackward(sync.get());     // for the last micro-batch; without it, Sync does everything
//   tape.Backward(loss);                    // once per micro-batch
//   ADJOIN_RETURN_IF_ERROR(sync->Sync());   // once per optimizer step, before clipping and the step, on every rank
//
// Autograd leaves a leaf's gradient in the dual of the parameter's home: as it should be for one owner and for split
// homes, but a partial sum on each rank of a replicated one. A sum redistributes dual(home) -> home. Small gradients
// share one (planner/plan/gradient_buckets.h). Every replica gets the same bits, in buckets or not, in the backward
// pass or after it.
//
// In the backward pass a sum starts as soon as its gradients are complete, and travels while the layers before compute.
// It is started by a node on the tape's chain, before the first layer that uses any of its parameters: LibTorch runs
// nodes in reverse order of creation, and adds to a leaf's gradient as soon as that is there, so at this node all uses
// of the parameters have been gone through, whichever of them reach the loss on this rank. The chain gives all ranks
// the order of the plan. Hooks of leaves would not: they run in another order on each rank.
//
// One thread.
#ifndef ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_
#define ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "planner/plan/gradient_buckets.h"
#include "primitives/comm/communicator.h"
#include "primitives/movement.h"
#include "primitives/tape.h"
#include "proto/plan.pb.h"

namespace adjoin {

class GradientSync {
 public:
  // `communicator` and `parameters`, made from the same plan, must outlive it.
  // Errors: as GradientSums and Movement::Create.
  static absl::StatusOr<std::unique_ptr<GradientSync>> Create(const Plan& plan, Communicator* communicator,
                                                              Parameters* parameters);
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Replaces the gradients of all trained parameters; undefined ones count as zeros and are defined afterwards. Starts
  // the sums that the backward pass has not started, and waits for all. Collective. Errors: what a movement fails with;
  // the gradients are then of no use.
  absl::Status Sync();

  // For each layer of a program of the plan, the sums whose gradients a backward pass has once it is through that
  // layer: for StartInBackward.
  std::vector<std::vector<int>> CompleteAt(const ProgramPlan& program) const;
  // Puts a node on the tape whose backward starts these sums, in their order. This outlives the pass, of which only one
  // runs before Sync. The backward throws StatusException: as Movement::Start and Wait; kFailedPrecondition where a sum
  // is started a second time before Sync.
  void StartInBackward(const std::vector<int>& sums, Tape& tape);

  // What this rank sends for all sums of a step.
  int64_t bytes_per_step() const { return bytes_per_step_; }

 private:
  enum class Progress { kNotStarted, kInFlight, kDone };
  struct Sum {
    GradientSum plan;
    std::shared_ptr<Movement> movement;
    int64_t columns = 0;  // of this rank's bucket
    int64_t bytes = 0;    // of its result
    Progress progress = Progress::kNotStarted;
    std::unique_ptr<Movement::Pending> pending;
  };
  struct StartFunction;

  GradientSync(Communicator* communicator, Parameters* parameters);
  // Throw StatusException.
  void Start(int index);
  void FinishFirst();
  at::Tensor Packed(const Sum& sum) const;
  void Unpack(const Sum& sum, const at::Tensor& result);

  Communicator* communicator_;
  Parameters* parameters_;
  Tape unused_;  // sums are not differentiated
  std::vector<Sum> sums_;
  std::deque<int> in_flight_;  // in the order of their starts
  // While ranks compare executions (JobSpec.compare_executions), a comparison moves nothing else on: with sums in
  // flight, which differ between ranks, two ranks could wait for each other. Parameters that travel ahead do not: their
  // starts and waits are in one order on all ranks.
  bool one_at_a_time_ = false;
  int64_t bytes_in_flight_ = 0;
  int64_t bytes_per_step_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_GRADIENT_SYNC_H_
