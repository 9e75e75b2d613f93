// Expand and repeat against LibTorch's own on the gathered tensor, on 1 to 8 ranks: values and gradients of first and
// second order bit for bit, the adjoint identity on independent cells, and bytes sent as planned.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/expand.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/repeat.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tiling_operator.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/on_ranks.h"
#include "tests/adjoint/tiling_cases.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;
using Tensors = std::vector<at::Tensor>;

// What the ranks found, per rank.
struct Results {
  explicit Results(int ranks) : y(ranks), fx(ranks), fy(ranks), gradient(ranks), g(ranks), second(ranks), dw(ranks) {}
  Tensors y;
  Tensors fx;
  Tensors fy;
  Tensors gradient;  // the gradient of <w, F x> in x
  Tensors g;         // the gradient of <w, (F x)^3> in x
  Tensors second;    // the gradient of <g, v> in x
  Tensors dw;        // the gradient of <g, v> in w
};

absl::StatusOr<std::unique_ptr<TilingOperator>> Create(const TilingCase& c, Communicator* communicator, int64_t id) {
  const Movement::Options options{id, "t"};
  if (!c.expand) return Repeat::CreateTo(communicator, c.x, c.y, options);
  return Expand::CreateTo(communicator, c.x, c.y, options);
}

absl::Status CheckMemory(const TilingCase& c, const TilingOperator& f, const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return absl::OkStatus();
  const bool shares = x.storage().data() == y.storage().data();
  if (shares == (c.expand && !f.moves())) return absl::OkStatus();
  return absl::InternalError(shares ? "the result is a view of the input" : "the result is a copy");
}

absl::Status CheckBytes(Communicator& communicator, int64_t planned, const std::function<void()>& run) {
  const int64_t before = communicator.BytesSent();
  run();
  const int64_t sent = communicator.BytesSent() - before;
  if (sent == planned) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("sent ", sent, " bytes, planned ", planned));
}

absl::Status Differentiate(const TilingCase& c, const TilingOperator& f, int rank, Results& r) {
  const at::Tensor x = c.x_state.local[rank].clone().requires_grad_();
  const at::Tensor w = c.w_state.local[rank].clone().requires_grad_();
  const at::Tensor v = c.v_state.local[rank];
  {
    Tape tape;
    tape.Backward((f.Apply(x, tape) * w.detach()).sum());
    r.gradient[rank] = x.grad().defined() ? x.grad().clone() : at::Tensor();
    x.mutable_grad() = at::Tensor();
    const at::Tensor adjoint = f.Adjoint(w.detach());
    if (!SameNumbers(r.gradient[rank], adjoint)) return absl::InternalError("the gradient of <w, F x> is not F* w");
  }
  Tape tape;
  const std::unique_ptr<TilingOperator::Pending> pending = f.Start(x, tape);
  const at::Tensor loss = (w * pending->Wait(tape).pow(3)).sum();
  r.g[rank] = tape.Grad({loss}, {x}, {}, /*create_graph=*/true)[0];
  tape.Backward((r.g[rank] * v).sum());
  r.g[rank] = r.g[rank].detach();
  r.second[rank] = x.grad();
  r.dw[rank] = w.grad();
  // Also where partials make the global loss another one: against the bare operators.
  const at::Tensor fx = f.Forward(x);
  const at::Tensor fv = f.Forward(v);
  if (!SameNumbers(r.g[rank], f.Adjoint(3 * w.detach() * fx.pow(2))))
    return absl::InternalError("the gradient is wrong");
  if (!SameNumbers(r.second[rank], f.Adjoint(6 * w.detach() * fx * fv)))
    return absl::InternalError("second order is wrong");
  if (!SameNumbers(r.dw[rank], 3 * fx.pow(2) * fv))
    return absl::InternalError("the gradient's derivative in w is wrong");
  return absl::OkStatus();
}

