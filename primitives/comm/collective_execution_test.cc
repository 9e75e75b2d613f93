// Collectives in flight beside each other over a transport whose sends read their buffers late; the same bits
// everywhere.
#include "primitives/comm/collective_execution.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/late_transport.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

MovementPlan PlanOf(const Layout& from, const Layout& to, int rank) {
  return *MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank, AlgorithmChoice::kGroups);
}

template <typename T>
Buffer BufferOf(const std::shared_ptr<std::vector<T>>& values) {
  Buffer buffer;
  buffer.data = values->data();
  buffer.bytes = values->size() * sizeof(T);
  buffer.keepalive = values;
  return buffer;
}

// A collective of int64 over some of the ranks.
struct Collective {
  std::vector<int> ranks;  // those with replicas or partials
  bool partial;            // the source is partial sums; else one owner's
  bool replicated;         // the destination is on `ranks`; else at one owner
  int owner;
  int64_t elements;

  Layout Side(bool many, bool sums) const {
    if (!many) return Layout::Owner({elements}, DType::kInt64, owner);
    const Layout replicas = *Layout::Replicated({elements}, DType::kInt64, ranks);
    return sums ? *replicas.Dual() : replicas;
  }
  MovementPlan Plan(int rank) const { return PlanOf(Side(partial, true), Side(replicated, false), rank); }
  static int64_t Value(int rank, int64_t generation, int64_t i) {
    return (rank + 3) * 1000003 + generation * 10007 + i * (rank + 1);
  }
  int64_t Expected(int64_t generation, int64_t i) const {
    if (!partial) return Value(owner, generation, i);
    int64_t sum = 0;
    for (int rank : ranks) sum += Value(rank, generation, i);
    return sum;
  }
};

Collective RandomCollective(Draw& draw, int size) {
  Collective c;
  for (int rank = 0; rank < size; ++rank) {
    if (!draw.OneIn(5)) c.ranks.push_back(rank);
  }
  if (c.ranks.empty()) c.ranks = {0};
  const int64_t kind = draw.Between(0, 2);
  c.partial = kind != 0;
  c.replicated = kind != 1;
  c.owner = static_cast<int>(draw.Between(0, size - 1));
  // One message; several segments of a tree, more than its window of them; of pairwise exchange.
  const int64_t elements[] = {1, 50, 3000, 16384 * 3 + 5, 16384 * 7 + 1, 300000};
  c.elements = elements[draw.Between(0, 5)];
  return c;
}

struct Running {
  int64_t generation;
  std::shared_ptr<std::vector<int64_t>> x, y;
  std::unique_ptr<MovementExecution> pending;
};

absl::StatusOr<Running> StartOne(Communicator& communicator, const Collective& c, const MovementPlan& plan, int64_t op,
                                 int64_t generation) {
  Running running{generation, std::make_shared<std::vector<int64_t>>(VolumeOf(plan.direct().from_shape())),
                  std::make_shared<std::vector<int64_t>>(VolumeOf(plan.direct().to_shape())), nullptr};
  for (std::size_t i = 0; i < running.x->size(); ++i) {
    (*running.x)[i] = Collective::Value(communicator.rank(), generation, static_cast<int64_t>(i));
  }
  ADJOIN_ASSIGN_OR_RETURN(running.pending,
                          communicator.Start({op, "x"}, plan, BufferOf(running.x), BufferOf(running.y)));
  return running;
}

absl::Status WaitOne(Communicator& communicator, const Collective& c, Running running) {
  ADJOIN_RETURN_IF_ERROR(communicator.Wait(std::move(running.pending)));
  running.x->assign(running.x->size(), -1);  // nothing reads it any more
  for (std::size_t i = 0; i < running.y->size(); ++i) {
    if ((*running.y)[i] == c.Expected(running.generation, static_cast<int64_t>(i))) continue;
    return absl::InternalError(absl::StrCat("generation ", running.generation, ", cell ", i, " is ", (*running.y)[i],
                                            ", not ", c.Expected(running.generation, static_cast<int64_t>(i)), ": ",
                                            c.Plan(communicator.rank()).Describe()));
  }
  return absl::OkStatus();
}

// What all ranks do: start the next execution of an operator (true), or wait for its first.
using Turns = std::vector<std::pair<std::size_t, bool>>;

absl::Status RunTurns(Transport& transport, const std::vector<Collective>& all, const Turns& turns) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {0, absl::Seconds(40)});
  std::vector<MovementPlan> plans;
  for (const Collective& c : all) plans.push_back(c.Plan(transport.rank()));
  std::vector<std::vector<Running>> running(all.size());
  std::vector<int64_t> generations(all.size());
  for (const auto& [op, start] : turns) {
    if (start) {
      ADJOIN_ASSIGN_OR_RETURN(
          Running one, StartOne(communicator, all[op], plans[op], static_cast<int64_t>(op) + 1, generations[op]++));
      running[op].push_back(std::move(one));
    } else {
      Running first = std::move(running[op].front());
      running[op].erase(running[op].begin());
      ADJOIN_RETURN_IF_ERROR(WaitOne(communicator, all[op], std::move(first)));
    }
  }
  return absl::OkStatus();
}

