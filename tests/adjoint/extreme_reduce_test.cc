// Movements from P(max) and P(min) against torch.amax and torch.amin of the stacked partials: values, gradients with
// ties, NaN and infinities, second derivatives, in one go and in two halves, on 1 to 8 ranks and every transport.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/extreme_reduce.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/window.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/extreme_cases.h"
#include "tests/adjoint/on_ranks.h"

namespace adjoin {
namespace {

absl::StatusOr<std::shared_ptr<Movement>> Create(const ExtremeCase& c, Communicator& communicator, int64_t id) {
  const Movement::Options options{id, "extreme", 0, IsFloatingPoint(c.from.dtype())};
  if (!c.named) return Redistribute::Create(&communicator, c.from, c.to, options);
  return c.reduce == ReduceOp::kMax ? AllMaxReduce::Create(&communicator, c.from, options)
                                    : AllMinReduce::Create(&communicator, c.from, options);
}

// Every cell of source and cotangent for itself: the slope along `d` by the gradient, and by steps that swap no order.
at::Tensor FreeSlope(Movement& f, const at::Tensor& cells, const at::Tensor& cotangent) {
  at::Tensor x = cells.clone().requires_grad_();
  const at::Tensor d = at::remainder(cells, 3) - 1;
  const at::Tensor counted = at::arange(cotangent.numel(), at::kDouble);
  const at::Tensor w = at::remainder(counted, 5).reshape(cotangent.sizes());
  Tape tape;
  tape.Backward((f.Apply(x, tape) * w).sum());
  const at::Tensor step = f.Forward(cells + d / 4) - f.Forward(cells - d / 4);
  return at::stack({(x.grad() * d).sum(), (step * w).sum() * 2});
}

absl::Status RunCase(Communicator& communicator, const ExtremeCase& c, int64_t id, ExtremeResults& results) {
  const int rank = communicator.rank();
  ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<Movement> f, Create(c, communicator, id));
  const int64_t before = communicator.BytesSent();
  results.y[rank] = f->Forward(c.x[rank]);
  if (communicator.BytesSent() - before != f->forward_plan().BytesSent()) {
    return absl::InternalError(absl::StrCat(c.what, ": sent other bytes than planned"));
  }
  if (!IsFloatingPoint(c.from.dtype())) return absl::OkStatus();
  {
    at::Tensor x = c.x[rank].clone().requires_grad_();
    Tape tape;
    const at::Tensor y = f->Apply(x, tape);
    if (!at::allclose(y.to(at::kDouble), results.y[rank].to(at::kDouble), 0, 0, /*equal_nan=*/true)) {
      return absl::InternalError(absl::StrCat(c.what, ": another result with gradients"));
    }
    tape.Backward((y * c.cotangent[rank]).sum());
    results.first[rank] = x.grad();
  }
  if (c.from.dtype() == DType::kFloat64) results.free_slope[rank] = FreeSlope(*f, c.free[rank], c.cotangent[rank]);
  if (!HasSecond(c)) return absl::OkStatus();
  at::Tensor x = c.x[rank].clone().requires_grad_();
  at::Tensor w = c.cotangent[rank].clone().requires_grad_();
  Tape tape;
  const at::Tensor loss = (w * f->Apply(x, tape).pow(2)).sum();
  const at::Tensor g = tape.Grad({loss}, {x}, {}, /*create_graph=*/true)[0];
  const std::vector<at::Tensor> second = tape.Grad({(c.weight[rank] * g.pow(2)).sum()}, {x, w}, {});
  results.second[rank] = second[0];
  results.of_cotangent[rank] = second[1];
  return absl::OkStatus();
}

void RunCases(const std::vector<ExtremeCase>& cases, int ranks, TransportKind kind, uint64_t seed) {
  std::vector<ExtremeResults> results(cases.size(), ExtremeResults(ranks));
  std::vector<std::size_t> at(ranks);
  const absl::Status status = OnRanks(ranks, kind, seed, [&](Communicator& communicator) -> absl::Status {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      at[communicator.rank()] = i;
      ADJOIN_RETURN_IF_ERROR(RunCase(communicator, cases[i], 3 * static_cast<int64_t>(i) + 1, results[i]));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status << "; rank 0 at: " << cases[at[0]].what;
  for (std::size_t i = 0; i < cases.size() && !testing::Test::HasFailure(); ++i) {
    ExpectAmax(cases[i], results[i], ranks);
  }
}

class ExtremeReduceOnTest : public testing::TestWithParam<TransportKind> {
 protected:
  bool InMemory() const {
    return GetParam() == TransportKind::kInMemory || GetParam() == TransportKind::kInMemoryDelayed;
  }
};

TEST_P(ExtremeReduceOnTest, EqualsAmaxAndAmin) {
  Draw draw = Draw::FromEnvironment();
  at::manual_seed(static_cast<uint64_t>(draw.Between(0, 1 << 30)));
  for (int ranks = 1; ranks <= 8; ++ranks) {
    if (!InMemory() && ranks % 4 != 0) continue;
    std::vector<ExtremeCase> cases;
    for (int i = 0; i < (InMemory() ? 40 : 15); ++i) cases.push_back(RandomExtremeCase(draw, ranks, DType::kFloat64));
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64, DType::kInt32, DType::kUInt8,
                        DType::kBool}) {
      for (int i = 0; i < (InMemory() ? 6 : 2); ++i) cases.push_back(RandomExtremeCase(draw, ranks, dtype));
    }
    RunCases(cases, ranks, GetParam(), static_cast<uint64_t>(draw.Between(0, 1 << 30)));
    if (HasFailure()) return;
  }
}

// Large enough for every collective algorithm, towards a root that has no partial of its own as well.
TEST_P(ExtremeReduceOnTest, EqualsAmaxByCollectives) {
  Draw draw = Draw::FromEnvironment();
  at::manual_seed(1);
  std::vector<ExtremeCase> cases;
  for (int64_t rows : {3, 300}) {
    for (ReduceOp reduce : {ReduceOp::kMax, ReduceOp::kMin}) {
      const auto partial = [&](std::vector<int> ranks) {
        return WithPlacements(*Layout::Replicated({rows, 701}, DType::kFloat32, std::move(ranks)),
                              [&](Placement) { return Placement::Partial(reduce); });
      };
      const Layout all = *Layout::Replicated({rows, 701}, DType::kFloat32, {0, 1, 2, 3, 4});
      const Layout owner = Layout::Owner({rows, 701}, DType::kFloat32, 2);
      for (const Layout& to : {all, owner, *all.Dual()}) {
        cases.push_back(ExtremeCaseOf(draw, partial({0, 1, 2, 3, 4}), to, reduce, 5));
        cases.push_back(ExtremeCaseOf(draw, partial({4, 1, 0, 3}), to, reduce, 5));
      }
    }
  }
  RunCases(cases, 5, GetParam(), 7);
}

// Two executions of one movement and one of another in flight, against one after the other.
TEST_P(ExtremeReduceOnTest, EqualsAmaxByStartAndWait) {
  Draw draw = Draw::FromEnvironment();
  at::manual_seed(2);
  constexpr int kRanks = 4;
  std::vector<ExtremeCase> cases;
  for (int i = 0; i < 20; ++i) cases.push_back(RandomExtremeCase(draw, kRanks, DType::kFloat64));
  const auto all_of = [&](Movement& f, Movement& h, std::size_t i, int rank, bool halves) {
    at::Tensor x = cases[i].x[rank].clone().requires_grad_();
    at::Tensor z = cases[i + 1].x[rank].clone().requires_grad_();
    Tape tape;
    at::Tensor y[3];
    if (halves) {
      const auto first = f.Start(x, tape);
      const auto other = h.Start(z, tape);
      const auto next = f.Start(1 - x * x, tape);
      y[0] = first->Wait(tape);
      y[1] = next->Wait(tape);
      y[2] = other->Wait(tape);
    } else {
      y[0] = f.Apply(x, tape);
      y[1] = f.Apply(1 - x * x, tape);
      y[2] = h.Apply(z, tape);
    }
    at::Tensor loss = (y[2].pow(2) * cases[i + 1].cotangent[rank]).sum();
    for (int k : {0, 1}) loss = loss + (y[k].pow(2) * cases[i].cotangent[rank]).sum();
    const std::vector<at::Tensor> g = tape.Grad({loss}, {x, z}, {}, /*create_graph=*/true);
    const std::vector<at::Tensor> second = tape.Grad({g[0].pow(2).sum() + g[1].pow(2).sum()}, {x, z}, {});
    return std::vector<at::Tensor>{y[0], y[1], y[2], g[0], g[1], second[0], second[1]};
  };
  const absl::Status status = OnRanks(kRanks, GetParam(), 5, [&](Communicator& communicator) -> absl::Status {
    for (std::size_t i = 0; i + 1 < cases.size(); ++i) {
      const int64_t id = 6 * static_cast<int64_t>(i) + 1;
      ADJOIN_ASSIGN_OR_RETURN(const auto f, Create(cases[i], communicator, id));
      ADJOIN_ASSIGN_OR_RETURN(const auto h, Create(cases[i + 1], communicator, id + 3));
      const std::vector<at::Tensor> expected = all_of(*f, *h, i, communicator.rank(), false);
      const std::vector<at::Tensor> got = all_of(*f, *h, i, communicator.rank(), true);
      for (std::size_t k = 0; k < got.size(); ++k) {
        if (!Near(got[k], expected[k], 0)) return absl::InternalError(absl::StrCat(k, " of ", cases[i].what));
      }
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(All, ExtremeReduceOnTest, testing::ValuesIn(kAllTransportKinds),
                         [](const auto& info) { return ToString(info.param); });

// A maximum and a halo in one movement: cells beyond the tensor are fill, those that nothing reads have no gradient.
absl::Status MaximumWithHalo(Communicator& communicator, const Window& window, double fill, int64_t id) {
  const int64_t n = 11;
  const Mesh mesh = *Mesh::Create({2, 3});
  const auto layout = [&](int64_t extent, Placement first) {
    return *Layout::Create({extent}, DType::kFloat64, mesh, {first, Placement::Split(0)});
  };
  const Layout from = layout(n, Placement::Partial(ReduceOp::kMax));
  const Layout y_layout = layout(*window.OutputSize(n), Placement::Broadcast());
  ADJOIN_ASSIGN_OR_RETURN(const Distribution to,
                          Distribution::Reads(layout(n, Placement::Broadcast()), {{0, window}}, y_layout));
  ADJOIN_ASSIGN_OR_RETURN(const auto f,
                          Movement::Create(&communicator, Distribution::Of(from), to, {id, "halo", fill}));

  const at::Tensor stack =
      at::tensor({1., 5., 2., 2., 0., -4., 3., 3., -1., 0., 7., 1., 4., 3., 2., -9., 4., 3., -3., -1., 2., 6.},
                 at::kDouble)
          .reshape({2, 11})
          .requires_grad_();
  const at::Tensor global = stack.amax(0);
  const Window::Options& w = window.options();
  const at::Tensor padded =
      w.boundary == Boundary::kCircular
          ? at::cat({global.narrow(0, n - w.pad_lo, w.pad_lo), global, global.narrow(0, 0, w.pad_hi)})
          : at::constant_pad_nd(global, {w.pad_lo, w.pad_hi}, fill);
  const auto part = [&](int rank) {
    const Interval outputs = y_layout.BoxOf(rank)[0];
    if (outputs.empty()) return padded.narrow(0, 0, 0);
    return padded.narrow(0, outputs.lo * w.stride, (outputs.size() - 1) * w.stride + w.kernel);
  };
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (int rank : mesh.ranks()) loss = loss + (part(rank) * (rank + 2)).sum();
  loss.backward();

  const int rank = communicator.rank();
  const int64_t partial = (*mesh.CoordsOf(rank))[0];
  at::Tensor x = SliceOf(stack[partial].detach(), from, rank).clone().requires_grad_();
  Tape tape;
  const at::Tensor y = f->Apply(x, tape);
  tape.Backward((y * (rank + 2)).sum());
  if (!Near(y, part(rank), 0)) return absl::InternalError(absl::StrCat("the result with ", window.ToString()));
  if (!Near(x.grad(), SliceOf(stack.grad()[partial], from, rank), 1e-15)) {
    return absl::InternalError(absl::StrCat("the gradient with ", window.ToString()));
  }
  return absl::OkStatus();
}

TEST(ExtremeReduceWindowsTest, LeavesFillAroundAMaximum) {
  const Boundary zeros = Boundary::kZeros;
  const Boundary circular = Boundary::kCircular;
  const std::vector<Window::Options> windows = {{3, 1, 1, 1, 1, zeros, false},   {5, 2, 1, 2, 2, zeros, false},
                                                {1, 4, 1, 0, 0, zeros, false},   {2, 3, 1, 1, 0, zeros, false},
                                                {9, 1, 1, 4, 4, zeros, false},   {3, 1, 1, 1, 1, circular, false},
                                                {7, 2, 1, 9, 9, circular, false}};
  const auto on_rank = [&](Communicator& communicator) -> absl::Status {
    int64_t id = 1;
    for (const Window::Options& options : windows) {
      for (double fill : {0.0, -3.0}) {
        ADJOIN_RETURN_IF_ERROR(MaximumWithHalo(communicator, *Window::Create(options), fill, id));
        id += 3;
      }
    }
    return absl::OkStatus();
  };
  const absl::Status status = OnRanks(6, TransportKind::kInMemoryDelayed, 1, on_rank);
  EXPECT_TRUE(status.ok()) << status;
}

Layout Line(const char* placement, DType dtype = DType::kFloat64, int64_t ranks = 2) {
  return *Layout::Create({3}, dtype, *Mesh::Create({ranks}), {*Placement::Parse(placement)});
}

// On two ranks that all do the same.
void OnTwo(const std::function<absl::Status(Communicator&)>& fn) {
  const absl::Status status = OnRanks(2, TransportKind::kInMemory, 1, fn);
  EXPECT_TRUE(status.ok()) << status;
}

absl::Status Refused(const absl::StatusOr<std::shared_ptr<Movement>>& created, absl::string_view message) {
  if (created.status().code() == absl::StatusCode::kInvalidArgument &&
      absl::StrContains(created.status().message(), message)) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("expected ", message, ", got ", created.status().ToString()));
}

TEST(ExtremeReduceErrorsTest, CreateRefusesWrongArguments) {
  OnTwo([](Communicator& c) -> absl::Status {
    const Layout max = Line("P(max)");
    const Layout all = Line("B");
    ADJOIN_RETURN_IF_ERROR(
        Refused(Redistribute::Create(&c, all, max, {1, "y"}), "operator 1 (y): no movement ends in P(max)"));
    ADJOIN_RETURN_IF_ERROR(
        Refused(Redistribute::Create(&c, Line("P(min)", DType::kComplex64), Line("B", DType::kComplex64), {1, "y"}),
                "no movement starts in P(min) of complex64"));
    ADJOIN_RETURN_IF_ERROR(
        Refused(AllMaxReduce::Create(&c, Line("P(max)", DType::kInt64), {1, "y"}), "set differentiable = false"));
    ADJOIN_RETURN_IF_ERROR(Refused(Redistribute::Create(&c, max, all, {65534, "y"}), "the id is not in [1, 65533]"));
    ADJOIN_RETURN_IF_ERROR(Redistribute::Create(&c, max, all, {65535, "y", 0, false}).status());
    ADJOIN_RETURN_IF_ERROR(
        Refused(AllMaxReduce::Create(&c, Line("P(min)"), {1, "y"}), "a reduction of P(max) to all cannot start in"));
    return Refused(AllMinReduce::Create(&c, Line("P"), {1, "y"}), "a reduction of P(min) to all cannot start in");
  });
}

TEST(ExtremeReduceErrorsTest, AdjointRefusesToRunWithoutItsSource) {
  OnTwo([](Communicator& c) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto max, AllMaxReduce::Create(&c, Line("P(max)"), {1, "y"}));
    try {
      max->Adjoint(at::ones({3}, at::kDouble));
    } catch (const StatusException& e) {
      if (e.status().code() == absl::StatusCode::kFailedPrecondition &&
          absl::StrContains(e.status().message(), "operator 1 (y), rank ") &&
          absl::StrContains(e.status().message(), "a movement from P(max) has no adjoint")) {
        return absl::OkStatus();
      }
      return e.status();
    }
    return absl::InternalError("not refused");
  });
}

// With nothing to choose from it is a copy, and so has an adjoint.
TEST(ExtremeReduceTest, CopiesASinglePartial) {
  OnTwo([](Communicator& c) -> absl::Status {
    const Layout one = Line("P(max)", DType::kFloat64, 1);
    const Layout owner = Layout::Owner({3}, DType::kFloat64, 1);
    ADJOIN_ASSIGN_OR_RETURN(const auto move, Redistribute::Create(&c, one, owner, {65535, "y"}));
    const at::Tensor y = move->Adjoint(at::ones({c.rank() == 1 ? 3 : 0}, at::kDouble));
    return y.sum().item<double>() == (c.rank() == 0 ? 3 : 0) ? absl::OkStatus() : absl::InternalError("not moved");
  });
}

// More ties than bfloat16 counts to, one by one.
TEST(ExtremeReduceTest, SharesGradientsAmongManyTies) {
  constexpr int kRanks = 300;
  const absl::Status status = OnRanks(kRanks, TransportKind::kInMemory, 1, [](Communicator& c) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto max, Redistribute::Create(&c, Line("P(max)", DType::kBFloat16, kRanks),
                                                                 Layout::Owner({3}, DType::kBFloat16, 0), {1, "y"}));
    at::Tensor x = at::ones({3}, at::kBFloat16).requires_grad_();
    Tape tape;
    tape.Backward(max->Apply(x, tape).sum());
    const at::Tensor share = at::ones({3}, at::kBFloat16) / kRanks;
    return at::equal(x.grad(), share) ? absl::OkStatus() : absl::InternalError("another share");
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Without gradients nothing but the movement itself is executed.
TEST(ExtremeReduceTest, MovesNothingElseInEvaluation) {
  OnTwo([](Communicator& c) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto max, Redistribute::Create(&c, Line("P(max)"), Line("S(0)"), {1, "y"}));
    const at::Tensor x = at::arange(3, at::kDouble) * (c.rank() - 0.5);
    Tape tape;
    at::NoGradGuard evaluation;
    const int64_t before = c.BytesSent();
    const at::Tensor y = max->Start(x, tape)->Wait(tape);
    if (c.BytesSent() - before != max->forward_plan().BytesSent()) return absl::InternalError("sent more");
    const at::Tensor all = at::arange(3, at::kDouble) * 0.5;
    return at::equal(y, SliceOf(all, Line("S(0)"), c.rank())) ? absl::OkStatus() : absl::InternalError("values");
  });
}

}  // namespace
}  // namespace adjoin
