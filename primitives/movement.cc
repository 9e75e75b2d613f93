#include "primitives/movement.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/movement_execution.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/fingerprint.h"
#include "primitives/geometry/layout.h"
#include "primitives/moved_tensor.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"
#include "primitives/torch_dtype.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

constexpr int64_t kIdsOfGradientOfExtreme = 2;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Lets a node of the graph own the movement.
struct MovementHolder : torch::CustomClassHolder {
  explicit MovementHolder(std::shared_ptr<Movement> held) : movement(std::move(held)) {}
  std::shared_ptr<Movement> movement;
};

// Names what a node of the graph executes. The backward of the first two is the adjoint, and that of the adjoint the
// second.
enum class Executes : int64_t { kForward, kLinear, kAdjoint };

// (x, token) -> (y, token'). Its backward is the same function with the dual operator, recorded again where a graph of
// the gradient is wanted. Missing gradients arrive as zeros.
struct MovementFunction : torch::autograd::Function<MovementFunction> {
  static variable_list forward(AutogradContext* context, at::Tensor x, at::Tensor token,
                               std::shared_ptr<Movement> movement, Executes executes) {
    at::Tensor y = executes == Executes::kForward  ? movement->Forward(x)
                   : executes == Executes::kLinear ? movement->Linear(x)
                                                   : movement->Adjoint(x);
    context->saved_data["movement"] =
        c10::IValue::make_capsule(c10::make_intrusive<MovementHolder>(std::move(movement)));
    context->saved_data["executes"] = static_cast<int64_t>(executes);
    return {y, at::empty_like(token)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["movement"].toCapsule();
    const std::shared_ptr<Movement> movement = static_cast<MovementHolder*>(capsule.get())->movement;
    const bool adjoint = static_cast<Executes>(context->saved_data["executes"].toInt()) == Executes::kAdjoint;
    variable_list results = apply(grads[0], grads[1], movement, adjoint ? Executes::kLinear : Executes::kAdjoint);
    return {results[0], results[1], at::Tensor(), at::Tensor()};
  }
};

std::string NameOf(const Movement::Options& options) { return OperatorText(options.id, options.name); }

absl::Status CheckInput(const at::Tensor& x, const MovementPlan& plan, c10::Device device,
                        const Movement::Options& options) {
  const std::vector<int64_t>& shape = plan.direct().from_shape();
  const c10::ScalarType type = ScalarTypeOf(plan.dtype());
  const bool dense = x.defined() && x.device() == device && x.layout() == at::kStrided;
  if (dense && x.scalar_type() == type && x.sizes() == at::IntArrayRef(shape)) return absl::OkStatus();
  const std::string who = NameOf(options);
  const std::string expected = absl::StrCat(who, ", rank ", plan.rank(), ": expected ", TensorText(type, shape));
  if (!x.defined()) return absl::InvalidArgumentError(absl::StrCat(expected, ", got an undefined tensor"));
  if (x.scalar_type() != type || x.sizes() != at::IntArrayRef(shape)) {
    return absl::InvalidArgumentError(absl::StrCat(expected, ", got ", TensorText(x.scalar_type(), x.sizes())));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(expected, " as a dense tensor on ", device.is_cpu() ? "the CPU" : device.str(), ", got one on ",
                   x.device().str(), x.layout() == at::kStrided ? "" : " that is not dense"));
}

// True where the destination has on every rank the cells that the source has there, and nothing but partials is
// reduced.
bool KeepsCells(const Distribution& from, const Distribution& to) {
  if (from.mesh() != to.mesh()) return false;
  for (int axis = 0; axis < from.mesh().axes(); ++axis) {
    const Placement& source = from.placements()[axis];
    const Placement& dest = to.placements()[axis];
    const bool reduced = source.kind == Placement::Kind::kPartial && dest.kind == Placement::Kind::kBroadcast;
    if (!reduced && source != dest) return false;
  }
  for (int64_t position = 0; position < from.mesh().size(); ++position) {
    if (!(from.ViewAt(position) == to.ViewAt(position))) return false;
  }
  return true;
}

absl::Status CheckCreate(const Distribution& from, const Movement::Options& options) {
  const int64_t more = options.differentiable && ReduceOf(from) != ReduceOp::kSum ? kIdsOfGradientOfExtreme : 0;
  if (options.id < 1 || options.id + more > kLargestOperator) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(options), ": the id is not in [1, ", kLargestOperator - more, "]"));
  }
  if (options.differentiable && !IsFloatingPoint(from.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(options), ": ", ToString(from.dtype()), " has no gradient; set differentiable = false"));
  }
  return absl::OkStatus();
}

