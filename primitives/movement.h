// An operator that moves a tensor between two distributions, with its adjoint, in LibTorch's autograd. It is linear,
// but where it starts in P(max) or P(min).
//
//   auto halo = *Movement::Create(&communicator, Distribution::Of(x_layout),
//                                 *Distribution::Reads(x_layout, windows, y_layout), {.id = 1, .name = "conv1.x"});
//   Tape tape;
//   at::Tensor padded = halo->Apply(x, tape);
//
//   std::unique_ptr<Movement::Pending> pending = halo->Start(x, tape);
//   ...                                              // work that does not need the result
//   padded = pending->Wait(tape);
//
// `Redistribute` and `HaloExchange` (redistribute.h, halo_exchange.h), `Broadcast`, `SumReduce` and `AllSumReduce` name
// the special cases.
//
// From P(max) or P(min) the result is the largest or smallest of the partials, NaN if one of them is: torch.amax over
// them. So is the gradient: the cotangent goes to the partials that have this value, in equal shares (along a B axis to
// the replica that the selection names). Whether they have it is constant: the gradient is linear in the cotangent, and
// differentiated again in it alone. In a forward pass with gradients this takes two more executions: the result goes
// back to its partials, unless it is there already, and those that have it are counted. Axes of one rank hold the
// only partial, which is copied like any other tensor.
//
// Shapes: Apply and Forward take this rank's local tensor of `from` and return that of `to` (a tensor of shape
// (0, ..., 0) outside a mesh); Adjoint the other way. Inputs are never modified, and may be strided: these are copied
// once to contiguous memory, which lives until the execution ends. Results are freshly owned and contiguous.
// They are on the communicator's device (tensor_device.h), where the work is queued on LibTorch's current stream.
// Complex tensors are moved by the same real operator. Every rank of the communicator that takes part in either side
// must call the same operators in the same order.
//
// Errors inside autograd travel as StatusException (status_exception.h); at creation as absl::Status.
// One thread; each execution, forward or adjoint, takes the next generation of its (operator, direction).
#ifndef ADJOIN_PRIMITIVES_MOVEMENT_H_
#define ADJOIN_PRIMITIVES_MOVEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/initial_cells.h"
#include "primitives/tape.h"

namespace adjoin {

class TensorExecution;

class Movement : public std::enable_shared_from_this<Movement> {
 public:
  struct Options {
    // Fixed by the plan; unique within the communicator, 1 to kLargestOperator (reserved_ids.h). A differentiable
    // movement from P(max) or P(min) takes id + 1 and id + 2 as well: for the sum along its pairs, and for the count of
    // ties.
    int64_t id = 0;
    std::string name;            // for messages: "conv1.x"
    double fill = 0;             // cells of the destination that no global index covers (forward only)
    bool differentiable = true;  // false: runs off the tape on all ranks, and has no adjoint in a backward pass
    AlgorithmChoice algorithms = AlgorithmChoice::kCheapest;  // the same on all ranks
    // A rank that is only a source, in the adjoint only a destination, does not wait until what it sends is on its way
    // (Communicator::SendAll): the ranks of the other side may come to this movement much later. The two sides have no
    // rank in common, and the tensors that are sent do not change until then. Not for a maximum or minimum.
    bool sends_ahead = false;
  };

  // `communicator` must outlive the movement and every graph that holds it; the graph keeps the movement itself alive.
  // Errors: as MovementPlan::Build; kInvalidArgument for an id out of range, a differentiable movement of integers or
  // bools.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Distribution& from,
                                                          const Distribution& to, Options options);

  // With autograd, on the tape (unless not differentiable). The gradient of what it returns goes through the adjoint as
  // a differentiable operator, so that gradients can be differentiated again.
  at::Tensor Apply(const at::Tensor& x, Tape& tape);

  // An execution between Start and Wait. Dropped without a Wait it fails this rank's communicator, for good, with
  // kFailedPrecondition: the others would wait for this rank.
  class Pending {
   public:
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // Returns the result of the movement, as Apply would have. Once. Throws StatusException: as Forward;
    // kFailedPrecondition for a second Wait, an earlier execution of the operator that was not waited for, a Wait
    // without gradients after a Start with them.
    at::Tensor Wait(Tape& tape);