absl::Status RunCase(Communicator& communicator, const TilingCase& c, int64_t id, Results& r) {
  const int rank = communicator.rank();
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<TilingOperator> f, Create(c, &communicator, id));
  const at::Tensor& x = c.x_state.local[rank];
  ADJOIN_RETURN_IF_ERROR(CheckBytes(communicator, f->BytesSent(), [&] { r.y[rank] = f->Forward(x); }));
  ADJOIN_RETURN_IF_ERROR(CheckMemory(c, *f, x, r.y[rank]));
  // The same values in another order of memory.
  const at::Tensor& free = c.x_free[rank];
  r.fx[rank] = f->Forward(free.dim() > 1 ? free.transpose(0, -1).contiguous().transpose(0, -1) : free);
  ADJOIN_RETURN_IF_ERROR(
      CheckBytes(communicator, f->AdjointBytesSent(), [&] { r.fy[rank] = f->Adjoint(c.y_free[rank]); }));
  if (!f->moves() && f->BytesSent() + f->AdjointBytesSent() > 0) return absl::InternalError("sends, but nothing moves");
  return c.x.dtype() == DType::kFloat64 ? Differentiate(c, *f, rank, r) : absl::OkStatus();
}

double Inner(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] * b[i]).sum().item<double>();
  return sum;
}

absl::Status CheckAdjoint(const TilingCase& c, const Results& r) {
  const double error = std::abs(Inner(r.fx, c.y_free) - Inner(c.x_free, r.fy));
  const double scale =
      std::sqrt(std::max(Inner(r.fx, r.fx) * Inner(c.y_free, c.y_free), Inner(c.x_free, c.x_free) * Inner(r.fy, r.fy)));
  if (!(error <= 1e-12 * scale)) {
    return absl::InternalError(absl::StrCat(c.what, ": <Fx, y> - <x, F*y> is ", error, " at scale ", scale));
  }
  if (VolumeOf(c.y.shape()) > 0 && scale == 0) return absl::InternalError(absl::StrCat(c.what, ": F is zero"));
  return absl::OkStatus();
}

absl::Status CheckResults(const TilingCase& c, const Results& r) {
  ADJOIN_RETURN_IF_ERROR(HoldsParts(c.what, c.y, r.y, Reference(c, c.x_state.global)));
  if (c.x.dtype() != DType::kFloat64) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(CheckAdjoint(c, r));
  const Layout dual = *c.x.Dual();
  at::Tensor x = c.x_state.global.clone().requires_grad_();
  at::Tensor w = c.w_state.global.clone().requires_grad_();
  const at::Tensor linear = torch::autograd::grad({(w * Reference(c, x)).sum()}, {x})[0];
  ADJOIN_RETURN_IF_ERROR(HoldsParts(c.what + ", gradient", dual, r.gradient, linear));
  if (c.y.HasKind(Kind::kPartial)) return absl::OkStatus();  // a cube of partials is none of the sum
  at::Tensor g = at::zeros_like(x);
  Tensors second = {at::zeros_like(x), at::zeros_like(w)};
  if (w.numel() > 0) {  // LibTorch's repeat by 0 has a gradient, but that one has none
    g = torch::autograd::grad({(w * Reference(c, x).pow(3)).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    second = torch::autograd::grad({(g * c.v_state.global).sum()}, {x, w});
  }
  ADJOIN_RETURN_IF_ERROR(HoldsParts(c.what + ", gradient of the cube", dual, r.g, g.detach()));
  ADJOIN_RETURN_IF_ERROR(HoldsParts(c.what + ", second order", dual, r.second, second[0]));
  return HoldsParts(c.what + ", second order in the cotangent", c.y, r.dw, second[1]);
}

void RunCases(const std::vector<TilingCase>& cases, int ranks, TransportKind kind, uint64_t seed) {
  at::set_num_threads(1);
  std::vector<Results> results(cases.size(), Results(ranks));
  const absl::Status status = RunRanks(ranks, kind, seed, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      absl::Status one;
      try {
        one = RunCase(communicator, cases[i], static_cast<int64_t>(i) + 1, results[i]);
      } catch (...) {
        one = StatusFromCurrentException();
      }
      if (!one.ok()) return absl::Status(one.code(), absl::StrCat(cases[i].what, ": ", one.message()));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const absl::Status one = CheckResults(cases[i], results[i]);
    ASSERT_TRUE(one.ok()) << one;
  }
}

class ExpandRepeatTest : public testing::TestWithParam<bool> {};

TEST_P(ExpandRepeatTest, RandomLayoutsInFloat64) {
  Draw draw = Draw::FromEnvironment();
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::vector<TilingCase> cases;
    for (int i = 0; i < 150; ++i) cases.push_back(RandomTilingCase(draw, GetParam(), ranks, DType::kFloat64));
    RunCases(cases, ranks, TransportKind::kInMemoryDelayed, static_cast<uint64_t>(draw.Between(0, 1 << 30)));
    if (HasFailure()) return;
  }
}

TEST_P(ExpandRepeatTest, RandomLayoutsInOtherTypes) {
  Draw draw = Draw::FromEnvironment();
  std::vector<TilingCase> cases;
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kComplex64, DType::kInt64, DType::kUInt8}) {
    for (int i = 0; i < 30; ++i) cases.push_back(RandomTilingCase(draw, GetParam(), 4, dtype));
  }
  RunCases(cases, 4, TransportKind::kInMemoryDelayed, static_cast<uint64_t>(draw.Between(0, 1 << 30)));
}