absl::Status CheckSendsAhead(const Distribution& from, const Distribution& to, const Movement::Options& options) {
  const std::vector<int>& ranks = from.mesh().ranks();
  const auto both = std::find_if(ranks.begin(), ranks.end(), [&to](int rank) { return to.mesh().Has(rank); });
  if (both == ranks.end() && ReduceOf(from) == ReduceOp::kSum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(options), ": sends_ahead, though ",
                   both == ranks.end() ? "it is a maximum or minimum"
                                       : absl::StrCat("rank ", *both, " is one of the sources and of the destinations"),
                   "; right would be sends_ahead = false"));
}

absl::Status WithName(const absl::Status& status, const Movement::Options& options) {
  return absl::Status(status.code(), absl::StrCat(NameOf(options), ": ", status.message()));
}

}  // namespace

Movement::Movement(Communicator* communicator, Options options, MovementPlan forward, MovementPlan adjoint,
                   const std::vector<Piece>& covered)
    : communicator_(communicator),
      options_(std::move(options)),
      device_(TensorDeviceOf(communicator->memory())),
      forward_(std::move(forward)),
      adjoint_(std::move(adjoint)),
      executions_{{options_.id, options_.name, Direction::kForward}, {options_.id, options_.name, Direction::kAdjoint}},
      forward_initial_(forward_, options_.fill, covered),
      linear_initial_(forward_, /*background=*/0, covered),
      adjoint_initial_(adjoint_, /*background=*/0, {}) {}

absl::StatusOr<std::shared_ptr<Movement>> Movement::Create(Communicator* communicator, const Distribution& from,
                                                           const Distribution& to, Options options) {
  ADJOIN_RETURN_IF_ERROR(CheckCreate(from, options));
  for (const Distribution* side : {&from, &to}) {
    for (int rank : side->mesh().ranks()) {
      if (rank < communicator->size()) continue;
      return absl::InvalidArgumentError(absl::StrCat(NameOf(options), ": rank ", rank, " of mesh ",
                                                     side->mesh().ToString(), " is not one of the communicator's ",
                                                     communicator->size(), " ranks"));
    }
  }
  if (options.sends_ahead) ADJOIN_RETURN_IF_ERROR(CheckSendsAhead(from, to, options));
  absl::StatusOr<MovementPlan> plan = MovementPlan::Build(from, to, communicator->rank(), options.algorithms);
  if (!plan.ok()) return WithName(plan.status(), options);
  // With `plan`'s own reduction: every destination that a partial went to has the same value for it.
  MovementPlan adjoint = plan->Reversed().With(plan->reduce(), plan->dtype());
  std::shared_ptr<Movement> movement(new Movement(communicator, std::move(options), *std::move(plan),
                                                  std::move(adjoint), to.View(communicator->rank()).pieces));
  movement->Identify(FingerprintOf(from, to),
                     absl::StrCat(ToString(from.dtype()), " [", absl::StrJoin(from.global_shape(), ", "), "]"));
  if (movement->options_.sends_ahead) movement->SendAhead(from.mesh(), to.mesh());
  if (movement->IsExtreme() && movement->options_.differentiable) {
    movement->PrepareGradientOfExtreme(KeepsCells(from, to));
  }
  return movement;
}

void Movement::Identify(uint64_t fingerprint, const std::string& what) {
  for (Execution& execution : executions_) {
    execution.fingerprint = fingerprint;
    execution.what = what;
  }
}

void Movement::SendAhead(const Mesh& from, const Mesh& to) {
  executions_[0].sends_ahead = from.Has(communicator_->rank());
  executions_[1].sends_ahead = to.Has(communicator_->rank());
}

