// Graphs that differ between ranks: no rank waits for a node that another lacks, and the gradients are right.
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/broadcast.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/status_exception.h"
#include "primitives/sum_reduce.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/on_ranks.h"

namespace adjoin {
namespace {

constexpr int kRanks = 3;
constexpr DType kType = DType::kFloat64;
const absl::Duration kShort = absl::Seconds(5);  // a hang ends here

// Cut over the three ranks: 4, 3, 3 of 10.
Layout Split() { return *Layout::Partition({10}, kType, {kRanks}, {0, 1, 2}); }
Layout All() { return *Layout::Replicated({10}, kType, {0, 1, 2}); }

at::Tensor Ramp(int64_t n, double start) { return at::arange(n, at::kDouble) + start; }

absl::Status Expect(const char* what, const at::Tensor& got, const at::Tensor& expected) {
  if (got.defined() && got.sizes() == expected.sizes() && at::allclose(got, expected, 1e-13, 1e-13)) {
    return absl::OkStatus();
  }
  std::ostringstream text;
  text << what << ": got " << got << " expected " << expected;
  return absl::InternalError(text.str());
}

absl::Status RunThree(const std::function<absl::Status(Communicator&)>& fn) {
  return OnRanks(kRanks, TransportKind::kInMemoryDelayed, 11, fn, kShort);
}

// loss = sum over ranks of sum(w_r * gather(x)); d/dx = sum of all w, sliced.
TEST(TapeTest, CompletesWhereARanksInputNeedsNoGradient) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank);
    if (rank != 1) x.requires_grad_();
    Tape tape;
    const at::Tensor y = gather->Apply(x, tape);
    if (!y.requires_grad()) return absl::InternalError("the movement is not on the tape");
    tape.Backward((y * (rank + 1)).sum());
    if (rank == 1)
      return x.grad().defined() ? absl::InternalError("a gradient that was not asked for") : absl::OkStatus();
    return Expect("x.grad", x.grad(), at::full_like(x.detach(), 6));
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TapeTest, CompletesWhereARanksOutputDoesNotReachTheLoss) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
    Tape tape;
    const at::Tensor y = gather->Apply(x, tape);
    const at::Tensor loss = rank == 2 ? (x * x).sum() : (y * (rank + 1)).sum();
    tape.Backward(loss);
    const at::Tensor direct = rank == 2 ? 2 * x.detach() : at::zeros_like(x.detach());
    return Expect("x.grad", x.grad(), direct + 3);
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TapeTest, CompletesWhereTheLossIsUndefinedOrWithoutGradientOnSomeRanks) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
    Tape tape;
    const at::Tensor y = gather->Apply(x, tape);
    at::Tensor loss;
    if (rank == 0) loss = (y * 5).sum();
    if (rank == 1) loss = at::zeros({});
    tape.Backward(loss, /*seed=*/2);
    return Expect("x.grad", x.grad(), at::full_like(x.detach(), 10));
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Two movements in a row on ranks 0 and 1; rank 2 uses neither result of the one nor feeds the other from it.
TEST(TapeTest, CompletesWithTwoMovementsInGraphsThatDiffer) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    ADJOIN_ASSIGN_OR_RETURN(const auto sum, AllSumReduce::Create(&communicator, *All().Dual(), {2, "sum"}));
    for (int step = 0; step < 5; ++step) {
      at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
      at::Tensor own = Ramp(10, 7).requires_grad_();
      Tape tape;
      at::Tensor y = gather->Apply(x, tape);
      at::Tensor z = sum->Apply(rank == 2 ? own : y * y, tape);
      tape.Backward(rank == 1 ? at::Tensor() : z.sum());
      // dz: two losses of ones; each rank's part gets 2; y is used squared by ranks 0 and 1.
      const Box box = Split().BoxOf(rank);
      at::Tensor global = at::cat({Ramp(4, 0), Ramp(3, 1), Ramp(3, 2)});
      ADJOIN_RETURN_IF_ERROR(Expect("x.grad", x.grad(), 2 * 2 * 2 * global.slice(0, box[0].lo, box[0].hi)));
      if (rank == 2) ADJOIN_RETURN_IF_ERROR(Expect("own.grad", own.grad(), at::full({10}, 2.0, at::kDouble)));
      if (rank != 2 && own.grad().defined()) return absl::InternalError("rank 0 or 1 has a gradient for its own");
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The same leaf of several passes over one retained graph, then a new one on the same tape.
TEST(TapeTest, RetainsAndStartsAnew) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
    Tape tape;
    at::Tensor loss = gather->Apply(x, tape).sum();
    tape.Backward(loss, 1, /*retain_graph=*/true);
    tape.Backward(loss);
    ADJOIN_RETURN_IF_ERROR(Expect("twice", x.grad(), at::full_like(x.detach(), 6)));
    tape.Backward(gather->Apply(x, tape).sum());
    return Expect("again", x.grad(), at::full_like(x.detach(), 9));
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TapeTest, RecordsNothingWithoutGradients) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
    Movement::Options options{2, "data"};
    options.differentiable = false;
    ADJOIN_ASSIGN_OR_RETURN(const auto data, Redistribute::Create(&communicator, Split(), All(), options));
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
    Tape tape;
    {
      at::NoGradGuard evaluation;
      if (gather->Apply(x, tape).requires_grad()) return absl::InternalError("recorded without gradients");
    }
    if (data->Apply(x, tape).requires_grad()) return absl::InternalError("recorded though not differentiable");
    tape.Backward(at::Tensor());
    return x.grad().defined() ? absl::InternalError("a gradient from nowhere") : absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// The graph alone keeps the movement alive.