TEST_P(ExpandRepeatTest, MovesOverUcx) {
  Draw draw = Draw::FromEnvironment();
  std::vector<TilingCase> cases;
  for (int i = 0; i < 20; ++i) cases.push_back(RandomTilingCase(draw, GetParam(), 4, DType::kFloat64));
  RunCases(cases, 4, TransportKind::kUcxSharedMemory, 1);
}

INSTANTIATE_TEST_SUITE_P(All, ExpandRepeatTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Expand" : "Repeat"; });

Layout On(std::vector<int64_t> shape, std::vector<int64_t> mesh, const std::vector<std::string>& placements,
          Layout::Cuts cuts = {}) {
  std::vector<Placement> parsed;
  for (const std::string& placement : placements) parsed.push_back(*Placement::Parse(placement));
  return *Layout::Create(std::move(shape), DType::kFloat64, *Mesh::Create(std::move(mesh)), parsed, std::move(cuts));
}

void RunOn(int ranks, const std::function<absl::Status(Communicator&)>& fn) {
  const absl::Status status = OnRanks(ranks, TransportKind::kInMemoryDelayed, 3, fn, absl::Seconds(30));
  EXPECT_TRUE(status.ok()) << status;
}

#define EXPECT_ON_RANK(condition) \
  if (!(condition)) return absl::InternalError("not so: " #condition)

TEST(ExpandTest, ReturnsAViewWhereTheSplitStays) {
  RunOn(2, [](Communicator& communicator) -> absl::Status {
    const Layout layout = On({4, 3, 1, 2}, {2}, {"S(3)"});
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Expand::Create(&communicator, layout, {2, 4, 3, 4, 2}, {1, "x"}));
    EXPECT_ON_RANK(f->output_layout() == On({2, 4, 3, 4, 2}, {2}, {"S(4)"}));
    EXPECT_ON_RANK(!f->moves() && f->BytesSent() == 0 && f->AdjointBytesSent() == 0);
    const at::Tensor global = at::arange(24, at::kDouble).reshape({4, 3, 1, 2});
    const at::Tensor x = global.narrow(3, communicator.rank(), 1).clone().requires_grad_();
    Tape tape;
    const at::Tensor y = f->Apply(x, tape);
    EXPECT_ON_RANK(SameNumbers(y.detach(), global.expand({2, 4, 3, 4, 2}).narrow(4, communicator.rank(), 1)));
    EXPECT_ON_RANK((y.sizes() == at::IntArrayRef{2, 4, 3, 4, 1}));
    EXPECT_ON_RANK(y.data_ptr() == x.data_ptr() && y.strides()[0] == 0 && y.strides()[3] == 0);
    tape.Backward(y.sum());
    EXPECT_ON_RANK(SameNumbers(x.grad(), at::full({4, 3, 1, 1}, 8.0, at::kDouble)));
    EXPECT_ON_RANK(communicator.BytesSent() == 0);
    return absl::OkStatus();
  });
}

TEST(ExpandTest, EachRankExpandsToItsOwnPartOfANewDim) {
  RunOn(3, [](Communicator& communicator) -> absl::Status {
    const Layout y_layout = On({7, 4}, {3}, {"S(0)"});
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Expand::CreateTo(&communicator, On({4}, {3}, {"B"}), y_layout, {1, "x"}));
    const at::Tensor x = at::arange(4, at::kDouble);
    const at::Tensor y = f->Forward(x);
    EXPECT_ON_RANK(y.size(0) == (communicator.rank() == 0 ? 3 : 2) && y.data_ptr() == x.data_ptr());
    EXPECT_ON_RANK(communicator.BytesSent() == 0);
    return absl::OkStatus();
  });
}