void Movement::PrepareGradientOfExtreme(bool in_place) {
  const auto sum = [&](int64_t id, const char* what, DType dtype, double fill) {
    Options options{id, absl::StrCat(options_.name, what), fill, IsFloatingPoint(dtype)};
    MovementPlan forward = forward_.With(ReduceOp::kSum, dtype);
    MovementPlan adjoint = forward.Reversed();
    std::shared_ptr<Movement> made(
        new Movement(communicator_, std::move(options), std::move(forward), std::move(adjoint), {}));
    made->Identify(executions_[0].fingerprint, executions_[0].what);
    return made;
  };
  extreme_.sum = sum(options_.id + 1, " gradient", forward_.dtype(), 0);
  // 1 where there is nothing to count: cells that take no part divide by it.
  extreme_.ties = sum(options_.id + 2, " ties", DType::kInt32, 1);
  extreme_.in_place = in_place;
}

void Movement::Fail(absl::Status status) {
  communicator_->Abort(status);
  throw StatusException(std::move(status));
}

at::Tensor Movement::SourceOf(const at::Tensor& x, Direction direction) {
  if (absl::Status input = CheckInput(x, PlanOf(direction), device_, options_); !input.ok()) Fail(std::move(input));
  // Autograd's zeros, as in the second derivative of |x|, may have no memory at all.
  if (x._is_zerotensor()) return at::zeros(x.sizes(), x.options());
  // Autograd may make a gradient a leaf's .grad, and add to that in place, before what is sent ahead has been read.
  if (direction == Direction::kAdjoint && ExecutionOf(direction).sends_ahead) {
    return x.detach().resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
  }
  if (x.is_contiguous() && !x.is_conj() && !x.is_neg()) return x;
  // A lazily conjugated or negated tensor has other bits than its memory.
  return x.detach().resolve_conj().resolve_neg().contiguous();
}

void Movement::RefuseIfInFlight(Direction direction) {
  const Counts& counts = CountsOf(direction);
  if (counts.started == counts.waited) return;
  Fail(absl::FailedPreconditionError(absl::StrCat(NameOf(options_), ", rank ", communicator_->rank(),
                                                  ": applied while one that was started is not waited for")));
}

at::Tensor Movement::Run(const at::Tensor& x, Direction direction, bool linear) {
  const at::NoGradGuard no_grad;
  const at::Tensor source = SourceOf(x, direction);
  RefuseIfInFlight(direction);
  at::Tensor result = NewResult(direction, linear);
  const MemoryKind kind = communicator_->memory().kind();
  ThrowIfError(communicator_->Execute(ExecutionOf(direction), PlanOf(direction), TensorBuffer(source, kind),
                                      TensorBuffer(result, kind)));
  return result;
}

at::Tensor Movement::Forward(const at::Tensor& x) { return Run(x, Direction::kForward, /*linear=*/false); }
at::Tensor Movement::Linear(const at::Tensor& x) { return Run(x, Direction::kForward, /*linear=*/true); }

at::Tensor Movement::Adjoint(const at::Tensor& y) {
  if (IsExtreme()) {
    Fail(absl::FailedPreconditionError(absl::StrCat(
        NameOf(options_), ", rank ", communicator_->rank(), ": a movement from ",
        Placement::Partial(forward_.reduce()).ToString(), " has no adjoint: its gradient depends on its source")));
  }
  return Run(y, Direction::kAdjoint, /*linear=*/true);
}

// One execution, from its start to its wait.
class TensorExecution {
 public:
  // `linear`: forward without fill.
  TensorExecution(std::shared_ptr<Movement> movement, Direction direction, bool linear)
      : movement_(std::move(movement)), direction_(direction), linear_(linear) {}
  ~TensorExecution() { Drop(); }
  TensorExecution(const TensorExecution&) = delete;
  TensorExecution& operator=(const TensorExecution&) = delete;

  // `recorded`: a backward pass may follow.
  void Start(const at::Tensor& x, bool recorded);
  at::Tensor Wait();
  // Gives up an execution that will not be waited for.
  void Drop();

