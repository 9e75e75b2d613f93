// What the named movements refuse, and a move: the source is cleared, and its gradient is what comes back alone.
#include <functional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/all_gather.h"
#include "primitives/all_to_all.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/gather.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/reduce_scatter.h"
#include "primitives/scatter.h"
#include "primitives/send_receive.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/on_ranks.h"

namespace adjoin {
namespace {

constexpr DType kType = DType::kFloat64;

Layout On(std::vector<int64_t> mesh, std::vector<std::string> placements, Layout::Cuts cuts = {}) {
  std::vector<Placement> parsed;
  for (const std::string& placement : placements) parsed.push_back(*Placement::Parse(placement));
  return *Layout::Create({8, 6}, kType, *Mesh::Create(mesh), parsed, cuts);
}

void ExpectRefused(const absl::Status& status, const std::string& why) {
  EXPECT_TRUE(!status.ok() && absl::StrContains(status.message(), why)) << status << "\nexpected: " << why;
}

TEST(NamedMovementsTest, ScatterGoesFromOneRankToASplit) {
  const Layout owner = Layout::Owner({8, 6}, kType, 0);
  EXPECT_TRUE(Scatter::Check(owner, On({2, 2}, {"S(0)", "S(1)"})).ok());
  EXPECT_TRUE(Scatter::Check(owner, On({2, 1}, {"S(0)", "B"})).ok());
  ExpectRefused(Scatter::Check(owner, On({2, 2}, {"S(0)", "B"})), "axis 1 is B, expected a split");
  ExpectRefused(Scatter::Check(On({2}, {"B"}), On({2}, {"S(0)"})), "the source lies on 2 ranks");
  ExpectRefused(Scatter::Check(owner, Layout::Owner({8, 5}, kType, 0)), "shape or dtype differ");
}

TEST(NamedMovementsTest, AllGatherStaysAlongTheGatheredAxes) {
  EXPECT_TRUE(AllGather::Check(On({2, 2}, {"S(0)", "S(0)"}), On({2, 2}, {"S(0)", "B"})).ok());
  EXPECT_TRUE(AllGather::Check(On({2, 2}, {"S(0)", "P"}), On({2, 2}, {"B", "P"})).ok());
  EXPECT_TRUE(AllGather::Check(On({3}, {"S(0)"}, {{0, {7, 0, 1}}}), On({3}, {"B"})).ok());
  ExpectRefused(AllGather::Check(On({2, 2}, {"S(0)", "S(0)"}), On({2, 2}, {"B", "S(0)"})),
                "axis 1 still splits dim 0 inside axis 0");
  ExpectRefused(AllGather::Check(On({2}, {"S(0)"}), On({2}, {"S(1)"})), "axis 0 goes from S(0) to S(1)");
  ExpectRefused(AllGather::Check(On({2}, {"S(0)"}), On({2}, {"S(0)"}, {{0, {5, 3}}})), "dim 0 is cut differently");
  ExpectRefused(AllGather::Check(On({2, 2}, {"S(0)", "S(1)"}), On({4}, {"B"})), "the meshes differ");
}

TEST(NamedMovementsTest, AllToAllStaysAlongItsAxis) {
  EXPECT_TRUE(AllToAll::Check(On({4}, {"S(0)"}), On({4}, {"S(1)"})).ok());
  EXPECT_TRUE(AllToAll::Check(On({4}, {"S(0)"}), On({4}, {"S(0)"})).ok());
  EXPECT_TRUE(AllToAll::Check(On({2, 2}, {"S(1)", "S(0)"}), On({2, 2}, {"S(1)", "S(1)"})).ok());
  ExpectRefused(AllToAll::Check(On({2, 2}, {"S(0)", "S(1)"}), On({2, 2}, {"S(1)", "S(1)"})), "data would leave axis 0");
  ExpectRefused(AllToAll::Check(On({2, 2}, {"S(0)", "S(1)"}), On({2, 2}, {"S(1)", "S(0)"})),
                "axes 0 and 1 change, expected one");
  ExpectRefused(AllToAll::Check(On({2}, {"S(0)"}), On({2}, {"B"})), "expected two splits");
  ExpectRefused(AllToAll::Check(On({2}, {"S(0)"}), On({2}, {"S(0)"}, {{0, {5, 3}}})), "dim 0 is cut differently");
}

TEST(NamedMovementsTest, CreateRefusesFromTheAdjointsSide) {
  const absl::Status status = RunRanks(1, TransportKind::kInMemory, 1, [](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {0, absl::Seconds(5)});
    const Layout split = On({2}, {"S(0)"});
    ExpectRefused(Gather::Create(&communicator, split, On({2}, {"B"}), {1, "y"}).status(),
                  "gather, seen from its adjoint");
    ExpectRefused(ReduceScatter::Create(&communicator, split, split.WithDType(DType::kFloat32), {1, "y"}).status(),
                  "reduce-scatter, seen from its adjoint");
    ExpectRefused(SendReceive::Create(&communicator, split, Layout::Owner({8, 6}, kType, 0), {1, "y"}).status(),
                  "lies on 2 ranks, expected one");
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

absl::Status RunThree(const std::function<absl::Status(Communicator&, Movement&)>& fn) {
  const auto on_rank = [&](Communicator& communicator) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto send, SendReceive::Create(&communicator, Layout::Owner({4}, kType, 2),
                                                                 Layout::Owner({4}, kType, 0), {1, "h"}));
    return fn(communicator, *send);
  };
  return OnRanks(3, TransportKind::kInMemoryDelayed, 5, on_rank, absl::Seconds(5));
}

absl::Status Expect(const std::string& what, const at::Tensor& got, const at::Tensor& expected) {
  if (got.defined() && at::equal(got, expected)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " is wrong"));
}

// x -> 3 x is moved (or copied) to rank 0, which weighs it by 5; rank 2 then uses what it has left, weighed by 7.
TEST(NamedMovementsTest, ClearsTheSourceOfAMoveAndAddsGradientsOfACopy) {
  for (const bool move : {true, false}) {
    const absl::Status status = RunThree([&](Communicator& communicator, Movement& send) -> absl::Status {
      const int rank = communicator.rank();
      at::Tensor leaf = at::arange(rank == 2 ? 4 : 0, at::kDouble).requires_grad_();
      at::Tensor x = leaf * 3;
      Tape tape;
      const at::Tensor y = move ? SendReceive::Move(send, x, tape) : send.Apply(x, tape);
      const at::Tensor sent = 3 * at::arange(4, at::kDouble);
      if (rank == 0) ADJOIN_RETURN_IF_ERROR(Expect("y", y, sent));
      if (rank != 0 && y.numel() > 0) return absl::InternalError("a rank that is no destination got something");
      if (rank == 2) ADJOIN_RETURN_IF_ERROR(Expect("x", x, move ? at::zeros_like(sent) : sent));
      tape.Backward(y.sum() * 5 + x.sum() * 7);
      if (rank != 2) return absl::OkStatus();
      return Expect("x.grad", leaf.grad(), at::full({4}, move ? 15.0 : 36.0, at::kDouble));
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(NamedMovementsTest, RefusesToMoveALeafAndLetsNoRankWait) {
  const absl::Status status = RunThree([](Communicator& communicator, Movement& send) -> absl::Status {
    at::Tensor x = at::ones({communicator.rank() == 2 ? 4 : 0}, at::kDouble).requires_grad_();
    Tape tape;
    try {
      SendReceive::Move(send, x, tape);
    } catch (const StatusException& error) {
      ExpectRefused(error.status(), "operator 1 (h): the source of a move cannot be cleared: a leaf Variable");
      return communicator.rank() == 2 ? absl::OkStatus() : error.status();
    }
    return communicator.rank() == 2 ? absl::InternalError("a leaf was cleared") : absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace adjoin
