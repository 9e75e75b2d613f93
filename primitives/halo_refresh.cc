#include "primitives/halo_refresh.h"

#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/comm/channel.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/fingerprint.h"
#include "primitives/moved_tensor.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"
#include "primitives/torch_dtype.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Lets a node of the graph own the operator.
struct HaloRefreshHolder : torch::CustomClassHolder {
  explicit HaloRefreshHolder(std::shared_ptr<HaloRefresh> held) : halo(std::move(held)) {}
  std::shared_ptr<HaloRefresh> halo;
};

// Names what a node of the graph executes. The backward of the first two is the adjoint, and that of the adjoint the
// second.
enum class Refreshes : int64_t { kInPlace, kCopy, kAdjoint };

at::Tensor CellsIn(at::Tensor tensor, const Region& region) {
  for (std::size_t d = 0; d < region.at.size(); ++d) {
    tensor = tensor.narrow(static_cast<int64_t>(d), region.at[d], region.size[d]);
  }
  return tensor;
}

void CopyCells(const std::vector<Transfer>& transfers, const at::Tensor& from, const at::Tensor& onto) {
  for (const Transfer& transfer : transfers) {
    for (const Region& region : transfer.regions) CellsIn(onto, region).copy_(CellsIn(from, region));
  }
}

absl::Status CheckCreate(const Communicator& communicator, const Layout& x, const HaloRefresh::Options& options) {
  if (options.id < 1 || options.id > kLargestOperator) {
    return absl::InvalidArgumentError(absl::StrCat("the id is not in [1, ", kLargestOperator, "]"));
  }
  if (options.differentiable && !IsFloatingPoint(x.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(x.dtype()), " has no gradient; set differentiable = false"));
  }
  for (const int rank : x.mesh().ranks()) {
    if (rank < communicator.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of mesh ", x.mesh().ToString(),
                                                   " is not one of the communicator's ", communicator.size(),
                                                   " ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

// (padded, token) -> (padded or y, token'). Its backward is the same function with the dual operator, recorded again
// where a graph of the gradient is wanted. Missing gradients arrive as zeros.
struct HaloRefreshFunction : torch::autograd::Function<HaloRefreshFunction> {
  static variable_list forward(AutogradContext* context, at::Tensor x, at::Tensor token,
                               std::shared_ptr<HaloRefresh> halo, Refreshes refreshes) {
    at::Tensor y = x;
    if (refreshes == Refreshes::kInPlace) {
      halo->RefreshChecked(x, /*count_version=*/false);  // autograd counts it, for mark_dirty
      context->mark_dirty({x});
    } else {
      y = refreshes == Refreshes::kCopy ? halo->Forward(x) : halo->Adjoint(x);
    }
    context->saved_data["halo"] = c10::IValue::make_capsule(c10::make_intrusive<HaloRefreshHolder>(std::move(halo)));
    context->saved_data["refreshes"] = static_cast<int64_t>(refreshes);
    return {y, at::empty_like(token)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["halo"].toCapsule();
    const std::shared_ptr<HaloRefresh> halo = static_cast<HaloRefreshHolder*>(capsule.get())->halo;
    const bool adjoint = static_cast<Refreshes>(context->saved_data["refreshes"].toInt()) == Refreshes::kAdjoint;
    variable_list results = apply(grads[0], grads[1], halo, adjoint ? Refreshes::kCopy : Refreshes::kAdjoint);
    return {results[0], results[1], at::Tensor(), at::Tensor()};
  }
};

HaloRefresh::HaloRefresh(Communicator* communicator, Options options, KeptHalo halo, MovementPlan refresh,
                         MovementPlan adjoint)
    : communicator_(communicator),
      options_(std::move(options)),
      halo_(std::move(halo)),
      device_(TensorDeviceOf(communicator->memory())),
      shape_(halo_.PaddedShape(communicator->rank())),
      outside_(halo_.OutsideOf(communicator->rank())),
      refresh_(std::move(refresh)),
      adjoint_(std::move(adjoint)),
      executions_{{options_.id, options_.name, Direction::kForward},
                  {options_.id, options_.name, Direction::kAdjoint}} {
  const Distribution& padded = halo_.padded();
  for (Execution& execution : executions_) {
    execution.fingerprint = FingerprintOf(halo_.interior(), padded);
    execution.what = absl::StrCat(ToString(padded.dtype()), " [", absl::StrJoin(padded.global_shape(), ", "), "]");
  }
}

absl::StatusOr<std::shared_ptr<HaloRefresh>> HaloRefresh::Create(Communicator* communicator, const Layout& x,
                                                                 const std::map<int, HaloWidth>& widths,
                                                                 Options options) {
  const auto create = [&]() -> absl::StatusOr<std::shared_ptr<HaloRefresh>> {
    ADJOIN_RETURN_IF_ERROR(CheckCreate(*communicator, x, options));
    ADJOIN_ASSIGN_OR_RETURN(KeptHalo halo, KeptHalo::Create(x, widths));
    const int rank = communicator->rank();
    ADJOIN_ASSIGN_OR_RETURN(MovementPlan refresh, MovementPlan::Build(halo.interior(), halo.ring(), rank));
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan whole, MovementPlan::Build(halo.interior(), halo.padded(), rank));
    return std::shared_ptr<HaloRefresh>(
        new HaloRefresh(communicator, options, std::move(halo), std::move(refresh), whole.Reversed()));
  };
  absl::StatusOr<std::shared_ptr<HaloRefresh>> made = create();
  if (made.ok()) return made;
  return absl::Status(made.status().code(),
                      absl::StrCat(OperatorText(options.id, options.name), ": ", made.status().message()));
}

std::string HaloRefresh::Who() const {
  return absl::StrCat(OperatorText(options_.id, options_.name), ", rank ", communicator_->rank(), ": ");
}

void HaloRefresh::Fail(absl::Status status) {
  communicator_->Abort(status);
  throw StatusException(std::move(status));
}

at::Tensor HaloRefresh::NewPadded() const {
  return at::zeros(shape_, at::TensorOptions(device_).dtype(ScalarTypeOf(halo_.padded().dtype())));
}

at::Tensor HaloRefresh::InteriorOf(const at::Tensor& padded) const {
  ThrowIfError(CheckPadded(padded));
  return CellsIn(padded, halo_.InteriorOf(communicator_->rank()));
}

absl::Status HaloRefresh::CheckPadded(const at::Tensor& padded) const {
  const c10::ScalarType type = ScalarTypeOf(halo_.padded().dtype());
  const std::string expected = absl::StrCat(Who(), "expected a padded tensor ", TensorText(type, shape_));
  if (!padded.defined()) return absl::InvalidArgumentError(absl::StrCat(expected, ", got an undefined tensor"));
  if (padded.scalar_type() != type || padded.sizes() != at::IntArrayRef(shape_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected, ", got ", TensorText(padded.scalar_type(), padded.sizes())));
  }
  if (padded.device() == device_ && padded.layout() == at::kStrided) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(expected, " as a dense tensor on ", device_.is_cpu() ? "the CPU" : device_.str(), ", got one on ",
                   padded.device().str(), padded.layout() == at::kStrided ? "" : " that is not dense"));
}