  // What the backward pass executes, not started: the adjoint, of a maximum or minimum that of the sum.
  std::shared_ptr<TensorExecution> Opposite() const {
    return std::make_shared<TensorExecution>(
        mask_.defined() ? movement_->extreme_.sum : movement_,
        direction_ == Direction::kForward ? Direction::kAdjoint : Direction::kForward, /*linear=*/true);
  }
  // The factors of the gradient before and after that: of a maximum or minimum, each tied partial gets its share.
  at::Tensor ShareOf(const at::Tensor& grad) const { return mask_.defined() ? grad / ties_ : grad; }
  at::Tensor Masked(const at::Tensor& grad) const { return mask_.defined() ? grad * mask_ : grad; }
  // Between the backward of this one's wait and that of its start.
  void KeepReverse(std::shared_ptr<TensorExecution> reverse) { reverse_ = std::move(reverse); }
  std::shared_ptr<TensorExecution> TakeReverse() {
    if (reverse_ == nullptr) Refuse("the backward of its start comes before that of its wait");
    return std::move(reverse_);
  }
  [[noreturn]] void Refuse(const char* why) {
    movement_->Fail(absl::FailedPreconditionError(absl::StrCat(Text(), why)));
  }

 private:
  std::string Text() const {
    return absl::StrCat(NameOf(movement_->options_), direction_ == Direction::kForward ? " forward" : " adjoint",
                        ", rank ", movement_->communicator_->rank(), ": ");
  }

  void FindTies(const at::Tensor& y);

  std::shared_ptr<Movement> movement_;
  Direction direction_;
  bool linear_;
  int64_t number_ = 0;
  std::unique_ptr<MovementExecution> pending_;
  at::Tensor result_;  // until Wait: the graph, which holds this, must not hold itself
  std::shared_ptr<TensorExecution> reverse_;
  // Set for a maximum or minimum whose gradient may be wanted:
  at::Tensor source_;  // until Wait
  at::Tensor mask_;    // for each cell of the source: it is the one chosen
  at::Tensor ties_;    // for each cell of the destination: the number of partials with its value
};

void TensorExecution::Start(const at::Tensor& x, bool recorded) {
  const at::NoGradGuard no_grad;
  const at::Tensor source = movement_->SourceOf(x, direction_);
  Movement::Counts& counts = movement_->CountsOf(direction_);
  if (counts.started - counts.waited >= 2) Refuse("two executions are started and not waited for; wait for one first");
  result_ = movement_->NewResult(direction_, linear_);
  const MemoryKind kind = movement_->communicator_->memory().kind();
  absl::StatusOr<std::unique_ptr<MovementExecution>> pending =
      movement_->communicator_->Start(movement_->ExecutionOf(direction_), movement_->PlanOf(direction_),
                                      TensorBuffer(source, kind), TensorBuffer(result_, kind));
  ThrowIfError(pending.status());
  pending_ = *std::move(pending);
  if (recorded && movement_->extreme_.sum != nullptr) source_ = source.detach();
  number_ = counts.started++;
}

at::Tensor TensorExecution::Wait() {
  if (pending_ == nullptr) Refuse("waited for twice");
  Movement::Counts& counts = movement_->CountsOf(direction_);
  if (number_ != counts.waited) Refuse("an earlier execution was not waited for");
  ThrowIfError(movement_->communicator_->Wait(std::move(pending_)));
  ++counts.waited;
  if (source_.defined()) FindTies(result_);
  return std::move(result_);
}

void TensorExecution::FindTies(const at::Tensor& y) {
  const at::NoGradGuard no_grad;
  const Movement::Extreme& extreme = movement_->extreme_;
  mask_ = source_ == (extreme.in_place ? y : movement_->Run(y, Direction::kAdjoint, /*linear=*/true));
  source_ = at::Tensor();
  ties_ = extreme.ties->Forward(mask_.to(at::kInt)).to(y.scalar_type());
}

void TensorExecution::Drop() {
  if (pending_ == nullptr) return;
  movement_->communicator_->Abort(
      absl::FailedPreconditionError(absl::StrCat(Text(), "started, and dropped without Wait")));
  pending_.reset();
}

