#include "tests/adjoint/case_run.h"

#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/movement.h"
#include "primitives/send_receive.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/rank_memory.h"
#include "tests/adjoint/case_checks.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

// Far more than they take; a machine may be busy.
constexpr absl::Duration kWait = absl::Seconds(60);
constexpr absl::Duration kRun = absl::Minutes(4);

// One rank's part of one case.
class CaseOnRank {
 public:
  CaseOnRank(Communicator& communicator, const MovementCase& c, std::size_t number, CaseResults& results)
      : communicator_(communicator),
        c_(c),
        number_(number),
        rank_(communicator.rank()),
        device_(TensorDeviceOf(communicator.memory())),
        results_(results) {
    for (std::vector<at::Tensor>* tensors : {&c_.valid, &c_.x, &c_.y}) {
      (*tensors)[rank_] = (*tensors)[rank_].to(device_);
    }
  }

  absl::Status Run() {
    const absl::Status status = RunOnDevice();
    for (std::vector<at::Tensor>* found : {&results_.fx, &results_.fx_valid, &results_.fx_bits, &results_.fy,
                                           &results_.linear, &results_.linear_valid}) {
      if ((*found)[rank_].defined()) (*found)[rank_] = (*found)[rank_].to(at::kCPU);
    }
    return status;
  }

 private:
  absl::Status RunOnDevice() {
    ADJOIN_ASSIGN_OR_RETURN(f_, c_.create(&communicator_, static_cast<int64_t>(number_) + 1));
    const int64_t before = communicator_.BytesSent();
    results_.fx_valid[rank_] = f_->Forward(c_.valid[rank_]);
    const int64_t sent = communicator_.BytesSent() - before;
    if (sent != f_->forward_plan().BytesSent()) {
      return absl::InternalError(absl::StrCat("sent ", sent, " bytes, planned ", f_->forward_plan().BytesSent()));
    }
    ADJOIN_RETURN_IF_ERROR(Bare());
    results_.linear[rank_] = c_.linear ? results_.fx[rank_] : f_->Linear(c_.x[rank_]);
    results_.linear_valid[rank_] = c_.linear ? results_.fx_valid[rank_] : f_->Linear(c_.valid[rank_]);
    if (c_.copies)
      results_.fx_bits[rank_] = f_->Forward(LaidOut(OtherBits(c_.valid[rank_].to(at::kCPU)).to(device_), BitsLayout()));
    if (c_.cleared >= 0) ADJOIN_RETURN_IF_ERROR(Move());
    if (!IsFloatingPoint(c_.dtype)) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(LinearTwice());
    // float16 and bfloat16 would round.
    if (number_ % 3 == 0 && RoundingOf(c_.dtype) > 0 && OrdersHigherGradients()) return NonlinearTwice();
    return absl::OkStatus();
  }

  // LibTorch 1 numbers the nodes of a device's backward pass in a thread of the device's, and those of the forward pass
  // in this one: which of two comes first, where both may, then depends on what the threads did before, and may be
  // another on every rank that is a thread of one process.
  bool OrdersHigherGradients() const { return device_.is_cpu() || TORCH_VERSION_MAJOR > 1; }
  int64_t InputLayout() const { return static_cast<int64_t>(number_) + rank_; }
  // One of the memory layouts that keep bits as they are.
  int64_t BitsLayout() const { return InputLayout() % 4; }

  // The bare operator and its adjoint on independent cells.
  absl::Status Bare() {
    const at::Tensor x = LaidOut(c_.x[rank_], InputLayout());
    const at::Tensor y = LaidOut(c_.y[rank_], InputLayout() + 1);
    results_.fx[rank_] = f_->Forward(x);
    results_.fy[rank_] = f_->Adjoint(y);
    if (!SameBits(x, c_.x[rank_]) || !SameBits(y, c_.y[rank_])) return absl::InternalError("an input was changed");
    for (const at::Tensor& result : {results_.fx[rank_], results_.fy[rank_]}) {
      if (!result.is_contiguous() || result.requires_grad()) return absl::InternalError("a result is not plain");
      for (const at::Tensor& input : {x, y}) {
        if (result.numel() > 0 && result.storage().data() == input.storage().data()) {
          return absl::InternalError("a result is in an input's memory");
        }
      }
    }
    return absl::OkStatus();
  }

  // Moves x: forward, and back through the tape, must be what the copy and its adjoint were.
  absl::Status Move() {
    const bool source = rank_ == c_.cleared;
    {
      at::NoGradGuard forward_only;
      Tape tape(device_);
      at::Tensor x = c_.x[rank_].clone();
      const at::Tensor y = SendReceive::Move(*f_, x, tape);
      if (!SameBits(y, results_.fx[rank_])) return absl::InternalError("a move gives other values than a copy");
      if (!SameBits(x, source ? at::zeros_like(x) : c_.x[rank_])) {
        return absl::InternalError(source ? "the source is not cleared" : "x was cleared on another rank");
      }
    }
    if (!IsFloatingPoint(c_.dtype)) return absl::OkStatus();
    at::Tensor leaf = c_.x[rank_].clone().requires_grad_();
    at::Tensor w = c_.y[rank_].clone().requires_grad_();
    at::Tensor x = leaf.clone();
    Tape tape(device_);
    const at::Tensor y = SendReceive::Move(*f_, x, tape);
    // What flows back to the cleared x ends there.
    const at::Tensor g = tape.Grad({y, x}, {leaf}, {w, c_.valid[rank_]}, /*create_graph=*/true)[0];
    if (source && !SameBits(g, results_.fy[rank_])) return absl::InternalError("the gradient of a move is not F* w");
    if (!OrdersHigherGradients()) return absl::OkStatus();
    const at::Tensor again = tape.Grad({g}, {w}, {c_.valid[rank_]})[0];
    if (SameBits(again, results_.fx_valid[rank_])) return absl::OkStatus();
    return absl::InternalError("the second derivative of a move is wrong");
  }

