#include "layers/network/gradient_sync.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/kept_in_graph.h"
#include "layers/network/operators.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The columns of a bucket that are one gradient's, and its elements in row-major order. Its first rows are full; where
// the rows do not divide its elements, the others have one less.
struct Columns {
  Columns(const at::Tensor& bucket, int64_t first, int64_t elements)
      : rows(bucket.size(0)), full(elements % rows == 0 ? rows : elements % rows) {
    const int64_t width = BucketColumns(elements, rows);
    const at::Tensor all = bucket.narrow(1, first, width);
    upper = all.narrow(0, 0, full);
    lower = all.narrow(0, full, rows - full);
    filling = lower;
    if (full < rows) {
      lower = lower.narrow(1, 0, width - 1);
      filling = filling.narrow(1, width - 1, 1);
    }
  }

  void Take(const at::Tensor& flat) {
    upper.copy_(flat.narrow(0, 0, upper.numel()).view(upper.sizes()));
    if (full == rows) return;
    lower.copy_(flat.narrow(0, upper.numel(), lower.numel()).view(lower.sizes()));
    filling.zero_();
  }
  void Clear() {
    upper.zero_();
    if (full == rows) return;
    lower.zero_();
    filling.zero_();
  }
  void Give(const at::Tensor& flat) const {
    flat.narrow(0, 0, upper.numel()).view(upper.sizes()).copy_(upper);
    if (full < rows) flat.narrow(0, upper.numel(), lower.numel()).view(lower.sizes()).copy_(lower);
  }

  int64_t rows, full;
  at::Tensor upper, lower, filling;
};

}  // namespace

// token -> token'.
struct GradientSync::StartFunction : torch::autograd::Function<StartFunction> {
  struct Kept {
    GradientSync* sync;
    std::vector<int> sums;
  };
  static at::Tensor forward(AutogradContext* context, at::Tensor token, std::shared_ptr<Kept> kept) {
    KeepInGraph(context, std::move(kept));
    return at::empty_like(token);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Kept& kept = KeptInGraph<Kept>(context);
    for (const int sum : kept.sums) kept.sync->Start(sum);
    return {grads[0], at::Tensor()};
  }
};

GradientSync::GradientSync(Communicator* communicator, Parameters* parameters)
    : communicator_(communicator), parameters_(parameters), unused_(TensorDeviceOf(communicator->memory())) {}

absl::StatusOr<std::unique_ptr<GradientSync>> GradientSync::Create(const Plan& plan, Communicator* communicator,
                                                                   Parameters* parameters) {
  std::unique_ptr<GradientSync> sync(new GradientSync(communicator, parameters));
  sync->one_at_a_time_ = plan.spec().compare_executions();
  ADJOIN_ASSIGN_OR_RETURN(std::vector<GradientSum> sums, GradientSums(plan));
  for (GradientSum& planned : sums) {
    Sum& sum = sync->sums_.emplace_back();
    ADJOIN_ASSIGN_OR_RETURN(sum.movement, CreateMovement(planned.movement, communicator));
    for (const int parameter : planned.parameters) {
      const at::Tensor& tensor = parameters->tensor(parameter);
      sum.columns += BucketColumns(tensor.numel(), planned.rows);
      sum.bytes += static_cast<int64_t>(tensor.nbytes());
    }
    sync->bytes_per_step_ += sum.movement->forward_plan().BytesSent();
    sum.plan = std::move(planned);
  }
  return sync;
}

