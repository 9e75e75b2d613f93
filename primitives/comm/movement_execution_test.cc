// Random movements through the whole engine, in host memory and on the fake device, by the cheapest algorithms and by
// groups wherever there are any, against the same movements counted out cell by cell.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/fake_device_memory.h"
#include "primitives/comm/local_memory.h"
#include "primitives/device/fake_device.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/simulated_ranks.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

constexpr int kRanks = 9;  // as RandomMesh

enum class Where { kHost, kFakeDevice, kFakeDeviceStaged };

struct Case {
  std::string what;
  std::vector<MovementPlan> plans;  // by rank
  Tensors<int64_t> x;
  Tensors<int64_t> y;
};

Case MakeCase(Draw& draw, const std::string& what, std::vector<MovementPlan> plans,
              const std::vector<ExchangeSchedule>& schedules) {
  Case c{what, std::move(plans), {}, {}};
  for (const ExchangeSchedule& schedule : schedules) {
    c.x[schedule.rank()] = draw.Integers(VolumeOf(schedule.from_shape()), -1000, 1000);
  }
  c.y = Move(schedules, c.x);
  return c;
}

// A movement and its adjoint, between random layouts of int64.
std::vector<Case> RandomCases(Draw& draw, AlgorithmChoice choice) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(0, 4), 1, 6);
  if (!shape.empty() && draw.OneIn(20)) shape[0] = 0;
  // Beyond one segment of the plain list, and of every collective.
  if (!shape.empty() && draw.OneIn(25)) shape[draw.Between(0, static_cast<int64_t>(shape.size()) - 1)] = 40000;
  if (VolumeOf(shape) > 400000) shape = {7, 40000};
  const Mesh mesh = RandomMesh(draw);
  const Layout from = RandomLayout(draw, shape, mesh).WithDType(DType::kInt64);
  const Layout to = RandomLayout(draw, shape, RelatedMesh(draw, mesh)).WithDType(DType::kInt64);
  std::vector<MovementPlan> plans, reversed_plans;
  std::vector<ExchangeSchedule> schedules, reversed;
  for (int rank = 0; rank < kRanks; ++rank) {
    schedules.push_back(*ExchangeSchedule::Build(Distribution::Of(from), Distribution::Of(to), rank));
    reversed.push_back(schedules.back().Reversed());
    plans.push_back(*MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank, choice));
    reversed_plans.push_back(plans.back().Reversed());
  }
  const std::string what = absl::StrCat(from.ToString(), " -> ", to.ToString());
  return {MakeCase(draw, what, std::move(plans), schedules),
          MakeCase(draw, absl::StrCat("adjoint of ", what), std::move(reversed_plans), reversed)};
}

// Memory of either kind, filled from the host and read by it.
class Memory {
 public:
  Memory(Where where, int rank) : device_(&FakeDevice::Get(rank)), on_device_(device_), where_(where) {}
  LocalMemory& local() { return where_ == Where::kHost ? static_cast<LocalMemory&>(host_) : on_device_; }

  absl::StatusOr<Buffer> From(const std::vector<int64_t>& values) {
    ADJOIN_ASSIGN_OR_RETURN(const Buffer buffer, local().Allocate(static_cast<int64_t>(values.size()) * 8));
    // In the order of the stream: what follows must come after it.
    ADJOIN_ASSIGN_OR_RETURN(const FakeDevice::Span span, FakeDevice::View(buffer.data, buffer.bytes));
    const auto fill = [span, values] {
      if (!values.empty()) std::memcpy(span.data, values.data(), values.size() * 8);
    };
    if (where_ == Where::kHost) {
      fill();
    } else {
      device_->default_stream().Launch(fill);
    }
    return buffer;
  }
  absl::StatusOr<std::vector<int64_t>> ToHost(const Buffer& buffer) {
    std::vector<int64_t> values(buffer.bytes / 8);
    if (where_ != Where::kHost) {
      ADJOIN_RETURN_IF_ERROR(on_device_.stream()->Copy(values.data(), buffer.data, buffer.bytes));
      ADJOIN_RETURN_IF_ERROR(on_device_.stream()->Synchronize());
    } else if (!values.empty()) {
      std::memcpy(values.data(), buffer.data, buffer.bytes);
    }
    return values;
  }

 private:
  FakeDevice* device_;
  HostMemory host_;
  FakeDeviceMemory on_device_;
  Where where_;
};

absl::Status RunCase(Communicator& communicator, Memory& memory, const Case& c, int64_t op, int repeats) {
  const int rank = communicator.rank();
  const MovementPlan& plan = c.plans[rank];
  ADJOIN_ASSIGN_OR_RETURN(const Buffer source, memory.From(c.x.at(rank)));
  for (int repeat = 0; repeat < repeats; ++repeat) {
    ADJOIN_ASSIGN_OR_RETURN(const Buffer destination,
                            memory.From(std::vector<int64_t>(VolumeOf(plan.direct().to_shape()), 0)));
    const int64_t before = communicator.BytesSent();
    ADJOIN_RETURN_IF_ERROR(communicator.Execute({op, "x", Direction::kForward}, plan, source, destination));
    if (communicator.BytesSent() - before != plan.BytesSent()) {
      return absl::InternalError(
          absl::StrCat(c.what, ": sent ", communicator.BytesSent() - before, " bytes, planned ", plan.BytesSent()));
    }
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> y, memory.ToHost(destination));
    if (y != c.y.at(rank)) return absl::InternalError(absl::StrCat(c.what, ": wrong cells; ", plan.Describe()));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> x, memory.ToHost(source));
  if (x != c.x.at(rank)) return absl::InternalError(absl::StrCat(c.what, ": the source has changed"));
  return absl::OkStatus();
}