// One index on rank 1 grows to four on three ranks: two cells go to each of the others, and back when the operator
// itself is gone.
TEST(ExpandTest, KeepsAGrownDimSplitAndSendsOnlyCellsThatAreRead) {
  RunOn(4, [](Communicator& communicator) -> absl::Status {
    const Layout x_layout = On({1, 2}, {4}, {"S(0)"}, {{0, {0, 1, 0, 0}}});
    const Layout y_layout = On({4, 2}, {4}, {"S(0)"}, {{0, {1, 2, 0, 1}}});
    ADJOIN_ASSIGN_OR_RETURN(auto f, Expand::CreateTo(&communicator, x_layout, y_layout, {1, "x"}));
    const int rank = communicator.rank();
    EXPECT_ON_RANK(f->moves() && f->BytesSent() == (rank == 1 ? 2 * 2 * 8 : 0));
    const at::Tensor x = at::full({rank == 1 ? 1 : 0, 2}, 5.0, at::kDouble).requires_grad_();
    Tape tape;
    const at::Tensor y = f->Apply(x, tape);
    EXPECT_ON_RANK(SameNumbers(y.detach(), at::full({y_layout.LocalShape(rank)[0], 2}, 5.0, at::kDouble)));
    f.reset();
    tape.Backward((y * (rank + 1)).sum());
    EXPECT_ON_RANK(SameNumbers(x.grad(), at::full({rank == 1 ? 1 : 0, 2}, 1.0 + 2 * 2 + 4, at::kDouble)));
    // On one rank alone it stays there.
    ADJOIN_ASSIGN_OR_RETURN(const auto stays, Expand::Create(&communicator, x_layout, {6, -1}, {2, "x"}));
    EXPECT_ON_RANK(!stays->moves() && stays->output_layout() == On({6, 2}, {4}, {"S(0)"}, {{0, {0, 6, 0, 0}}}));
    return absl::OkStatus();
  });
}

TEST(RepeatTest, MovesNothingOntoAnOuterAxis) {
  RunOn(4, [](Communicator& communicator) -> absl::Status {
    const Layout x_layout = On({5}, {2, 2}, {"B", "S(0)"});
    const Layout y_layout = On({10}, {2, 2}, {"S(0)", "S(0)"}, {{0, {3, 2, 3, 2}}});
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Repeat::CreateTo(&communicator, x_layout, y_layout, {1, "x"}));
    const Box box = x_layout.BoxOf(communicator.rank());
    const at::Tensor x = at::arange(box[0].lo, box[0].hi, at::kDouble);
    const at::Tensor y = f->Forward(x);
    EXPECT_ON_RANK(!f->moves() && SameNumbers(x, y) && y.data_ptr() != x.data_ptr());
    EXPECT_ON_RANK(communicator.BytesSent() == 0);
    return absl::OkStatus();
  });
}

