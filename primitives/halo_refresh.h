// HaloRefresh: brings neighbours' cells into the ring of a padded tensor that the caller keeps, in place.
//
//   auto halo = *HaloRefresh::Create(&communicator, x_layout, {{2, {.lo = 1, .hi = 1}}, {3, {.lo = 1, .hi = 1}}},
//                                    {.id = 1, .name = "field"});
//   at::Tensor padded = halo->NewPadded();      // zeros
//   halo->InteriorOf(padded).copy_(x);          // this rank's part
//   halo->Refresh(padded);                      // once per step, as often as the interior has changed
//
// HaloExchange copies the part into a fresh padded tensor; this sends the edges of the interior and receives into the
// ring. The operator on padded tensors: the interior stays, cells of the ring that have an index get their owners'
// values, corners included, and cells outside of the tensor (boundary zeros) stay as the caller set them. Its adjoint
// adds what belongs to the ring's cells onto their owners' edges, and leaves zeros there. Where what has an index is
// said in geometry/kept_halo.h.
//
// Shapes: all tensors are this rank's padded ones, halo().PaddedShape(rank). They are on the communicator's device and
// may be strided: Refresh then goes through a contiguous tensor that the operator keeps, by the edges alone. Every rank
// of the layout calls the same operators in the same order. After an error the ring's values are undefined.
//
// Errors at creation are an absl::Status, later ones StatusException (status_exception.h); these fail the communicator,
// since the others would wait for this rank. One thread, as Movement.
#ifndef ADJOIN_PRIMITIVES_HALO_REFRESH_H_
#define ADJOIN_PRIMITIVES_HALO_REFRESH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/kept_halo.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/tape.h"

namespace adjoin {

class HaloRefresh : public std::enable_shared_from_this<HaloRefresh> {
 public:
  struct Options {
    int64_t id = 0;              // as Movement::Options::id; it takes one
    std::string name;            // for messages: "field"
    bool differentiable = true;  // false: no gradient, any type
  };

  // `communicator` outlives the operator and every graph that holds it.
  // Errors: as KeptHalo::Create; kInvalidArgument for an id out of range, a mesh with a rank that the communicator does
  // not have, a layout with P(max) or P(min), a differentiable operator of integers or bools.
  static absl::StatusOr<std::shared_ptr<HaloRefresh>> Create(Communicator* communicator, const Layout& x,
                                                             const std::map<int, HaloWidth>& widths, Options options);

  // A padded tensor of zeros.
  at::Tensor NewPadded() const;
  // The view of this rank's part in a padded tensor.
  at::Tensor InteriorOf(const at::Tensor& padded) const;

  // In place, without autograd, which sees it as it sees any change of a tensor (it counts as a version). Collective.
  // No tensor is made where `padded` is contiguous. Throws kInvalidArgument for an undefined tensor or another shape,
  // type or device; one whose elements share memory or are lazily conjugated or negated; one that requires a gradient,
  // while gradients are enabled.
  void Refresh(const at::Tensor& padded);
  // In place, with autograd on the tape: `padded` has from now on this operator's history. Without gradients it is
  // Refresh. What was computed of `padded` before and needs its values in a backward pass fails there, as after any
  // change in place: use Apply. Throws, before anything is sent, as Refresh; kInvalidArgument for a leaf that requires
  // a gradient (copy it first) and for a view (refresh its base).
  void ApplyInPlace(at::Tensor& padded, Tape& tape);
  // A fresh, refreshed copy, with autograd on the tape; `padded` is not changed. It can be differentiated again, as
  // ApplyInPlace.
  at::Tensor Apply(const at::Tensor& padded, Tape& tape);

  // The bare operator as a copy, and its adjoint, which returns a fresh tensor. Collective. Throw: as Refresh.
  at::Tensor Forward(const at::Tensor& padded);
  at::Tensor Adjoint(const at::Tensor& y);

  const KeptHalo& halo() const { return halo_; }
  const Options& options() const { return options_; }
  // What leaves this rank in one Refresh, and in an Adjoint, as the transport counts it.
  int64_t BytesSent() const { return refresh_.BytesSent(); }
  int64_t AdjointBytesSent() const { return adjoint_.BytesSent(); }

 private:
  HaloRefresh(Communicator* communicator, Options options, KeptHalo halo, MovementPlan refresh, MovementPlan adjoint);

  absl::Status CheckPadded(const at::Tensor& padded) const;
  absl::Status CheckWritten(const at::Tensor& padded) const;
  // Refreshes what was checked; `count_version`: where autograd does not count it.
  void RefreshChecked(const at::Tensor& padded, bool count_version);
  void RefreshStrided(const at::Tensor& padded);
  void Execute(const Execution& execution, const MovementPlan& plan, const at::Tensor& from, const at::Tensor& onto);
  // Fails this rank's communicator, and throws.
  [[noreturn]] void Fail(absl::Status status);
  std::string Who() const;

  friend struct HaloRefreshFunction;

  Communicator* communicator_;
  Options options_;
  KeptHalo halo_;
  c10::Device device_;
  std::vector<int64_t> shape_;   // of this rank's padded tensor
  std::vector<Region> outside_;  // its cells without an index
  MovementPlan refresh_;         // from interiors to rings, of one tensor
  MovementPlan adjoint_;         // from padded tensors to interiors, of two
  Execution executions_[2];      // forward, adjoint
  at::Tensor contiguous_;        // for strided ones; made when it is first needed
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_HALO_REFRESH_H_