TEST(TapeTest, KeepsTheMovementAliveByTheGraph) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    at::Tensor x = Ramp(Split().LocalShape(rank)[0], rank).requires_grad_();
    Tape tape;
    at::Tensor loss;
    {
      ADJOIN_ASSIGN_OR_RETURN(const auto gather, Redistribute::Create(&communicator, Split(), All(), {1, "gather"}));
      loss = gather->Apply(x, tape).sum();
    }
    tape.Backward(loss);
    return Expect("x.grad", x.grad(), at::full_like(x.detach(), 3));
  });
  EXPECT_TRUE(status.ok()) << status;
}

// First and second derivatives by finite differences through a composition of all kinds.
class Composition {
 public:
  static absl::StatusOr<Composition> Create(Communicator* communicator) {
    Composition c;
    const Window window = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1, .boundary = Boundary::kCircular});
    const Layout other = *Layout::Partition({10}, kType, {2}, {2, 0}, {{0, {3, 7}}});
    const Layout owner = Layout::Owner({10}, kType, 1);
    ADJOIN_ASSIGN_OR_RETURN(c.halo_, HaloExchange::Create(communicator, Split(), {{0, window}}, Split(), {1, "halo"}));
    ADJOIN_ASSIGN_OR_RETURN(c.repartition_, Redistribute::Create(communicator, Split(), other, {2, "repartition"}));
    ADJOIN_ASSIGN_OR_RETURN(c.to_partial_, Redistribute::Create(communicator, other, *All().Dual(), {3, "partial"}));
    ADJOIN_ASSIGN_OR_RETURN(c.sum_, SumReduce::Create(communicator, *All().Dual(), owner, {4, "sum"}));
    ADJOIN_ASSIGN_OR_RETURN(c.broadcast_, Broadcast::Create(communicator, owner, All(), {5, "broadcast"}));
    return c;
  }

  // This rank's part of the loss.
  at::Tensor Loss(const at::Tensor& x, int rank, Tape& tape) const {
    at::Tensor h = halo_->Apply(x, tape);
    const int64_t n = h.size(0) - 2;
    h = at::sin(h.narrow(0, 0, n)) * h.narrow(0, 1, n) + h.narrow(0, 2, n).pow(2);
    h = at::tanh(repartition_->Apply(h, tape));
    h = to_partial_->Apply(h * h, tape);
    h = sum_->Apply(h, tape).exp();
    h = broadcast_->Apply(h, tape);
    return (h * Ramp(10, 1 + rank)).pow(2).sum() / 1000;
  }

 private:
  std::shared_ptr<Movement> halo_, repartition_, to_partial_, sum_, broadcast_;
};