// Five cells cut 3 and 2, twice over cut 4 and 6: rank 0 lacks cell 3, rank 1 lacks cells 0, 1 and 2.
TEST(RepeatTest, KeepsASplitDimSplitAndSendsOnlyMissingCells) {
  RunOn(2, [](Communicator& communicator) -> absl::Status {
    const Layout x_layout = On({5}, {2}, {"S(0)"});
    const Layout y_layout = On({10}, {2}, {"S(0)"}, {{0, {4, 6}}});
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Repeat::CreateTo(&communicator, x_layout, y_layout, {1, "x"}));
    const int rank = communicator.rank();
    const at::Tensor global = at::arange(5, at::kDouble);
    const at::Tensor y = f->Forward(SliceOf(global, x_layout.BoxOf(rank)));
    EXPECT_ON_RANK(SameNumbers(y, SliceOf(global.repeat({2}), y_layout.BoxOf(rank))));
    EXPECT_ON_RANK(communicator.BytesSent() == (rank == 0 ? 3 : 1) * 8);
    return absl::OkStatus();
  });
}

TEST(RepeatTest, ZeroRepeatsMakeNoCellsAndZeroGradients) {
  RunOn(3, [](Communicator& communicator) -> absl::Status {
    for (const auto& [repeats, shape] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
             {{0, 2}, {0, 8}}, {{2, 0}, {10, 0}}, {{0, 1, 1}, {0, 5, 4}}}) {
      const Layout layout = On({5, 4}, {3}, {"S(0)"});
      ADJOIN_ASSIGN_OR_RETURN(const auto f, Repeat::Create(&communicator, layout, repeats, {1, "x"}));
      EXPECT_ON_RANK(f->output_layout().shape() == shape && !f->moves());
      const at::Tensor x = at::ones(layout.LocalShape(communicator.rank()), at::kDouble).requires_grad_();
      Tape tape;
      const at::Tensor y = f->Apply(x, tape);
      EXPECT_ON_RANK(y.sizes() == at::IntArrayRef(f->output_layout().LocalShape(communicator.rank())));
      EXPECT_ON_RANK(y.numel() == 0);
      tape.Backward(y.sum());
      EXPECT_ON_RANK(SameNumbers(x.grad(), at::zeros_like(x)));
    }
    return absl::OkStatus();
  });
}

TEST(ExpandRepeatErrorsTest, CreateSaysWhatIsWrong) {
  RunOn(1, [](Communicator& communicator) -> absl::Status {
    const auto refused = [](const absl::Status& status, const std::string& why) {
      EXPECT_TRUE(status.code() == absl::StatusCode::kInvalidArgument && absl::StrContains(status.message(), why))
          << status << "\nexpected: " << why;
    };
    const Layout x = On({4, 1}, {1}, {"S(0)"});
    Communicator* c = &communicator;
    refused(Expand::Create(c, x, {5, 1}, {1, "x"}).status(), "dim 0 has extent 4; only dims of extent 1 are expanded");
    refused(Expand::CreateTo(c, x, On({8, 1}, {1}, {"S(0)"}), {1, "x"}).status(), "dim 0 has extent 4; only dims");
    refused(Expand::Create(c, x, {-1, 4, 1}, {1, "x"}).status(), "dim 0 is new and needs a size");
    refused(Expand::CreateTo(c, x, On({4, 6}, {1}, {"B"}), {7, "h"}).status(),
            "operator 7 (h): expand: from float64 4x1 on 1 [0] S(0) to float64 4x6 on 1 [0] B: axis 0 goes from S(0) "
            "to B, legal is S(0)");
    refused(Repeat::Create(c, x, {2}, {1, "x"}).status(), "1 numbers for 2 dims");
    refused(Repeat::Create(c, x, {2, -2}, {1, "x"}).status(), "dim 1 has the negative number -2");
    refused(Repeat::CreateTo(c, x, On({6, 1}, {1}, {"S(0)"}), {1, "x"}).status(), "no multiple of the input's 4");
    refused(Repeat::Create(c, x, {2, 2}, {0, "x"}).status(), "the id is not in");
    refused(Repeat::Create(c, x, {2, 2}, {1, "x", -1}).status(), "operator 1 (x): repeat: no cell is filled");
    refused(Repeat::Create(c, On({4}, {2}, {"B"}), {2}, {1, "x"}).status(), "rank 1");
    return absl::OkStatus();
  });
}