absl::Status HaloRefresh::CheckWritten(const at::Tensor& padded) const {
  ADJOIN_RETURN_IF_ERROR(CheckPadded(padded));
  const auto refuse = [this](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(Who(), "cannot refresh in place ", what));
  };
  if (padded.is_conj() || padded.is_neg()) {
    return refuse("a tensor that is lazily conjugated or negated; resolve_conj() and resolve_neg() first");
  }
  if (padded._is_zerotensor() || at::has_internal_overlap(padded) == at::MemOverlap::Yes) {
    return refuse("a tensor whose elements share memory; clone() it first");
  }
  if (padded.is_inference() && !c10::InferenceMode::is_enabled()) {
    return refuse("a tensor made in inference mode, outside of it");
  }
  return absl::OkStatus();
}

void HaloRefresh::Execute(const Execution& execution, const MovementPlan& plan, const at::Tensor& from,
                          const at::Tensor& onto) {
  const MemoryKind kind = communicator_->memory().kind();
  ThrowIfError(communicator_->Execute(execution, plan, TensorBuffer(from, kind), TensorBuffer(onto, kind)));
}

void HaloRefresh::RefreshStrided(const at::Tensor& padded) {
  // A tensor that was made in inference mode cannot be written outside of it.
  if (!contiguous_.defined() || (contiguous_.is_inference() && !c10::InferenceMode::is_enabled())) {
    contiguous_ = at::empty(shape_, padded.options());
  }
  CopyCells(refresh_.direct().sends(), padded, contiguous_);
  Execute(executions_[0], refresh_, contiguous_, contiguous_);
  CopyCells(refresh_.direct().recvs(), contiguous_, padded);
}