   private:
    friend class Movement;
    Pending(std::shared_ptr<TensorExecution> execution, at::Tensor link)
        : execution_(std::move(execution)), link_(std::move(link)) {}
    std::shared_ptr<TensorExecution> execution_;
    at::Tensor link_;  // from Start's node to Wait's; undefined without autograd
  };

  // Apply in two halves, so that other work goes on while data moves. The backward of Wait starts the adjoint, that of
  // Start waits for it. `x` must not change before Wait. All ranks start and wait in the same order; those of different
  // operators in any order, those of one operator first started, first waited for, and at most two of them at a time
  // (a sender needs the receiver's word that it has taken in the last but one). Meanwhile the same operator cannot be
  // applied in one go. Throws StatusException: as Forward; kFailedPrecondition for a third execution.
  std::unique_ptr<Pending> Start(const at::Tensor& x, Tape& tape);

  // The bare operator and its adjoint, without autograd. Collective. Throw StatusException: kInvalidArgument for an
  // undefined tensor or another shape, dtype or device than the plan's; kFailedPrecondition while one that was started
  // is not waited for, and for the adjoint of a maximum or minimum, which has none without its source; else what the
  // communicator returns.
  at::Tensor Forward(const at::Tensor& x);
  // Forward without fill: the linear operator that Adjoint is the adjoint of.
  at::Tensor Linear(const at::Tensor& x);
  at::Tensor Adjoint(const at::Tensor& y);

  const Options& options() const { return options_; }
  const MovementPlan& forward_plan() const { return forward_; }
  // The plan that a backward pass executes, if there is one.
  const MovementPlan& adjoint_plan() const { return extreme_.sum != nullptr ? extreme_.sum->adjoint_ : adjoint_; }

 private:
  friend class TensorExecution;

  // For the gradient of a maximum or minimum; else null.
  struct Extreme {
    std::shared_ptr<Movement> sum;   // along the same pairs, with its adjoint
    std::shared_ptr<Movement> ties;  // that sum of int32: exact however many there are
    bool in_place = false;           // every rank with a partial has the result, too
  };

  // Numbers of executions by Start in one direction.
  struct Counts {
    int64_t started = 0;
    int64_t waited = 0;
  };

  // `covered`: the cells of the destination that an index covers, which are never fill.
  Movement(Communicator* communicator, Options options, MovementPlan forward, MovementPlan adjoint,
           const std::vector<Piece>& covered);
  bool IsExtreme() const { return forward_.reduce() != ReduceOp::kSum; }
  // For Communicator::Options::compare_executions.
  void Identify(uint64_t fingerprint, const std::string& what);
  void SendAhead(const Mesh& from, const Mesh& to);
  void PrepareGradientOfExtreme(bool in_place);
  // `linear`: forward without fill.
  at::Tensor Run(const at::Tensor& x, Direction direction, bool linear);
  at::Tensor NewResult(Direction direction, bool linear) const {
    if (direction == Direction::kAdjoint) return adjoint_initial_.New(device_);
    return linear ? linear_initial_.New(device_) : forward_initial_.New(device_);
  }
  void RefuseIfInFlight(Direction direction);
  const MovementPlan& PlanOf(Direction direction) const {
    return direction == Direction::kForward ? forward_ : adjoint_;
  }
  const Execution& ExecutionOf(Direction direction) const {
    return executions_[direction == Direction::kForward ? 0 : 1];
  }
  // Checks `x` and returns its cells in contiguous memory.
  at::Tensor SourceOf(const at::Tensor& x, Direction direction);
  // Fails this rank's communicator, since the others would wait for this rank, and throws.
  [[noreturn]] void Fail(absl::Status status);
  Counts& CountsOf(Direction direction) { return counts_[direction == Direction::kForward ? 0 : 1]; }

  Communicator* communicator_;
  Options options_;
  c10::Device device_;  // of all tensors
  MovementPlan forward_;
  MovementPlan adjoint_;     // for a maximum or minimum: brings a result back to its partials
  Execution executions_[2];  // forward, adjoint
  InitialCells forward_initial_;
  InitialCells linear_initial_;
  InitialCells adjoint_initial_;
  Counts counts_[2];
  Extreme extreme_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_MOVEMENT_H_
