#include "worker/calibration/lane_timer.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>

#include "base/status_macros.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLaneTimeout = absl::Seconds(60);
constexpr int64_t kRows = 512;  // a square of float32: 1 MiB

class Lane {
 public:
  Lane(Transport& transport, absl::Duration limit)
      : communicator_(&transport, &memory_, {0, kLaneTimeout}), each_(limit) {}

  // Seconds of a movement between the layouts; both ranks run it equally often.
  absl::StatusOr<double> SecondsOf(const Layout& from, const Layout& to) {
    ADJOIN_ASSIGN_OR_RETURN(const auto movement,
                            Movement::Create(&communicator_, Distribution::Of(from), Distribution::Of(to),
                                             {.id = ++id_, .name = "calibration", .differentiable = false}));
    const at::Tensor x = at::rand(from.LocalShape(communicator_.rank()));
    // So often that the limit is kept by what a movement of so many bytes takes at the least; fixed, so that both
    // agree.
    const int64_t bytes = x.numel() * 4 + 20000;
    const auto count = static_cast<int>(
        std::clamp<double>(absl::ToDoubleSeconds(each_) * 3e9 / 8 / static_cast<double>(bytes), 5, 500));
    // The mean of many in a row, which wait for each other; what else runs on the machine only adds to it.
    double least = std::numeric_limits<double>::infinity();
    constexpr int kTries = 8;
    for (int tried = 0; tried < kTries; ++tried) {
      movement->Forward(x);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < count; ++i) movement->Forward(x);
      const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      least = std::min(least, all / count);
    }
    return least;
  }

 private:
  HostMemory memory_;
  Communicator communicator_;
  const absl::Duration each_;
  int64_t id_ = 0;
};

absl::StatusOr<Layout> Parts(int64_t rows, const std::vector<int64_t>& mesh, const std::vector<int>& ranks) {
  return Layout::Partition({rows, rows}, DType::kFloat32, mesh, ranks);
}

absl::StatusOr<Layout> Same(int64_t rows, Placement::Kind kind) {
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({2}, {0, 1}));
  Placement placement = kind == Placement::Kind::kPartial ? *Placement::Parse("P(sum)") : *Placement::Parse("B");
  return Layout::Create({rows, rows}, DType::kFloat32, std::move(mesh), {placement});
}

absl::StatusOr<LaneRate> Measure(Lane& lane) {
  // A message each way, of hardly any bytes.
  ADJOIN_ASSIGN_OR_RETURN(const Layout few, Parts(2, {2, 1}, {0, 1}));
  ADJOIN_ASSIGN_OR_RETURN(const Layout few_swapped, Parts(2, {2, 1}, {1, 0}));
  ADJOIN_ASSIGN_OR_RETURN(const double small, lane.SecondsOf(few, few_swapped));
  // Each rank keeps its half of what both have: nothing is sent.
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole, Same(2 * kRows, Placement::Kind::kBroadcast));
  ADJOIN_ASSIGN_OR_RETURN(const Layout columns, Parts(2 * kRows, {1, 2}, {0, 1}));
  ADJOIN_ASSIGN_OR_RETURN(const double slice, lane.SecondsOf(whole, columns));
  // Each sends half of its rows, keeps the other half, and gets half of its columns; none lie together.
  ADJOIN_ASSIGN_OR_RETURN(const Layout rows, Parts(2 * kRows, {2, 1}, {0, 1}));
  ADJOIN_ASSIGN_OR_RETURN(const double transposed, lane.SecondsOf(rows, columns));
  ADJOIN_ASSIGN_OR_RETURN(const Layout partial, Same(kRows, Placement::Kind::kPartial));
  ADJOIN_ASSIGN_OR_RETURN(const Layout sum, Same(kRows, Placement::Kind::kBroadcast));
  ADJOIN_ASSIGN_OR_RETURN(const double added, lane.SecondsOf(partial, sum));

  constexpr double kHalf = 2.0 * kRows * kRows * 4, kWhole = 1.0 * kRows * kRows * 4;  // bytes of each rank
  LaneRate rate;
  rate.set_lane("memory");
  rate.set_round_seconds(small / 2);
  rate.set_message_seconds(small / 4);
  const double pack = slice / kHalf;
  rate.set_pack_byte_seconds(pack);
  const double sent = kHalf / 2, received = kHalf / 2, kept = kHalf / 2;
  const double byte = (transposed - small - pack * (sent + received + kept)) / (sent + received);
  rate.set_byte_seconds(std::max(0.0, byte));
  rate.set_add_byte_seconds(std::max(0.0, (added - small - (rate.byte_seconds() + pack) * 2 * kWhole) / kWhole));
  return rate;
}

}  // namespace

absl::StatusOr<LaneRate> MeasureLane(Transport& transport, absl::Duration limit) {
  try {
    Lane lane(transport, limit / 4);
    return Measure(lane);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace adjoin