at::Tensor GradientSync::Packed(const Sum& sum) const {
  const auto grad_of = [this](int parameter) { return parameters_->tensor(parameter).grad(); };
  const at::Tensor& first = parameters_->tensor(sum.plan.parameters[0]);
  if (sum.plan.parameters.size() == 1) {
    const at::Tensor grad = grad_of(sum.plan.parameters[0]);
    return grad.defined() ? grad.detach() : at::zeros_like(first);
  }
  at::Tensor bucket = at::empty({sum.plan.rows, sum.columns}, first.options().requires_grad(false));
  int64_t column = 0;
  for (const int parameter : sum.plan.parameters) {
    const int64_t elements = parameters_->tensor(parameter).numel();
    if (elements == 0) continue;
    const at::Tensor grad = grad_of(parameter);
    Columns columns(bucket, column, elements);
    if (grad.defined()) {
      columns.Take(grad.reshape({-1}));
    } else {
      columns.Clear();
    }
    column += BucketColumns(elements, sum.plan.rows);
  }
  return bucket.view({-1});
}

void GradientSync::Unpack(const Sum& sum, const at::Tensor& result) {
  if (sum.plan.parameters.size() == 1) {
    at::Tensor(parameters_->tensor(sum.plan.parameters[0])).mutable_grad() = result;
    return;
  }
  const at::Tensor bucket = result.view({sum.plan.rows, sum.columns});
  int64_t column = 0;
  for (const int parameter : sum.plan.parameters) {
    at::Tensor tensor = parameters_->tensor(parameter);
    const int64_t elements = tensor.numel();
    at::Tensor grad = at::empty({elements}, tensor.options().requires_grad(false));
    if (elements > 0) Columns(bucket, column, elements).Give(grad);
    tensor.mutable_grad() = grad.view(tensor.sizes());
    column += BucketColumns(elements, sum.plan.rows);
  }
}

void GradientSync::Start(int index) {
  const at::NoGradGuard no_grad;
  Sum& sum = sums_[index];
  if (sum.progress != Progress::kNotStarted) {
    absl::Status refused = absl::FailedPreconditionError(
        absl::StrCat(sum.plan.movement.name(), ": a second backward pass starts this sum of gradients before Sync"));
    communicator_->Abort(refused);  // the others would wait for this rank
    throw StatusException(std::move(refused));
  }
  // A wait here is none for a rank that is behind: what a sum needs of the others, they have started before they come
  // to this place themselves.
  while (!in_flight_.empty() && bytes_in_flight_ + sum.bytes > kMostSumsInFlight) FinishFirst();
  sum.pending = sum.movement->Start(Packed(sum), unused_);
  sum.progress = Progress::kInFlight;
  in_flight_.push_back(index);
  bytes_in_flight_ += sum.bytes;
  if (one_at_a_time_) FinishFirst();
}

void GradientSync::FinishFirst() {
  Sum& sum = sums_[in_flight_.front()];
  in_flight_.pop_front();
  bytes_in_flight_ -= sum.bytes;
  const std::unique_ptr<Movement::Pending> pending = std::move(sum.pending);
  Unpack(sum, pending->Wait(unused_));
  sum.progress = Progress::kDone;
}

absl::Status GradientSync::Sync() {
  const at::NoGradGuard no_grad;
  try {
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].progress == Progress::kNotStarted) Start(static_cast<int>(i));
    }
    while (!in_flight_.empty()) FinishFirst();
    for (Sum& sum : sums_) sum.progress = Progress::kNotStarted;
    for (int i = 0; i < parameters_->size(); ++i) {
      if (parameters_->frozen(i)) continue;
      at::Tensor parameter = parameters_->tensor(i);
      at::Tensor& grad = parameter.mutable_grad();
      if (!grad.defined()) grad = at::zeros_like(parameter);
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
  return absl::OkStatus();
}

std::vector<std::vector<int>> GradientSync::CompleteAt(const ProgramPlan& program) const {
  std::vector<GradientSum> plans;
  for (const Sum& sum : sums_) plans.push_back(sum.plan);
  return SumsCompleteAt(plans, program);
}

void GradientSync::StartInBackward(const std::vector<int>& sums, Tape& tape) {
  auto kept = std::make_shared<StartFunction::Kept>();
  kept->sync = this;
  kept->sums = sums;
  tape.Advance(StartFunction::apply(tape.token(), std::move(kept)));
}

}  // namespace adjoin