TEST(TapeTest, AgreesWithFiniteDifferencesOfFirstAndSecondOrder) {
  const absl::Status status = RunThree([](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    ADJOIN_ASSIGN_OR_RETURN(const Composition f, Composition::Create(&communicator));
    ADJOIN_ASSIGN_OR_RETURN(
        const auto total,
        AllSumReduce::Create(&communicator, *Layout::Replicated({}, kType, {0, 1, 2})->Dual(), {6, "total"}));
    const int64_t n = Split().LocalShape(rank)[0];
    const at::Tensor x0 = 0.3 * at::sin(Ramp(n, 2 * rank));
    const at::Tensor direction = at::cos(Ramp(n, rank));
    auto loss_at = [&](const at::Tensor& at) {
      at::NoGradGuard no_grad;
      Tape tape;
      return total->Forward(f.Loss(at, rank, tape)).item<double>();
    };
    // The gradient at `at`, and the product of the second derivatives with the direction.
    auto derivatives = [&](const at::Tensor& at) {
      at::Tensor x = at.clone().requires_grad_();
      Tape tape;
      const at::Tensor g = tape.Grad({f.Loss(x, rank, tape)}, {x}, {}, /*create_graph=*/true)[0];
      const at::Tensor h = tape.Grad({(g * direction).sum()}, {x}, {})[0];
      return std::make_pair(g.detach(), h);
    };
    const double step = 1e-5;
    const auto [g, h] = derivatives(x0);
    const double slope = (loss_at(x0 + step * direction) - loss_at(x0 - step * direction)) / (2 * step);
    const at::Tensor along = total->Forward((g * direction).sum());
    if (std::abs(along.item<double>() - slope) > 1e-6 * std::max(1.0, std::abs(slope))) {
      return absl::InternalError(absl::StrCat("slope ", along.item<double>(), ", finite differences ", slope));
    }
    const at::Tensor difference =
        (derivatives(x0 + step * direction).first - derivatives(x0 - step * direction).first) / (2 * step);
    if (!at::allclose(h, difference, 1e-5, 1e-6)) return Expect("second order", h, difference);
    return g.abs().sum().item<double>() > 0 ? absl::OkStatus() : absl::InternalError("the gradient is zero");
  });
  EXPECT_TRUE(status.ok()) << status;
}

// One rank fails in the middle; the others end with a message that says what they waited for.
TEST(TapeTest, TellsAFailureToEveryRank) {
  at::set_num_threads(1);
  const auto start = Deadline::Clock::now();
  const std::vector<absl::Status> all =
      RunRanksCollect(kRanks, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
        HostMemory memory;
        Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
        ADJOIN_ASSIGN_OR_RETURN(const auto sum, AllSumReduce::Create(&communicator, *All().Dual(), {7, "fc1.y"}));
        try {
          at::Tensor x = Ramp(10, 0).requires_grad_();
          Tape tape;
          const at::Tensor y = sum->Apply(x, tape);
          if (communicator.rank() == 1) sum->Apply(y.narrow(0, 0, 9), tape);
          tape.Backward(y.sum());
        } catch (...) {
          const absl::Status first = StatusFromCurrentException();
          if (communicator.status().ok()) return absl::InternalError("the failure does not stick");
          return first;
        }
        return absl::OkStatus();
      });
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(all[1].message(), "operator 7 (fc1.y), rank 1: expected Double [10], got Double [9]");
  for (int rank : {0, 2}) {  // in the forward or the adjoint movement, as it happens
    const std::string message(all[rank].message());
    EXPECT_EQ(message.find("operator 7 (fc1.y) "), 0u) << message;
    EXPECT_NE(message.find(", generation 0: "), std::string::npos) << message;
    EXPECT_NE(message.find("rank 1: expected Double [10], got Double [9]"), std::string::npos) << message;
  }
}

TEST(MovementTest, SaysWhatIsWrong) {
  const absl::Status status = RunRanks(1, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    auto message = [&](const std::function<absl::Status(Communicator&)>& fn) {
      Communicator communicator(&transport, &memory, {0, kShort});
      try {
        return std::string(fn(communicator).message());
      } catch (...) {
        return std::string(StatusFromCurrentException().message());
      }
    };
    const Layout one = Layout::Owner({2, 3}, DType::kFloat32, 0);
    auto create = [&](Movement::Options options, const Layout& from, const Layout& to) {
      return message([&](Communicator& c) { return Redistribute::Create(&c, from, to, options).status(); });
    };
    EXPECT_EQ(create({0, "x"}, one, one), "operator 0 (x): the id is not in [1, 65535]");
    EXPECT_EQ(create({1, "x"}, one.WithDType(DType::kInt64), one.WithDType(DType::kInt64)),
              "operator 1 (x): int64 has no gradient; set differentiable = false");
    EXPECT_NE(create({1, "x"}, one, Layout::Owner({2, 4}, DType::kFloat32, 0)).find("keeps shape and dtype"),
              std::string::npos);
    EXPECT_NE(create({1, "x"}, one, Layout::Owner({2, 3}, DType::kFloat32, 1)).find("rank 1 of mesh"),
              std::string::npos);
    EXPECT_EQ(message([&](Communicator& c) {
                const auto f = *Redistribute::Create(&c, one, one, {1, "x"});
                f->Forward(at::zeros({2, 3}, at::kDouble));
                return absl::OkStatus();
              }),
              "operator 1 (x), rank 0: expected Float [2, 3], got Double [2, 3]");
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace adjoin
