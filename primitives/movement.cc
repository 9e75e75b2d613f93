#include "primitives/movement.h"

#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/status_exception.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Lets a node of the graph own the movement.
struct MovementHolder : torch::CustomClassHolder {
  explicit MovementHolder(std::shared_ptr<Movement> held) : movement(std::move(held)) {}
  std::shared_ptr<Movement> movement;
};

// (x, token) -> (y, token'). Its backward is the same function with the dual operator, recorded again where a graph of
// the gradient is wanted. Missing gradients arrive as zeros.
struct MovementFunction : torch::autograd::Function<MovementFunction> {
  static variable_list forward(AutogradContext* context, torch::Tensor x, torch::Tensor token,
                               std::shared_ptr<Movement> movement, bool adjoint) {
    torch::Tensor y = adjoint ? movement->Adjoint(x) : movement->Forward(x);
    context->saved_data["movement"] = c10::IValue::make_capsule(c10::make_intrusive<MovementHolder>(std::move(movement)));
    context->saved_data["adjoint"] = adjoint;
    return {y, torch::empty_like(token)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["movement"].toCapsule();
    const std::shared_ptr<Movement> movement = static_cast<MovementHolder*>(capsule.get())->movement;
    const bool adjoint = context->saved_data["adjoint"].toBool();
    variable_list results = apply(grads[0], grads[1], movement, !adjoint);
    return {results[0], results[1], torch::Tensor(), torch::Tensor()};
  }
};

Buffer BufferOf(const torch::Tensor& tensor) {
  Buffer buffer;
  buffer.data = tensor.data_ptr();
  buffer.bytes = tensor.nbytes();
  buffer.keepalive = std::make_shared<torch::Tensor>(tensor);
  return buffer;
}

std::string DescribeTensor(c10::ScalarType type, at::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(type) << " " << shape;
  return text.str();
}

std::string NameOf(const Movement::Options& options) {
  return absl::StrCat("operator ", options.id, options.name.empty() ? "" : absl::StrCat(" (", options.name, ")"));
}

absl::Status CheckInput(const torch::Tensor& x, const MovementPlan& plan, const std::string& who) {
  const std::vector<int64_t>& shape = plan.direct().from_shape();
  const c10::ScalarType type = ScalarTypeOf(plan.dtype());
  const std::string expected = absl::StrCat(who, ", rank ", plan.rank(), ": expected ", DescribeTensor(type, shape));
  if (!x.defined()) return absl::InvalidArgumentError(absl::StrCat(expected, ", got an undefined tensor"));
  if (x.scalar_type() != type || x.sizes() != at::IntArrayRef(shape)) {
    return absl::InvalidArgumentError(absl::StrCat(expected, ", got ", DescribeTensor(x.scalar_type(), x.sizes())));
  }
  if (!x.device().is_cpu() || x.layout() != torch::kStrided) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected, " as a dense tensor on the CPU, got one on ", x.device().str()));
  }
  return absl::OkStatus();
}

// Whether contributions reach every cell of this rank's destination, each just once.
bool WritesEverything(const MovementPlan& plan) {
  const ExchangeSchedule& direct = plan.direct();
  if (direct.accumulates()) return false;
  int64_t written = 0;
  for (const Transfer& transfer : direct.recvs()) written += transfer.elements;
  for (const CollectiveGroup& group : plan.groups()) {
    const bool root = group.ranks[0] == plan.rank();
    const bool gets = group.kind == CollectiveGroup::Kind::kBroadcast
                          ? !root || group.root_takes_part
                          : root || group.kind == CollectiveGroup::Kind::kAllSumReduce;
    if (gets) written += group.elements;
  }
  return written == VolumeOf(direct.to_shape());
}

