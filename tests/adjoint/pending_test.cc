// Movements in two halves: several in flight, waited for in any order, give the same bits as in one go, gradients of
// first and second order included; what is forgotten or done twice ends with a message, not with a hang.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/movement_cases.h"
#include "tests/adjoint/on_ranks.h"

namespace adjoin {
namespace {

// The order of starts and waits, the same on every rank: `start` of the case, or its wait, or both in one go.
struct Action {
  enum class Kind { kStart, kWait, kApply };
  Kind kind;
  std::size_t index;
};

std::vector<Action> RandomProgram(Draw& draw, std::size_t cases) {
  std::vector<Action> program;
  std::vector<std::size_t> in_flight;
  for (std::size_t next = 0; next < cases || !in_flight.empty();) {
    if (next < cases && (in_flight.empty() || !draw.OneIn(3))) {
      if (draw.OneIn(5)) {
        program.push_back({Action::Kind::kApply, next});
      } else {
        program.push_back({Action::Kind::kStart, next});
        in_flight.push_back(next);
      }
      ++next;
    } else {
      const std::size_t i = draw.Between(0, static_cast<int64_t>(in_flight.size()) - 1);
      program.push_back({Action::Kind::kWait, in_flight[i]});
      in_flight.erase(in_flight.begin() + i);
    }
  }
  return program;
}

// Results, gradients and second derivatives of sum of w_i (F_i x_i)^3, with every F_i as the program says.
std::vector<at::Tensor> Derivatives(const std::vector<std::shared_ptr<Movement>>& f,
                                    const std::vector<MovementCase>& cases, int rank,
                                    const std::vector<Action>& program) {
  std::vector<at::Tensor> x;
  for (const MovementCase& c : cases) x.push_back(c.x[rank].clone().requires_grad_());
  std::vector<at::Tensor> y(cases.size());
  std::vector<std::unique_ptr<Movement::Pending>> pending(cases.size());
  Tape tape;
  for (const Action& action : program) {
    const std::size_t i = action.index;
    switch (action.kind) {
      case Action::Kind::kApply: y[i] = f[i]->Apply(x[i], tape); break;
      case Action::Kind::kStart: pending[i] = f[i]->Start(x[i], tape); break;
      case Action::Kind::kWait: y[i] = pending[i]->Wait(tape); break;
    }
  }
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < cases.size(); ++i) loss = loss + (cases[i].y[rank] * y[i].pow(3)).sum();
  const std::vector<at::Tensor> first = tape.Grad({loss}, x, {}, /*create_graph=*/true);
  at::Tensor along = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < cases.size(); ++i) along = along + (first[i] * cases[i].valid[rank]).sum();
  const std::vector<at::Tensor> second = tape.Grad({along}, x, {});
  std::vector<at::Tensor> all;
  for (const auto& part : {y, first, second}) {
    for (const at::Tensor& t : part) all.push_back(t.detach());
  }
  return all;
}

// `id` is the first movement's; the next ones follow.
absl::Status SameAsInOneGo(Communicator& communicator, const std::vector<MovementCase>& cases,
                           const std::vector<Action>& program, int64_t id) {
  std::vector<std::shared_ptr<Movement>> f;
  std::vector<Action> in_one_go;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(auto movement, cases[i].create(&communicator, id + static_cast<int64_t>(i)));
    f.push_back(std::move(movement));
    in_one_go.push_back({Action::Kind::kApply, i});
  }
  const int rank = communicator.rank();
  const std::vector<at::Tensor> expected = Derivatives(f, cases, rank, in_one_go);
  const std::vector<at::Tensor> got = Derivatives(f, cases, rank, program);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (at::equal(got[i], expected[i])) continue;
    const char* what[] = {"result", "gradient", "second derivative"};
    return absl::InternalError(absl::StrCat("another ", what[i / cases.size()], " of ", cases[i % cases.size()].what));
  }
  return absl::OkStatus();
}

class PendingTest : public testing::TestWithParam<TransportKind> {};