TEST(CollectiveExecutionTest, SurvivesLateSendsBesideEachOther) {
  Draw draw = Draw::FromEnvironment();
  for (int batch = 0; batch < 25 && !HasFailure(); ++batch) {
    const int size = static_cast<int>(draw.Between(2, 9));
    std::vector<Collective> all;
    for (int i = 0; i < 4; ++i) all.push_back(RandomCollective(draw, size));
    Turns turns;
    std::vector<int> in_flight(all.size());
    for (int i = 0; i < 24; ++i) {
      const std::size_t op = static_cast<std::size_t>(draw.Between(0, static_cast<int64_t>(all.size()) - 1));
      const bool start = in_flight[op] == 0 || (in_flight[op] == 1 && draw.OneIn(2));
      in_flight[op] += start ? 1 : -1;
      turns.push_back({op, start});
    }
    for (std::size_t op = 0; op < all.size(); ++op) {
      for (; in_flight[op] > 0; --in_flight[op]) turns.push_back({op, false});
    }
    const uint64_t seed = static_cast<uint64_t>(draw.Between(0, 1 << 30));
    const absl::Status status = RunRanks(size, TransportKind::kInMemory, seed, [&](Transport& transport) {
      LateTransport late(&transport, seed + static_cast<uint64_t>(transport.rank()));
      return RunTurns(late, all, turns);
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Rank 2 of a tree has as many sends to rank 3 in flight as it may, and what it should pass on next has come: it does
// not wait for that, but for a send, and no longer than to its deadline.
TEST(CollectiveExecutionTest, WaitsForItsSendsNoLongerThanToTheDeadline) {
  const Collective broadcast{{0, 1, 2, 3}, /*partial=*/false, /*replicated=*/true, /*owner=*/0, 20 * 16384};
  std::atomic<bool> all_came{false};
  const auto all = RunRanksCollect(
      4, TransportKind::kInMemory, 1,
      [&](Transport& transport) -> absl::Status {
        const absl::Cleanup root_is_done = [&] { all_came = all_came || transport.rank() == 0; };
        while (transport.rank() == 2 && !all_came) std::this_thread::yield();
        HostMemory memory;
        const bool stuck = transport.rank() == 2;
        LateTransport late(&transport, 1, /*never=*/stuck);
        Communicator communicator(&late, &memory, {0, stuck ? absl::Milliseconds(100) : absl::Seconds(50)});
        ADJOIN_ASSIGN_OR_RETURN(Running running,
                                StartOne(communicator, broadcast, broadcast.Plan(transport.rank()), 1, 0));
        return WaitOne(communicator, broadcast, std::move(running));
      },
      absl::Seconds(30));
  EXPECT_EQ(all[2].code(), absl::StatusCode::kDeadlineExceeded) << all[2];
  EXPECT_NE(all[2].message().find("waiting to send to rank 3"), std::string::npos) << all[2];
}

// Zeros of both signs are equal, and NaNs differ in sign and payload: a maximum or sum of them depends on the order of
// its operands, which must be the same everywhere.
TEST(CollectiveExecutionTest, ReplicasHaveTheSameBitsOfZerosAndNaNs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float other_nan = -std::nanf("77");
  const float values[] = {0.0f, -0.0f, nan, other_nan};
  constexpr int64_t kElements = 67;  // vectors and a rest
  Draw draw = Draw::FromEnvironment();
  for (int size = 2; size <= 9; ++size) {
    std::vector<std::vector<float>> x(size), y(size, std::vector<float>(kElements));
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(rank);
      for (int64_t i = 0; i < kElements; ++i) x[rank].push_back(values[draw.Between(0, i < kElements / 2 ? 1 : 3)]);
    }
    const Layout to = *Layout::Replicated({kElements}, DType::kFloat32, ranks);
    for (const ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      const Layout from = *Layout::Create({kElements}, DType::kFloat32, to.mesh(), {Placement::Partial(reduce)});
      const absl::Status status =
          RunRanks(size, TransportKind::kInMemoryDelayed, 3, [&](Transport& transport) -> absl::Status {
            HostMemory memory;
            Communicator communicator(&transport, &memory, {0, absl::Seconds(20)});
            const int rank = transport.rank();
            const MovementPlan plan = PlanOf(from, to, rank);
            if (plan.groups().size() != 1) return absl::InternalError("not a group: " + plan.Describe());
            Buffer source, destination;
            source.data = x[rank].data();
            destination.data = y[rank].data();
            source.bytes = destination.bytes = kElements * sizeof(float);
            return communicator.Execute({1, "x"}, plan, source, destination);
          });
      ASSERT_TRUE(status.ok()) << status;
      for (int rank = 1; rank < size; ++rank) {
        EXPECT_EQ(std::memcmp(y[rank].data(), y[0].data(), kElements * sizeof(float)), 0)
            << "rank " << rank << " of " << size << ", " << Placement::Partial(reduce).ToString();
      }
    }
  }
}

}  // namespace
}  // namespace adjoin