namespace {

// Lets a node of the graph own the execution.
struct ExecutionHolder : torch::CustomClassHolder {
  explicit ExecutionHolder(std::shared_ptr<TensorExecution> held) : execution(std::move(held)) {}
  std::shared_ptr<TensorExecution> execution;
};

void SaveExecution(AutogradContext* context, std::shared_ptr<TensorExecution> execution) {
  context->saved_data["execution"] =
      c10::IValue::make_capsule(c10::make_intrusive<ExecutionHolder>(std::move(execution)));
}

std::shared_ptr<TensorExecution> SavedExecution(AutogradContext* context) {
  const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["execution"].toCapsule();
  return static_cast<ExecutionHolder*>(capsule.get())->execution;
}

// (x, token) -> (link, token') and (link, token) -> (y, token'). The link is empty: it makes Wait's node one that
// Start's needs, and so in the backward, where the two are exchanged, the other way round.
struct StartFunction : torch::autograd::Function<StartFunction> {
  static variable_list forward(AutogradContext* context, at::Tensor x, at::Tensor token,
                               std::shared_ptr<TensorExecution> execution) {
    execution->Start(x, /*recorded=*/true);
    SaveExecution(context, std::move(execution));
    return {at::empty_like(token), at::empty_like(token)};
  }
  static variable_list backward(AutogradContext* context, variable_list grads);
};

struct WaitFunction : torch::autograd::Function<WaitFunction> {
  static variable_list forward(AutogradContext* context, at::Tensor, at::Tensor token,
                               std::shared_ptr<TensorExecution> execution) {
    at::Tensor y = execution->Wait();
    SaveExecution(context, std::move(execution));
    return {y, at::empty_like(token)};
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const std::shared_ptr<TensorExecution> execution = SavedExecution(context);
    std::shared_ptr<TensorExecution> reverse = execution->Opposite();
    variable_list results = StartFunction::apply(execution->ShareOf(grads[0]), grads[1], reverse);
    execution->KeepReverse(std::move(reverse));
    return {results[0], results[1], at::Tensor()};
  }
};

variable_list StartFunction::backward(AutogradContext* context, variable_list grads) {
  const std::shared_ptr<TensorExecution> execution = SavedExecution(context);
  variable_list results = WaitFunction::apply(grads[0], grads[1], execution->TakeReverse());
  return {execution->Masked(results[0]), results[1], at::Tensor()};
}

}  // namespace

std::unique_ptr<Movement::Pending> Movement::Start(const at::Tensor& x, Tape& tape) {
  auto execution = std::make_shared<TensorExecution>(shared_from_this(), Direction::kForward, /*linear=*/false);
  // Autograd cannot take an undefined input; the execution reports what is wrong with it.
  if (!options_.differentiable || !at::GradMode::is_enabled() || !x.defined()) {
    execution->Start(x, /*recorded=*/false);
    return std::unique_ptr<Pending>(new Pending(std::move(execution), at::Tensor()));
  }
  variable_list results = StartFunction::apply(x, tape.token(), execution);
  tape.Advance(results[1]);
  return std::unique_ptr<Pending>(new Pending(std::move(execution), results[0]));
}

at::Tensor Movement::Pending::Wait(Tape& tape) {
  if (!link_.defined()) return execution_->Wait();
  if (!at::GradMode::is_enabled()) execution_->Refuse("started with gradients, waited for without");
  variable_list results = WaitFunction::apply(std::exchange(link_, at::Tensor()), tape.token(), execution_);
  tape.Advance(results[1]);
  return results[0];
}

Movement::Pending::~Pending() { execution_->Drop(); }

at::Tensor Movement::Apply(const at::Tensor& x, Tape& tape) {
  if (!options_.differentiable || !at::GradMode::is_enabled()) return Forward(x);
  // Autograd cannot take an undefined input; Forward says what is wrong with it.
  if (!x.defined()) return Forward(x);
  if (IsExtreme()) {
    RefuseIfInFlight(Direction::kForward);
    return Start(x, tape)->Wait(tape);
  }
  variable_list results = MovementFunction::apply(x, tape.token(), shared_from_this(), Executes::kForward);
  tape.Advance(results[1]);
  return results[0];
}

}  // namespace adjoin