absl::Status CheckCreate(const Distribution& from, const Distribution& to, const Movement::Options& options) {
  if (options.id < 1 || options.id > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(options), ": the id is not in [1, 65535]"));
  }
  if (options.differentiable && !IsFloatingPoint(from.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(options), ": ", ToString(from.dtype()),
                                                   " has no gradient; set differentiable = false"));
  }
  for (const Distribution* side : {&from, &to}) {
    for (const Placement& placement : side->placements()) {
      if (placement.kind == Placement::Kind::kPartial && placement.reduce != ReduceOp::kSum) {
        return absl::InvalidArgumentError(absl::StrCat(NameOf(options), ": a movement of ", placement.ToString(),
                                                       " is not a sum; only P(sum) is reduced here"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status WithName(const absl::Status& status, const Movement::Options& options) {
  return absl::Status(status.code(), absl::StrCat(NameOf(options), ": ", status.message()));
}

}  // namespace

Movement::Movement(Communicator* communicator, Options options, MovementPlan forward, MovementPlan adjoint)
    : communicator_(communicator),
      options_(std::move(options)),
      forward_(std::move(forward)),
      adjoint_(std::move(adjoint)) {}

absl::StatusOr<std::shared_ptr<Movement>> Movement::Create(Communicator* communicator, const Distribution& from,
                                                           const Distribution& to, Options options) {
  ADJOIN_RETURN_IF_ERROR(CheckCreate(from, to, options));
  for (const Distribution* side : {&from, &to}) {
    for (int rank : side->mesh().ranks()) {
      if (rank < communicator->size()) continue;
      return absl::InvalidArgumentError(absl::StrCat(NameOf(options), ": rank ", rank, " of mesh ",
                                                     side->mesh().ToString(), " is not one of the communicator's ",
                                                     communicator->size(), " ranks"));
    }
  }
  absl::StatusOr<MovementPlan> plan = MovementPlan::Build(from, to, communicator->rank());
  if (!plan.ok()) return WithName(plan.status(), options);
  MovementPlan adjoint = plan->Reversed();
  std::shared_ptr<Movement> movement(
      new Movement(communicator, std::move(options), *std::move(plan), std::move(adjoint)));
  movement->ChooseInitial(to.View(communicator->rank()));
  return movement;
}

void Movement::ChooseInitial(const LocalView& to) {
  if (WritesEverything(adjoint_)) adjoint_initial_ = Initial::kAnything;
  if (WritesEverything(forward_)) {
    forward_initial_ = Initial::kAnything;
  } else if (options_.fill != 0) {
    // Also cells that an index covers but no contribution reaches (B -> P) are zeros, not fill.
    forward_initial_ = to.pieces.empty() ? Initial::kFill : Initial::kFillAroundZeros;
    covered_ = to.pieces;
  }
}

torch::Tensor Movement::NewResult(Direction direction) const {
  const bool forward = direction == Direction::kForward;
  const MovementPlan& plan = forward ? forward_ : adjoint_;
  const auto options = torch::TensorOptions().dtype(ScalarTypeOf(plan.dtype()));
  const std::vector<int64_t>& shape = plan.direct().to_shape();
  switch (forward ? forward_initial_ : adjoint_initial_) {
    case Initial::kAnything: return torch::empty(shape, options);
    case Initial::kZeros: return torch::zeros(shape, options);
    case Initial::kFill: return torch::full(shape, options_.fill, options);
    case Initial::kFillAroundZeros: break;
  }
  torch::Tensor result = torch::full(shape, options_.fill, options);
  for (const Piece& piece : covered_) {
    torch::Tensor cells = result;
    for (int dim = 0; dim < piece.box.dims(); ++dim) cells = cells.narrow(dim, piece.at[dim], piece.box[dim].size());
    cells.zero_();
  }
  return result;
}

torch::Tensor Movement::Run(const torch::Tensor& x, Direction direction) {
  const torch::NoGradGuard no_grad;
  const MovementPlan& plan = direction == Direction::kForward ? forward_ : adjoint_;
  if (absl::Status input = CheckInput(x, plan, NameOf(options_)); !input.ok()) {
    communicator_->Abort(input);  // the others would wait for this rank
    throw StatusException(std::move(input));
  }
  // A lazily conjugated or negated tensor has other bits than its memory.
  const torch::Tensor source = x.detach().resolve_conj().resolve_neg().contiguous();
  torch::Tensor result = NewResult(direction);
  ThrowIfError(communicator_->Execute({options_.id, options_.name, direction}, plan, BufferOf(source),
                                      BufferOf(result)));
  return result;
}

torch::Tensor Movement::Forward(const torch::Tensor& x) { return Run(x, Direction::kForward); }
torch::Tensor Movement::Adjoint(const torch::Tensor& y) { return Run(y, Direction::kAdjoint); }

torch::Tensor Movement::Apply(const torch::Tensor& x, Tape& tape) {
  if (!options_.differentiable || !torch::GradMode::is_enabled()) return Forward(x);
  // Autograd cannot take an undefined input; Forward says what is wrong with it.
  if (!x.defined()) return Forward(x);
  variable_list results = MovementFunction::apply(x, tape.token(), shared_from_this(), false);
  tape.Advance(results[1]);
  return results[0];
}

}  // namespace adjoin
