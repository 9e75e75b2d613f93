// A linear operator that moves a tensor between two distributions, with its adjoint, in LibTorch's autograd.
//
//   auto halo = *Movement::Create(&communicator, Distribution::Of(x_layout),
//                                 *Distribution::Windows(x_layout, windows, y_layout), {.id = 1, .name = "conv1.x"});
//   Tape tape;
//   torch::Tensor padded = halo->Apply(x, tape);
//
// `Redistribute` and `HaloExchange` (redistribute.h, halo_exchange.h), `Broadcast`, `SumReduce` and `AllSumReduce` name
// the special cases. Shapes: Apply and Forward take this rank's local tensor of `from` and return that of `to` (a tensor of
// shape (0, ..., 0) outside a mesh); Adjoint the other way. Inputs may be strided and are never modified. Results are
// freshly owned and contiguous. Complex tensors are moved by the same real operator. Every rank of the communicator that
// takes part in either side must call the same operators in the same order.
//
// Errors inside autograd travel as StatusException (status_exception.h); at creation as absl::Status.
// One thread; each execution, forward or adjoint, takes the next generation of its (operator, direction).
#ifndef ADJOIN_PRIMITIVES_MOVEMENT_H_
#define ADJOIN_PRIMITIVES_MOVEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/tape.h"

namespace adjoin {

class Movement : public std::enable_shared_from_this<Movement> {
 public:
  struct Options {
    int64_t id = 0;            // fixed by the plan; unique within the communicator, 1 .. 65535
    std::string name;          // for messages: "conv1.x"
    double fill = 0;           // cells of the destination that no global index covers (forward only)
    bool differentiable = true;  // false: runs off the tape on all ranks, and has no adjoint in a backward pass
  };

  // `communicator` must outlive the movement and every graph that holds it; the graph keeps the movement itself alive.
  // Errors: as MovementPlan::Build; kInvalidArgument for an id out of range, a differentiable movement of integers or
  // bools, a P(max) or P(min).
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Distribution& from,
                                                          const Distribution& to, Options options);

  // With autograd, on the tape (unless not differentiable). The gradient of what it returns goes through the adjoint as a
  // differentiable operator, so that gradients can be differentiated again.
  torch::Tensor Apply(const torch::Tensor& x, Tape& tape);

  // The bare operator and its adjoint, without autograd. Collective. Throw StatusException: kInvalidArgument for an
  // undefined tensor or another shape, dtype or device than the plan's; else what the communicator returns.
  torch::Tensor Forward(const torch::Tensor& x);
  torch::Tensor Adjoint(const torch::Tensor& y);

  const Options& options() const { return options_; }
  const MovementPlan& forward_plan() const { return forward_; }
  const MovementPlan& adjoint_plan() const { return adjoint_; }

 private:
  // What a fresh result holds before contributions reach it.
  enum class Initial { kAnything, kZeros, kFill, kFillAroundZeros };

  Movement(Communicator* communicator, Options options, MovementPlan forward, MovementPlan adjoint);
  void ChooseInitial(const LocalView& to);
  torch::Tensor Run(const torch::Tensor& x, Direction direction);
  torch::Tensor NewResult(Direction direction) const;

  Communicator* communicator_;
  Options options_;
  MovementPlan forward_;
  MovementPlan adjoint_;
  Initial forward_initial_ = Initial::kZeros;
  Initial adjoint_initial_ = Initial::kZeros;
  std::vector<Piece> covered_;  // of the destination, for kFillAroundZeros
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_MOVEMENT_H_
