#include "primitives/tiling_operator.h"

#include <sstream>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/comm/channel.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/status_exception.h"
#include "primitives/torch_dtype.h"

namespace adjoin {

absl::StatusOr<TilingOperator::Parts> TilingOperator::Prepare(absl::string_view what, Communicator* communicator,
                                                              const Layout& x, const Layout& y,
                                                              Movement::Options options) {
  const std::string who = absl::StrCat(OperatorText(options.id, options.name), ": ", what);
  if (options.fill != 0) {
    return absl::InvalidArgumentError(absl::StrCat(who, ": no cell is filled; leave fill at 0"));
  }
  options.differentiable = options.differentiable && IsFloatingPoint(x.dtype());
  const bool differentiable = options.differentiable;
  ADJOIN_ASSIGN_OR_RETURN(Tiling tiling, Tiling::Create(who, x, y));
  // Also where nothing moves: so a bad id, or a rank that does not exist, is refused whatever the layouts.
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Movement> movement,
                          Movement::Create(communicator, Distribution::Of(x), tiling.Needed(), std::move(options)));
  return Parts{who, communicator, std::move(tiling), std::move(movement), differentiable};
}

TilingOperator::TilingOperator(Parts parts)
    : parts_(std::move(parts)),
      input_shape_(input_layout().LocalShape(rank())),
      read_shape_(parts_.tiling.Needed().View(rank()).shape),
      output_shape_(output_layout().LocalShape(rank())) {}

void TilingOperator::Check(const at::Tensor& tensor, const std::vector<int64_t>& shape) const {
  const c10::ScalarType type = ScalarTypeOf(input_layout().dtype());
  if (tensor.defined() && tensor.scalar_type() == type && tensor.sizes() == at::IntArrayRef(shape)) return;
  std::ostringstream text;
  text << parts_.what << ", rank " << rank() << ": expected " << type << " " << at::IntArrayRef(shape) << ", got ";
  if (tensor.defined()) {
    text << tensor.scalar_type() << " " << tensor.sizes();
  } else {
    text << "an undefined tensor";
  }
  Fail(absl::InvalidArgumentError(text.str()));
}

void TilingOperator::Fail(absl::Status status) const {
  parts_.communicator->Abort(status);
  throw StatusException(std::move(status));
}

at::Tensor TilingOperator::TileAny(const at::Tensor& x) const {
  if (VolumeOf(output_shape_) > 0) return Tile(x);
  // No cells, but a node of the graph that leads to x, whose extents need not fit.
  return (x.dim() == 0 ? x.reshape({1}) : x).narrow(0, 0, 0).reshape(output_shape_);
}

at::Tensor TilingOperator::Apply(const at::Tensor& x, Tape& tape) const {
  Check(x, input_shape_);
  if (moves()) return TileAny(parts_.movement->Apply(x, tape));
  return TileAny(parts_.differentiable ? x : x.detach());
}

std::unique_ptr<TilingOperator::Pending> TilingOperator::Start(const at::Tensor& x, Tape& tape) const {
  Check(x, input_shape_);
  if (moves()) {
    return std::unique_ptr<Pending>(new Pending(this, at::Tensor(), parts_.movement->Start(x, tape)));
  }
  return std::unique_ptr<Pending>(new Pending(this, parts_.differentiable ? x : x.detach(), nullptr));
}

at::Tensor TilingOperator::Pending::Wait(Tape& tape) {
  if (execution_ != nullptr) return f_->TileAny(execution_->Wait(tape));
  if (!x_.defined()) {
    f_->Fail(absl::FailedPreconditionError(absl::StrCat(f_->parts_.what, ", rank ", f_->rank(), ": waited for twice")));
  }
  return f_->TileAny(std::exchange(x_, at::Tensor()));
}

at::Tensor TilingOperator::Forward(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  Check(x, input_shape_);
  return TileAny(moves() ? parts_.movement->Forward(x) : x.detach());
}

at::Tensor TilingOperator::Adjoint(const at::Tensor& y) const {
  const at::NoGradGuard no_grad;
  Check(y, output_shape_);
  const at::Tensor read =
      VolumeOf(output_shape_) > 0 ? TileAdjoint(y.detach(), read_shape_) : at::zeros(read_shape_, y.options());
  return moves() ? parts_.movement->Adjoint(read) : read;
}

}  // namespace adjoin
