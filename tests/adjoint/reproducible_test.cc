// However messages are delayed, the same input gives the same bits: every movement, types whose sums are rounded, small
// and large tensors, 20 runs.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/real.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/movement_cases.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

constexpr int kRuns = 20;

// Numbers of many magnitudes and both signs: another order of additions would be seen.
at::Tensor Rounded(Draw& draw, const at::Tensor& like) {
  const at::Tensor wide = RandomTensor(draw, like.sizes().vec(), DType::kComplex128) *
                          at::exp(2 * RandomTensor(draw, like.sizes().vec(), DType::kFloat64));
  return (c10::isComplexType(like.scalar_type()) ? wide : at::real(wide)).to(like.scalar_type()).contiguous();
}

// Every rank's F x and F* y of every case, one after the other.
absl::Status Outcome(const std::vector<MovementCase>& cases, int ranks, TransportKind transport_kind, uint64_t seed,
                     std::vector<at::Tensor>* outcome) {
  outcome->assign(cases.size() * ranks * 2, at::Tensor());
  return RunRanks(
      ranks, transport_kind, seed,
      [&](Transport& transport) -> absl::Status {
        HostMemory memory;
        Communicator communicator(&transport, &memory, {0, absl::Seconds(60)});
        const int rank = transport.rank();
        try {
          for (std::size_t i = 0; i < cases.size(); ++i) {
            ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<Movement> f,
                                    cases[i].create(&communicator, static_cast<int64_t>(i) + 1));
            (*outcome)[(i * ranks + rank) * 2] = f->Forward(cases[i].x[rank]);
            (*outcome)[(i * ranks + rank) * 2 + 1] = f->Adjoint(cases[i].y[rank]);
          }
        } catch (...) {
          return StatusFromCurrentException();
        }
        return absl::OkStatus();
      },
      absl::Minutes(4));
}

void ExpectSameBits(const std::vector<MovementCase>& cases, int ranks) {
  std::vector<at::Tensor> reference;
  const absl::Status without_delays = Outcome(cases, ranks, TransportKind::kInMemory, 0, &reference);
  ASSERT_TRUE(without_delays.ok()) << without_delays;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    std::vector<at::Tensor> outcome;
    const absl::Status status = Outcome(cases, ranks, TransportKind::kInMemoryDelayed, seed, &outcome);
    ASSERT_TRUE(status.ok()) << status;
    for (std::size_t i = 0; i < outcome.size(); ++i) {
      ASSERT_TRUE(SameBits(outcome[i], reference[i]))
          << cases[i / 2 / ranks].what << ": " << (i % 2 == 0 ? "F x" : "F* y") << ", delays of seed " << seed;
    }
  }
}

TEST(ReproducibleTest, GivesEveryMovementTheSameBits) {
  at::set_num_threads(1);
  Draw draw = Draw::FromEnvironment();
  for (int ranks : {3, 4, 7, 8}) {
    std::vector<MovementCase> cases;
    for (CaseKind kind : kAllCaseKinds) {
      for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kComplex64}) {
        MovementCase c = RandomCase(draw, kind, ranks, dtype);
        for (at::Tensor& t : c.x) t = Rounded(draw, t);
        for (at::Tensor& t : c.y) t = Rounded(draw, t);
        c.options.algorithms = draw.OneIn(2) ? AlgorithmChoice::kGroups : AlgorithmChoice::kCheapest;
        cases.push_back(std::move(c));
      }
    }
    ExpectSameBits(std::move(cases), ranks);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ReproducibleTest, GivesSumsOfManySegmentsTheSameBits) {
  at::set_num_threads(1);
  Draw draw = Draw::FromEnvironment();
  const std::vector<int64_t> shape = {37, 2001};
  const Layout owner = Layout::Owner(shape, DType::kFloat32, 2);
  const Layout all = *Layout::Replicated(shape, DType::kFloat32, {0, 1, 2, 3, 4});
  const Layout split = *Layout::Partition(shape, DType::kFloat32, {1, 5}, {4, 2, 0, 1, 3});
  std::vector<MovementCase> cases;
  for (AlgorithmChoice choice : {AlgorithmChoice::kCheapest, AlgorithmChoice::kGroups}) {
    for (const Layout& to : {owner, all, split}) {
      cases.push_back(RedistributeCase(draw, *all.Dual(), to, 5));
      cases.back().options.algorithms = choice;
    }
  }
  ExpectSameBits(std::move(cases), 5);
}

}  // namespace
}  // namespace adjoin
