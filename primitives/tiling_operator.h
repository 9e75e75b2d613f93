// What Expand and Repeat share: the movement that brings to each rank what its part of the output reads, if anything
// has to be brought, followed by an operator on the rank's own memory.
//
//   std::unique_ptr<Expand> f = *Expand::Create(&communicator, x_layout, {8, -1, -1}, {.id = 3, .name = "fc1.x"});
//   at::Tensor y = f->Apply(x, tape);        // has the layout f->output_layout()
//   f->BytesSent();                             // by this rank; 0 where nothing moves
//
// Which output layouts are legal and from which nothing moves is said in geometry/tiling.h. Shapes: Apply and Forward
// take this rank's local tensor of input_layout() and return that of output_layout(); Adjoint the other way, in the
// dual layouts (B and P(sum) exchanged). Inputs may be strided and are never modified. A rank outside the mesh holds
// a tensor of shape (0, ..., 0) on both sides. Where nothing moves Apply runs off the tape, and only this rank takes
// part; else all ranks of the communicator that the movement concerns must call it in the same order.
//
// Gradients can be differentiated again. Integers and bools have none: they run as if not differentiable.
// The operator may be gone before a backward pass is. Threads and errors: as Movement.
#ifndef ADJOIN_PRIMITIVES_TILING_OPERATOR_H_
#define ADJOIN_PRIMITIVES_TILING_OPERATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/tiling.h"
#include "primitives/movement.h"
#include "primitives/tape.h"

namespace adjoin {

class TilingOperator {
 public:
  virtual ~TilingOperator() = default;
  TilingOperator(const TilingOperator&) = delete;
  TilingOperator& operator=(const TilingOperator&) = delete;

  // With autograd.
  at::Tensor Apply(const at::Tensor& x, Tape& tape) const;

  // An execution between Start and Wait; as Movement::Pending. The operator outlives it.
  class Pending {
   public:
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // What Apply would have returned. Once.
    at::Tensor Wait(Tape& tape);

   private:
    friend class TilingOperator;
    Pending(const TilingOperator* f, at::Tensor x, std::unique_ptr<Movement::Pending> execution)
        : f_(f), x_(std::move(x)), execution_(std::move(execution)) {}
    const TilingOperator* f_;
    at::Tensor x_;  // where nothing moves, until Wait
    std::unique_ptr<Movement::Pending> execution_;
  };

  // Apply in two halves, so that other work goes on while data moves; the rules are those of Movement::Start.
  std::unique_ptr<Pending> Start(const at::Tensor& x, Tape& tape) const;

  // The bare operator and its adjoint, without autograd. The adjoint's result is freshly owned.
  // All of these throw StatusException: kInvalidArgument for an undefined tensor or another shape or dtype than the
  // layout's (and fail this rank's communicator); else as Movement.
  at::Tensor Forward(const at::Tensor& x) const;
  at::Tensor Adjoint(const at::Tensor& y) const;

  const Layout& input_layout() const { return parts_.tiling.x(); }
  const Layout& output_layout() const { return parts_.tiling.y(); }
  bool moves() const { return parts_.tiling.moves(); }
  // What leaves this rank in one execution, as the transport counts it.
  int64_t BytesSent() const { return parts_.movement->forward_plan().BytesSent(); }
  int64_t AdjointBytesSent() const { return parts_.movement->adjoint_plan().BytesSent(); }

 protected:
  struct Parts {
    std::string what;  // "expand"
    Communicator* communicator;
    Tiling tiling;
    std::shared_ptr<Movement> movement;  // to what the rank reads; the identity where nothing moves
    bool differentiable;
  };

  // Errors: as Tiling::Create and Movement::Create; kInvalidArgument for a fill.
  static absl::StatusOr<Parts> Prepare(absl::string_view what, Communicator* communicator, const Layout& x,
                                       const Layout& y, Movement::Options options);
  explicit TilingOperator(Parts parts);

  // This rank's part of y, not empty, from what it reads; and the adjoint, whose result has the shape `read`.
  virtual at::Tensor Tile(const at::Tensor& x) const = 0;
  virtual at::Tensor TileAdjoint(const at::Tensor& y, const std::vector<int64_t>& read) const = 0;

  const Tiling& tiling() const { return parts_.tiling; }
  int rank() const { return parts_.communicator->rank(); }
  const std::vector<int64_t>& output_shape() const { return output_shape_; }  // this rank's

 private:
  at::Tensor TileAny(const at::Tensor& x) const;
  void Check(const at::Tensor& tensor, const std::vector<int64_t>& shape) const;
  // Fails this rank's communicator, since the others would wait for this rank, here or in what follows; and throws.
  [[noreturn]] void Fail(absl::Status status) const;

  Parts parts_;
  std::vector<int64_t> input_shape_;  // this rank's
  std::vector<int64_t> read_shape_;   // the shape of the cells that it reads
  std::vector<int64_t> output_shape_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TILING_OPERATOR_H_