// By default so often that the last execution waits for credits.
void RunCases(TransportKind kind, Where where, const std::vector<Case>& cases, uint64_t seed, int repeats = 3) {
  const absl::Status status = RunRanks(kRanks, kind, seed, [&](Transport& transport) -> absl::Status {
    Memory memory(where, transport.rank());
    Communicator communicator(&transport, &memory.local(), {0, absl::Seconds(30)});
    int64_t op = 0;
    for (const Case& c : cases) ADJOIN_RETURN_IF_ERROR(RunCase(communicator, memory, c, ++op, repeats));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

class MovementExecutionTest : public testing::TestWithParam<std::tuple<Where, AlgorithmChoice>> {};

TEST_P(MovementExecutionTest, MovesWhatSchedulesMove) {
  const auto [where, choice] = GetParam();
  Draw draw = Draw::FromEnvironment();
  for (int batch = 0; batch < 10 && !HasFailure(); ++batch) {
    std::vector<Case> cases;
    for (int i = 0; i < 30; ++i) {
      for (Case& c : RandomCases(draw, choice)) cases.push_back(std::move(c));
    }
    const TransportKind kind = where == Where::kHost         ? TransportKind::kInMemoryDelayed
                               : where == Where::kFakeDevice ? TransportKind::kDeviceDirect
                                                             : TransportKind::kDeviceStaged;
    RunCases(kind, where, cases, static_cast<uint64_t>(draw.Between(0, 1 << 30)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MovementExecutionTest,
                         testing::Combine(testing::Values(Where::kHost, Where::kFakeDevice, Where::kFakeDeviceStaged),
                                          testing::Values(AlgorithmChoice::kCheapest, AlgorithmChoice::kGroups)),
                         [](const auto& info) {
                           return absl::StrCat(
                               std::get<0>(info.param) == Where::kHost         ? "Host"
                               : std::get<0>(info.param) == Where::kFakeDevice ? "FakeDevice"
                                                                               : "FakeDeviceStaged",
                               std::get<1>(info.param) == AlgorithmChoice::kCheapest ? "Cheapest" : "Groups");
                         });

TEST(MovementExecutionTest, MovesOverUcx) {
  Draw draw = Draw::FromEnvironment();
  for (const TransportKind kind : {TransportKind::kUcxSharedMemory, TransportKind::kUcxTcp}) {
    std::vector<Case> cases;
    for (int i = 0; i < 40; ++i) {
      for (Case& c : RandomCases(draw, i % 2 == 0 ? AlgorithmChoice::kCheapest : AlgorithmChoice::kGroups)) {
        cases.push_back(std::move(c));
      }
    }
    RunCases(kind, Where::kHost, cases, 1, /*repeats=*/8);  // from the fourth on through shared memory
  }
}

// Every replica of a sum has the same bits, also where the mesh names its ranks out of order: each column of the mesh
// adds up the same partials.
TEST(MovementExecutionTest, ReplicasHaveTheSameBitsInAnyMesh) {
  Draw draw = Draw::FromEnvironment();
  const Mesh mesh = *Mesh::Create({3, 2}, {0, 5, 1, 4, 2, 3});
  for (const AlgorithmChoice choice : {AlgorithmChoice::kCheapest, AlgorithmChoice::kGroups}) {
    for (const int64_t elements : {5, 3000, 300000}) {
      const Layout from =
          *Layout::Create({elements}, DType::kFloat32, mesh, {Placement::Partial(), Placement::Broadcast()});
      const Layout to =
          *Layout::Create({elements}, DType::kFloat32, mesh, {Placement::Broadcast(), Placement::Broadcast()});
      std::vector<std::vector<float>> partials(3), sums(6);
      for (std::vector<float>& partial : partials) {
        for (int64_t i = 0; i < elements; ++i) partial.push_back(1.0f / static_cast<float>(draw.Between(1, 1 << 20)));
      }
      const absl::Status status =
          RunRanks(6, TransportKind::kInMemoryDelayed, 3, [&](Transport& transport) -> absl::Status {
            HostMemory memory;
            Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
            const int rank = transport.rank();
            const MovementPlan plan = *MovementPlan::Build(Distribution::Of(from), Distribution::Of(to), rank, choice);
            sums[rank].assign(elements, 0);
            Buffer source, destination;
            source.data = partials[(*mesh.CoordsOf(rank))[0]].data();
            destination.data = sums[rank].data();
            source.bytes = destination.bytes = static_cast<std::size_t>(elements) * sizeof(float);
            return communicator.Execute({1, "sum", Direction::kForward}, plan, source, destination);
          });
      ASSERT_TRUE(status.ok()) << status;
      for (const std::vector<float>& sum : sums) {
        EXPECT_EQ(std::memcmp(sum.data(), sums[0].data(), sum.size() * sizeof(float)), 0) << elements << " elements";
      }
    }
  }
}

}  // namespace
}  // namespace adjoin