TEST(ExpandRepeatErrorsTest, RefusesAnotherShapeThanTheLayouts) {
  RunOn(1, [](Communicator& communicator) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Repeat::Create(&communicator, On({4}, {1}, {"B"}), {2}, {1, "x"}));
    Tape tape;
    const at::Tensor bad_ones[] = {{}, at::ones({3}, at::kDouble), at::ones({4}, at::kFloat)};
    for (const at::Tensor& bad : bad_ones) {
      for (const auto& run : std::vector<std::function<void()>>{[&] { f->Apply(bad, tape); }, [&] { f->Forward(bad); },
                                                                [&] { f->Adjoint(bad); }}) {
        try {
          run();
        } catch (const StatusException& error) {
          EXPECT_ON_RANK(
              absl::StrContains(error.status().message(), "operator 1 (x): repeat, rank 0: expected Double ["));
          continue;
        }
        return absl::InternalError("taken");
      }
    }
    return communicator.status().ok() ? absl::InternalError("the others would wait") : absl::OkStatus();
  });
}

TEST(ExpandRepeatErrorsTest, RefusesASecondWait) {
  for (const char* placement : {"B", "S(0)"}) {
    RunOn(2, [&](Communicator& communicator) -> absl::Status {
      const Layout layout = On({4}, {2}, {placement});
      const auto f = Repeat::Create(&communicator, layout, {2}, {1, "x"});
      // Any of the calls may end with the other rank's failure already, which stays with the communicator.
      if (!f.ok()) return absl::StrContains(f.status().message(), "waited for twice") ? absl::OkStatus() : f.status();
      Tape tape;
      try {
        const auto pending = (*f)->Start(at::ones(layout.LocalShape(communicator.rank()), at::kDouble), tape);
        const at::Tensor y = pending->Wait(tape);
        EXPECT_ON_RANK(SameNumbers(y, at::ones((*f)->output_layout().LocalShape(communicator.rank()), at::kDouble)));
        pending->Wait(tape);
      } catch (const StatusException& error) {
        EXPECT_ON_RANK(absl::StrContains(error.status().message(), "waited for twice"));
        return absl::OkStatus();
      }
      return absl::InternalError("taken");
    });
  }
}

TEST(ExpandRepeatErrorsTest, RecordsNoGradientForIntegers) {
  RunOn(2, [](Communicator& communicator) -> absl::Status {
    const Layout layout = On({3}, {2}, {"S(0)"}).WithDType(DType::kInt64);
    ADJOIN_ASSIGN_OR_RETURN(const auto f, Repeat::Create(&communicator, layout, {2}, {1, "x"}));
    Tape tape;
    const Box box = layout.BoxOf(communicator.rank());
    const at::Tensor y = f->Apply(at::arange(box[0].lo, box[0].hi), tape);
    EXPECT_ON_RANK(!y.requires_grad());
    EXPECT_ON_RANK(SameNumbers(y, SliceOf(at::arange(3).repeat({2}), f->output_layout().BoxOf(communicator.rank()))));
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace adjoin