TEST_P(PendingTest, GivesTheSameBitsInAnyOrder) {
  Draw draw = Draw::FromEnvironment();
  for (int ranks : {1, 3, 4}) {
    std::vector<std::vector<MovementCase>> rounds(4);
    std::vector<std::vector<Action>> programs;
    for (std::vector<MovementCase>& cases : rounds) {
      for (CaseKind kind : kAllCaseKinds) {
        cases.push_back(RandomCase(draw, kind, ranks, DType::kFloat64));
      }
      programs.push_back(RandomProgram(draw, cases.size()));
    }
    const absl::Status status = OnRanks(ranks, GetParam(), 3, [&](Communicator& communicator) -> absl::Status {
      for (std::size_t i = 0; i < rounds.size(); ++i) {
        ADJOIN_RETURN_IF_ERROR(SameAsInOneGo(communicator, rounds[i], programs[i], 1 + 100 * static_cast<int64_t>(i)));
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << ranks << " ranks: " << status;
  }
}

constexpr int kRanks = 3;

absl::StatusOr<std::shared_ptr<Movement>> Gather(Communicator& communicator, bool differentiable = true) {
  return Redistribute::Create(&communicator, *Layout::Partition({10}, DType::kFloat64, {kRanks}, {0, 1, 2}),
                              *Layout::Replicated({10}, DType::kFloat64, {0, 1, 2}), {1, "gather", 0, differentiable});
}

at::Tensor Part(int rank, double value) { return at::full({rank == 0 ? 4 : 3}, value, at::kDouble); }

// Two executions of one operator in flight all the time, with gradients and without.
TEST_P(PendingTest, AllowsTwoExecutionsOfOneOperator) {
  const absl::Status status = OnRanks(kRanks, GetParam(), 3, [](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank();
    for (bool differentiable : {true, false}) {
      ADJOIN_ASSIGN_OR_RETURN(const auto gather, Gather(communicator, differentiable));
      at::Tensor x = Part(rank, 1).requires_grad_();
      Tape tape;
      at::Tensor loss = at::zeros({}, at::kDouble);
      std::unique_ptr<Movement::Pending> before = gather->Start(x, tape);
      for (int step = 2; step < 12; ++step) {
        std::unique_ptr<Movement::Pending> next = gather->Start(x * step, tape);
        const at::Tensor y = before->Wait(tape);
        if (!at::equal(y.detach(), at::full({10}, step - 1.0, at::kDouble))) {
          return absl::InternalError(absl::StrCat("step ", step));
        }
        loss = loss + y.sum();
        before = std::move(next);
      }
      loss = loss + before->Wait(tape).sum();
      tape.Backward(loss);
      if (x.grad().defined() != differentiable) return absl::InternalError("recorded though not differentiable");
      // 1 + ... + 11, from three ranks
      if (differentiable && !at::equal(x.grad(), Part(rank, 3 * 66))) return absl::InternalError("x.grad is wrong");
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(All, PendingTest, testing::ValuesIn(kAllTransportKinds),
                         [](const auto& info) { return ToString(info.param); });

// What `fn` throws on rank 1, and that the other ranks, which wait for it, end soon with the same first error.
void ExpectEnds(const std::function<void(Movement&, const at::Tensor& x, Tape&)>& fn, const std::string& message) {
  at::set_num_threads(1);
  const auto start = Deadline::Clock::now();
  const std::vector<absl::Status> all =
      RunRanksCollect(kRanks, TransportKind::kInMemory, 1, [&](Transport& transport) -> absl::Status {
        HostMemory memory;
        Communicator communicator(&transport, &memory, {0, absl::Seconds(60)});
        ADJOIN_ASSIGN_OR_RETURN(const auto gather, Gather(communicator));
        const at::Tensor x = Part(communicator.rank(), 1).requires_grad_();
        Tape tape;
        try {
          if (communicator.rank() == 1) {
            fn(*gather, x, tape);
            return communicator.status();
          }
          // More than what any `fn` does.
          for (int i = 0; i < 8; ++i) gather->Apply(x, tape);
        } catch (...) {
          return StatusFromCurrentException();
        }
        return absl::OkStatus();
      });
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(all[1].code(), absl::StatusCode::kFailedPrecondition) << all[1];
  EXPECT_EQ(all[1].message(), message);
  for (int rank : {0, 2}) EXPECT_TRUE(absl::StrContains(all[rank].message(), message)) << all[rank];
}

TEST(PendingErrorsTest, FailsWhereAnExecutionIsDroppedWithoutWait) {
  ExpectEnds([](Movement& f, const at::Tensor& x, Tape& tape) { f.Start(x, tape); },
             "operator 1 (gather) forward, rank 1: started, and dropped without Wait");
}

TEST(PendingErrorsTest, RefusesAThirdExecution) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto first = f.Start(x, tape);
        const auto second = f.Start(x, tape);
        f.Start(x, tape);
      },
      "operator 1 (gather) forward, rank 1: two executions are started and not waited for; wait for one first");
}

TEST(PendingErrorsTest, RefusesWaitsInTheWrongOrder) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto first = f.Start(x, tape);
        f.Start(x, tape)->Wait(tape);
      },
      "operator 1 (gather) forward, rank 1: an earlier execution was not waited for");
}

TEST(PendingErrorsTest, RefusesASecondWait) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto pending = f.Start(x, tape);
        pending->Wait(tape);
        pending->Wait(tape);
      },
      "operator 1 (gather) forward, rank 1: waited for twice");
}

TEST(PendingErrorsTest, RefusesApplyBetweenStartAndWait) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto pending = f.Start(x, tape);
        f.Apply(x, tape);
      },
      "operator 1 (gather), rank 1: applied while one that was started is not waited for");
}

TEST(PendingErrorsTest, RefusesAWaitWithoutGradients) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto pending = f.Start(x, tape);
        at::NoGradGuard evaluation;
        pending->Wait(tape);
      },
      "operator 1 (gather) forward, rank 1: started with gradients, waited for without");
}

TEST(PendingErrorsTest, RefusesBackwardBeforeWait) {
  ExpectEnds(
      [](Movement& f, const at::Tensor& x, Tape& tape) {
        const auto pending = f.Start(x, tape);
        tape.Backward(at::Tensor());
      },
      "operator 1 (gather) forward, rank 1: the backward of its start comes before that of its wait");
}

// The graph owns the movement, and nothing owns the graph when it is gone.
TEST(PendingLifetimeTest, KeepsTheMovementAliveByTheGraphButNotTheGraph) {
  const absl::Status status =
      OnRanks(kRanks, TransportKind::kInMemory, 1, [](Communicator& communicator) -> absl::Status {
        std::weak_ptr<Movement> alive;
        for (bool backward : {true, false}) {
          at::Tensor x = Part(communicator.rank(), 1).requires_grad_();
          Tape tape;
          at::Tensor loss;
          {
            ADJOIN_ASSIGN_OR_RETURN(const auto gather, Gather(communicator));
            alive = gather;
            loss = gather->Start(x, tape)->Wait(tape).sum();
          }
          if (alive.expired()) return absl::InternalError("the graph does not own the movement");
          if (backward) {
            tape.Backward(loss);
            if (!at::equal(x.grad(), Part(communicator.rank(), 3))) return absl::InternalError("x.grad is wrong");
          }
          loss = at::Tensor();
          tape.Advance(at::Tensor());
          if (!alive.expired()) return absl::InternalError("something still owns the movement");
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace adjoin
