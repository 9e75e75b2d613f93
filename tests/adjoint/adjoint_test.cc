// Every movement proves itself, on 1 to 6 ranks and every transport: the adjoint identity on independent cells and on
// valid states, the same values as the operator on the gathered tensor, and its gradients through autograd.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/movement_cases.h"

namespace adjoin {
namespace {

// What the ranks found, per rank.
struct Results {
  explicit Results(int ranks) : fx(ranks), fx_valid(ranks), fy(ranks) {}
  std::vector<torch::Tensor> fx;
  std::vector<torch::Tensor> fx_valid;
  std::vector<torch::Tensor> fy;
};

bool SameBits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && torch::equal(a, b);
}

// First and second order through the tape against the bare operators, which AdjointHolds proves.
absl::Status CheckGradients(Movement& f, const torch::Tensor& x_values, const torch::Tensor& w_values,
                            const torch::Tensor& v) {
  {
    torch::Tensor x = x_values.clone().requires_grad_();
    Tape tape;
    tape.Backward((f.Apply(x, tape) * w_values).sum());
    if (!SameBits(x.grad(), f.Adjoint(w_values))) return absl::InternalError("the gradient of sum(w F x) is not F* w");
  }
  torch::Tensor x = x_values.clone().requires_grad_();
  torch::Tensor w = w_values.clone().requires_grad_();
  Tape tape;
  const torch::Tensor loss = (w * f.Apply(x, tape).pow(3)).sum();
  const torch::Tensor g = tape.Grad({loss}, {x}, {}, /*create_graph=*/true)[0];
  tape.Backward((g * v).sum());
  // g = F*(3 w (F x)^2), so d<g, v>/dx = F*(6 w F x F v) and d<g, v>/dw = 3 (F x)^2 F v.
  const torch::Tensor fx = f.Forward(x_values);
  const torch::Tensor fv = f.Forward(v);
  const torch::Tensor first = f.Adjoint(3 * w_values * fx.pow(2));
  const torch::Tensor second = f.Adjoint(6 * w_values * fx * fv);
  if (!torch::allclose(g, first, 1e-12, 1e-12)) return absl::InternalError("the gradient of sum(w (F x)^3) is wrong");
  if (!torch::allclose(x.grad(), second, 1e-12, 1e-12)) return absl::InternalError("the second derivative is wrong");
  if (!torch::allclose(w.grad(), 3 * fx.pow(2) * fv, 1e-12, 1e-12)) {
    return absl::InternalError("the derivative of the gradient in its cotangent is wrong");
  }
  return absl::OkStatus();
}

// One rank's part of one case.
absl::Status RunCase(Communicator& communicator, const MovementCase& c, int64_t id, Results& results) {
  const int rank = communicator.rank();
  ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<Movement> f, c.create(&communicator, id));
  const int64_t before = communicator.BytesSent();
  results.fx_valid[rank] = f->Forward(c.valid[rank]);
  if (communicator.BytesSent() - before != f->forward_plan().BytesSent()) {
    return absl::InternalError(absl::StrCat(c.what, ": sent ", communicator.BytesSent() - before,
                                            " bytes, planned ", f->forward_plan().BytesSent()));
  }
  // Strided input: the same values in another order of memory.
  torch::Tensor strided = c.x[rank].dim() > 1 ? c.x[rank].transpose(0, -1).contiguous().transpose(0, -1) : c.x[rank];
  results.fx[rank] = f->Forward(strided);
  results.fy[rank] = f->Adjoint(c.y[rank]);
  if (c.linear && (c.dtype == DType::kFloat64)) {
    const absl::Status gradients = CheckGradients(*f, c.x[rank], c.y[rank], c.valid[rank]);
    if (!gradients.ok()) return absl::InternalError(absl::StrCat(c.what, ": ", gradients.message()));
  }
  return absl::OkStatus();
}

void RunCases(const std::vector<MovementCase>& cases, int ranks, TransportKind transport_kind, uint64_t seed) {
  std::vector<Results> results(cases.size(), Results(ranks));
  const absl::Status status = RunRanks(ranks, transport_kind, seed, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      try {
        ADJOIN_RETURN_IF_ERROR(RunCase(communicator, cases[i], static_cast<int64_t>(i) + 1, results[i]));
      } catch (...) {
        const absl::Status thrown = StatusFromCurrentException();
        return absl::Status(thrown.code(), absl::StrCat(cases[i].what, ": ", thrown.message()));
      }
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const MovementCase& c = cases[i];
    const Results& r = results[i];
    const absl::Status values = ValuesMatch(c, r.fx_valid);
    EXPECT_TRUE(values.ok()) << values;
    if (!c.linear) continue;
    const absl::Status free = AdjointHolds(c, c.x, r.fx, c.y, r.fy);
    EXPECT_TRUE(free.ok()) << free;
    const absl::Status valid = AdjointHolds(c, c.valid, r.fx_valid, c.y, r.fy);
    EXPECT_TRUE(valid.ok()) << valid;
    if (testing::Test::HasFailure()) return;
  }
}