void HaloRefresh::RefreshChecked(const at::Tensor& padded, bool count_version) {
  const at::NoGradGuard no_grad;
  // Interior and ring do not meet: one tensor is source and destination.
  if (padded.is_contiguous()) {
    Execute(executions_[0], refresh_, padded, padded);
    if (count_version) padded.unsafeGetTensorImpl()->bump_version();
  } else {
    RefreshStrided(padded.detach());
  }
}

void HaloRefresh::Refresh(const at::Tensor& padded) {
  if (absl::Status checked = CheckWritten(padded); !checked.ok()) Fail(std::move(checked));
  if (at::GradMode::is_enabled() && padded.requires_grad()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        Who(), "Refresh of a tensor that requires a gradient; use ApplyInPlace, or refresh without gradients")));
  }
  RefreshChecked(padded, /*count_version=*/true);
}

void HaloRefresh::ApplyInPlace(at::Tensor& padded, Tape& tape) {
  if (!options_.differentiable || !at::GradMode::is_enabled()) return Refresh(padded);
  absl::Status checked = CheckWritten(padded);
  if (checked.ok() && padded.is_leaf() && padded.requires_grad()) {
    checked = absl::InvalidArgumentError(
        absl::StrCat(Who(), "cannot refresh in place a leaf that requires a gradient; clone() it first"));
  }
  if (checked.ok() && padded.is_view()) {
    checked = absl::InvalidArgumentError(
        absl::StrCat(Who(), "cannot refresh a view in place with gradients; refresh its base, or a clone() of it"));
  }
  if (!checked.ok()) Fail(std::move(checked));
  variable_list results = HaloRefreshFunction::apply(padded, tape.token(), shared_from_this(), Refreshes::kInPlace);
  padded = results[0];
  tape.Advance(results[1]);
}

at::Tensor HaloRefresh::Apply(const at::Tensor& padded, Tape& tape) {
  // Autograd cannot take an undefined input; Forward says what is wrong with it.
  if (!options_.differentiable || !at::GradMode::is_enabled() || !padded.defined()) return Forward(padded);
  variable_list results = HaloRefreshFunction::apply(padded, tape.token(), shared_from_this(), Refreshes::kCopy);
  tape.Advance(results[1]);
  return results[0];
}

at::Tensor HaloRefresh::Forward(const at::Tensor& padded) {
  const at::NoGradGuard no_grad;
  if (absl::Status checked = CheckPadded(padded); !checked.ok()) Fail(std::move(checked));
  at::Tensor copy = at::empty(shape_, padded.options());
  copy.copy_(padded);
  RefreshChecked(copy, /*count_version=*/false);
  return copy;
}

at::Tensor HaloRefresh::Adjoint(const at::Tensor& y) {
  const at::NoGradGuard no_grad;
  if (absl::Status checked = CheckPadded(y); !checked.ok()) Fail(std::move(checked));
  at::Tensor from = y;
  if (!y.is_contiguous() || y.is_conj() || y.is_neg() || y._is_zerotensor()) {
    from = at::empty(shape_, y.options());
    from.copy_(y);
  }
  at::Tensor onto = at::zeros(shape_, from.options());
  Execute(executions_[1], adjoint_, from, onto);
  for (const Region& region : outside_) CellsIn(onto, region).copy_(CellsIn(from, region));
  return onto;
}

}  // namespace adjoin