  // g = d<w, F x>/dx must be F* w, and d<v, g>/dw must be F v without fill. In one go, or in two halves.
  absl::Status LinearTwice() {
    at::Tensor x = c_.x[rank_].clone().requires_grad_();
    at::Tensor w = c_.y[rank_].clone().requires_grad_();
    Tape tape(device_);
    const at::Tensor y = number_ % 2 == 0 ? f_->Apply(x, tape) : f_->Start(x, tape)->Wait(tape);
    if (!SameBits(y, results_.fx[rank_])) return absl::InternalError("with autograd come other values than without");
    const at::Tensor g = tape.Grad({y}, {x}, {w}, /*create_graph=*/true)[0];
    if (!SameBits(g, results_.fy[rank_])) return absl::InternalError("the gradient of <w, F x> is not F* w");
    if (!OrdersHigherGradients()) return absl::OkStatus();
    const at::Tensor again = tape.Grad({g}, {w}, {c_.valid[rank_]})[0];
    if (SameBits(again, results_.linear_valid[rank_])) return absl::OkStatus();
    return absl::InternalError("the derivative of F* w in w is not F");
  }

  // First and second derivatives of Re sum conj(w) z^3 with z = F x, on integers so small that nothing is rounded.
  absl::Status NonlinearTwice() {
    Draw draw(number_ * 64 + rank_);
    const auto integers = [&](const at::Tensor& like) {
      return RandomIntegers(draw, like.sizes().vec(), c_.dtype).to(device_);
    };
    const at::Tensor x_values = integers(c_.x[rank_]);
    const at::Tensor w_values = integers(c_.y[rank_]);
    const at::Tensor v = integers(c_.x[rank_]);
    at::Tensor x = x_values.clone().requires_grad_();
    at::Tensor w = w_values.clone().requires_grad_();
    Tape tape(device_);
    const at::Tensor z = f_->Apply(x, tape);
    const at::Tensor g = tape.Grad({z * z * z}, {x}, {w}, /*create_graph=*/true)[0];
    const std::vector<at::Tensor> again = tape.Grad({g}, {x, w}, {v});
    // With F real: g = F*(3 w conj(z)^2), and of Re sum conj(v) g the gradients in x and in w.
    const at::Tensor fx = f_->Forward(x_values);
    const at::Tensor fv = f_->Linear(v);
    const at::Tensor conj = fx.conj().resolve_conj();
    if (!at::equal(g, f_->Adjoint(3 * w_values * conj * conj))) {
      return absl::InternalError("the gradient of <w, (F x)^3> is wrong");
    }
    if (!at::equal(again[0], f_->Adjoint(6 * w_values * conj * fv.conj()))) {
      return absl::InternalError("the second derivative of <w, (F x)^3> is wrong");
    }
    if (!at::equal(again[1], 3 * fx * fx * fv)) {
      return absl::InternalError("the derivative of the gradient in its cotangent is wrong");
    }
    return absl::OkStatus();
  }

  Communicator& communicator_;
  MovementCase c_;  // with this rank's tensors on its device
  const std::size_t number_;
  const int rank_;
  const at::Device device_;
  CaseResults& results_;
  std::shared_ptr<Movement> f_;
};

absl::Status SameResults(const MovementCase& c, const CaseResults& a, const CaseResults& b) {
  const auto same = [](const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!SameBits(left[i], right[i])) return false;
    }
    return true;
  };
  if (same(a.fx, b.fx) && same(a.fx_valid, b.fx_valid) && same(a.fy, b.fy)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(c.what, ": other bits than in the run before"));
}

absl::Status Check(const MovementCase& c, const CaseResults& r) {
  ADJOIN_RETURN_IF_ERROR(ValuesMatch(c, r.fx_valid));
  if (c.copies) ADJOIN_RETURN_IF_ERROR(BitsMatch(c, r.fx_bits));
  if (!c.linear) ADJOIN_RETURN_IF_ERROR(LinearValuesMatch(c, r.linear_valid));
  ADJOIN_RETURN_IF_ERROR(AdjointHolds(c, c.x, r.linear, c.y, r.fy));
  return AdjointHolds(c, c.valid, r.linear_valid, c.y, r.fy);
}

}  // namespace

absl::Status ProveCases(const std::vector<MovementCase>& cases, int ranks, TransportKind transport_kind, uint64_t seed,
                        std::vector<CaseResults>* results) {
  const std::vector<at::Tensor> none(ranks);
  std::vector<CaseResults> found(cases.size(), CaseResults{none, none, none, none, none, none});
  const auto on_rank = [&](Transport& transport) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory,
                            MemoryOfRank(transport_kind, transport.rank(), seed));
    Communicator communicator(&transport, memory.get(), {0, kWait});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      absl::Status status;
      try {
        status = CaseOnRank(communicator, cases[i], i, found[i]).Run();
      } catch (...) {
        status = StatusFromCurrentException();
      }
      if (!status.ok()) return absl::Status(status.code(), absl::StrCat(cases[i].what, ": ", status.message()));
    }
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, transport_kind, seed, on_rank, kRun));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(Check(cases[i], found[i]));
    if (results != nullptr && !results->empty()) {
      ADJOIN_RETURN_IF_ERROR(SameResults(cases[i], (*results)[i], found[i]));
    }
  }
  if (results != nullptr) *results = std::move(found);
  return absl::OkStatus();
}

}  // namespace adjoin