bool InMemory(TransportKind kind) { return kind == TransportKind::kInMemory || kind == TransportKind::kInMemoryDelayed; }

class AdjointTest : public testing::TestWithParam<std::tuple<TransportKind, CaseKind>> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }

  // Real transports take long to set up, so they get fewer and larger batches, of mixed types.
  void Run(int ranks, std::vector<DType> dtypes, int cases_per_type) {
    const auto [transport, kind] = GetParam();
    Draw draw = Draw::FromEnvironment();
    std::vector<MovementCase> cases;
    for (DType dtype : dtypes) {
      for (int i = 0; i < cases_per_type; ++i) cases.push_back(RandomCase(draw, kind, ranks, dtype));
    }
    RunCases(cases, ranks, transport, static_cast<uint64_t>(draw.Between(0, 1 << 30)));
  }
};

TEST_P(AdjointTest, Float64) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    if (!InMemory(std::get<0>(GetParam())) && ranks % 3 != 0) continue;
    Run(ranks, {DType::kFloat64}, InMemory(std::get<0>(GetParam())) ? 30 : 10);
    if (HasFailure()) return;
  }
}

TEST_P(AdjointTest, OtherTypes) {
  for (int ranks : {2, 4, 5}) {
    if (!InMemory(std::get<0>(GetParam())) && ranks != 4) continue;
    Run(ranks,
        {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kComplex128, DType::kComplex64, DType::kInt64},
        InMemory(std::get<0>(GetParam())) ? 8 : 2);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdjointTest,
                         testing::Combine(testing::ValuesIn(kAllTransportKinds), testing::ValuesIn(kAllCaseKinds)),
                         [](const auto& info) {
                           return ToString(std::get<0>(info.param)) + "_" + ToString(std::get<1>(info.param));
                         });

// Every pair of placements of one axis, on 1 to 4 ranks.
TEST(AdjointOneAxisTest, NinePairs) {
  torch::set_num_threads(1);
  Draw draw = Draw::FromEnvironment();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Mesh mesh = *Mesh::Create({ranks});
    std::vector<MovementCase> cases;
    for (const char* from : {"S(0)", "S(1)", "B", "P"}) {
      for (const char* to : {"S(0)", "S(1)", "B", "P"}) {
        const Layout x = *Layout::Create({5, 3}, DType::kFloat64, mesh, {*Placement::Parse(from)});
        const Layout y = *Layout::Create({5, 3}, DType::kFloat64, mesh, {*Placement::Parse(to)});
        cases.push_back(RedistributeCase(draw, x, y, ranks));
      }
    }
    RunCases(cases, ranks, TransportKind::kInMemoryDelayed, ranks);
  }
}

// Large enough for several segments of every collective algorithm.
TEST(AdjointLargeTest, SegmentedCollectives) {
  torch::set_num_threads(1);
  Draw draw = Draw::FromEnvironment();
  const std::vector<int64_t> shape = {300, 701};
  std::vector<MovementCase> cases;
  const Layout owner = Layout::Owner(shape, DType::kFloat32, 2);
  const Layout all = *Layout::Replicated(shape, DType::kFloat32, {0, 1, 2, 3, 4});
  const Layout others = *Layout::Replicated(shape, DType::kFloat32, {4, 1, 0, 3});
  cases.push_back(RedistributeCase(draw, owner, all, 5));
  cases.push_back(RedistributeCase(draw, owner, others, 5));
  cases.push_back(RedistributeCase(draw, *all.Dual(), owner, 5));
  cases.push_back(RedistributeCase(draw, *others.Dual(), owner, 5));
  cases.push_back(RedistributeCase(draw, *all.Dual(), all, 5));
  for (TransportKind kind : kAllTransportKinds) RunCases(cases, 5, kind, 7);
}

// However the messages are delayed, the bits are the same.
TEST(AdjointReproducibleTest, SameBitsWhateverTheOrderOfArrival) {
  torch::set_num_threads(1);
  Draw draw = Draw::FromEnvironment();
  std::vector<MovementCase> cases;
  for (CaseKind kind : {CaseKind::kSumReduce, CaseKind::kAllSumReduce, CaseKind::kHalo, CaseKind::kRedistribute}) {
    for (int i = 0; i < 5; ++i) cases.push_back(RandomCase(draw, kind, 4, DType::kFloat32));
  }
  std::vector<torch::Tensor> reference;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<torch::Tensor> outcome(cases.size() * 8);
    const absl::Status status = RunRanks(4, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) {
      HostMemory memory;
      Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto f = cases[i].create(&communicator, static_cast<int64_t>(i) + 1);
        if (!f.ok()) return f.status();
        outcome[i * 8 + transport.rank()] = (*f)->Forward(cases[i].x[transport.rank()]);
        outcome[i * 8 + 4 + transport.rank()] = (*f)->Adjoint(cases[i].y[transport.rank()]);
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    if (reference.empty()) reference = outcome;
    for (std::size_t i = 0; i < outcome.size(); ++i) {
      ASSERT_TRUE(SameBits(outcome[i], reference[i])) << cases[i / 8].what << ", delays of seed " << seed;
    }
  }
}

}  // namespace
}  // namespace adjoin
