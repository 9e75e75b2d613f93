// The order of the movements of one backward pass, the same on every rank.
//
//   Tape tape;
//   at::Tensor y = halo->Apply(x, tape);
//   at::Tensor loss = ...;
//   tape.Backward(loss);            // on every rank, also where `loss` has no gradient or is undefined
//
// An empty *token* that requires grad is threaded through every differentiable movement, so that each rank's graph
// holds every movement's node, in the order in which the forward pass ran them, whether or not this rank's input needs
// a gradient or its output reaches the loss. A peer waits without end for a node that a rank lacks; the token is what
// prevents it. A Tape serves one backward pass (or several with retain_graph) and one thread: make a new one for each
// step. After a pass that does not retain the graph it starts anew, so what is freed is never run again.
#ifndef ADJOIN_PRIMITIVES_TAPE_H_
#define ADJOIN_PRIMITIVES_TAPE_H_

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace adjoin {

class Tape {
 public:
  explicit Tape(at::Device device = at::kCPU);
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // The token as of the last movement; a movement takes it and puts its own in its place.
  const at::Tensor& token() const { return token_; }
  void Advance(at::Tensor token) { token_ = std::move(token); }

  // Accumulates gradients into the leaves, starting from `loss` with `seed` (a number, 1 for a loss in P) and from the
  // token. `loss` may be undefined or need no gradient: then only the token's chain runs. Collective.
  // Throws what a movement throws (StatusException).
  void Backward(const at::Tensor& loss, double seed = 1.0, bool retain_graph = false);

  // d outputs / d inputs with cotangents `grad_outputs` (one per output; undefined: ones); gradients that do not exist
  // are zeros of the input's shape. Outputs that need no gradient, or are undefined, are left out. With `create_graph`
  // the adjoint movements join the tape, so that a later pass differentiates them as well. Collective.
  std::vector<at::Tensor> Grad(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& grad_outputs, bool create_graph = false,
                               bool retain_graph = false);

 private:
  void Renew();

  at::Tensor leaf_;
  at::Tensor token_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TAPE_H_
