// SendReceive: a tensor from one rank to another.
//
//   auto send = *SendReceive::Create(&communicator, Layout::Owner({10}, dtype, 0), Layout::Owner({10}, dtype, 2),
//                                    {.id = 11, .name = "h"});
//   at::Tensor y = send->Apply(x, tape);               // a copy: rank 0 keeps x
//   at::Tensor z = SendReceive::Move(*send, x, tape);  // a move: rank 0's x is cleared
//
// After a copy, the gradient that comes back is added to that of rank 0's own uses of x. A move gives x's memory up:
// its gradient is what comes back alone, the adjoint is the move in the other direction. Ranks that are neither pass
// and get an empty tensor.
#ifndef ADJOIN_PRIMITIVES_SEND_RECEIVE_H_
#define ADJOIN_PRIMITIVES_SEND_RECEIVE_H_

#include <memory>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"
#include "primitives/tape.h"

namespace adjoin {

struct SendReceive {
  // Errors: kInvalidArgument where x or y is not on one rank; as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);

  // Applies `movement`, which Create made, and clears `x` in place on the source's rank, under autograd: later uses of
  // `x` there see zeros, and no gradient flows through them to what x was before.
  // Throws StatusException: as Movement::Apply; kInvalidArgument for an `x` that autograd does not let anybody
  // overwrite (a leaf that requires grad, or a view of one). Then it was sent nevertheless, so that the receiver does
  // not wait.
  static at::Tensor Move(Movement& movement, at::Tensor& x, Tape& tape);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_SEND_RECEIVE_H_
