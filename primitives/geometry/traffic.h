// What a movement makes every rank do, counted without the schedules of the ranks.
//
//   const Layout x = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {4, 1, 1, 1}, {0, 1, 2, 3});
//   const Layout y = *Layout::Partition({64, 1, 28, 28}, DType::kFloat32, {1, 1, 2, 2}, {0, 1, 2, 3});
//   const Traffic traffic = *TrafficOf(x, y);
//   traffic.rank[1].bytes_sent;        // 37632: what the transport of rank 1 will count
//   traffic.busiest.messages_received; // 3
//
// The numbers equal those of MovementPlan::Build, and of its Reversed for the adjoint, for every rank. Between layouts,
// and between a layout and what a layer reads, they cost a few operations per rank and dim; see transfer_counts.h.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_TRAFFIC_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_TRAFFIC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

// What one execution of a movement, in one direction, makes one rank do.
struct RankTraffic {
  int64_t bytes_sent = 0;  // over the transport, as it counts them
  int64_t bytes_received = 0;
  int64_t messages_sent = 0;  // of a plain list one per peer; of a collective one per segment
  int64_t messages_received = 0;
  int64_t bytes_kept = 0;   // of a plain list: copied within the rank
  int64_t bytes_added = 0;  // that are added to others: of a plain list all that reach a rank where any cells meet
  int rounds = 0;           // messages in a row that depend on one another: 1 of a plain list, log2 of a tree's size
  friend bool operator==(const RankTraffic& a, const RankTraffic& b);
};

struct Traffic {
  // By rank, from 0 to the highest one of either mesh.
  std::vector<RankTraffic> rank;
  RankTraffic busiest;      // by component the largest over the ranks
  int64_t total_bytes = 0;  // sent by all; 2^63 - 1 where it is more
  // MovementPlan::DescribeGroups of the first rank that has anything to describe: "" where there is no collective.
  std::string algorithm;
};

struct TwoWayTraffic {
  Traffic forward;
  Traffic adjoint;  // its `algorithm` is forward's
  // True where every rank's tensor is the same before and after: each keeps all its cells where they are, and nothing
  // is filled, sent or added.
  bool is_identity = false;
};

// A movement as OperatorPlan (proto/plan.proto) describes it.
struct MovementEnds {
  Layout from;
  Layout to;                             // with readings: the layout of the outputs that read
  std::map<int, Reading> readings = {};  // by dim; none: a redistribution
  // With readings: on the mesh of `to`, how the input's dims without a reading are cut; absent: as `from`.
  std::optional<Layout> read = std::nullopt;
  std::map<int, Reading> source = {};  // by dim, the cells of each rank's part of `from` that are used; none: all

  // Errors: as Distribution::Reads.
  absl::StatusOr<Distribution> Source() const;
  absl::StatusOr<Distribution> Destination() const;
};

// The traffic of the movement. Errors: as Distribution::Reads and ExchangeSchedule::Build; kInvalidArgument for a rank
// above 2^24.
absl::StatusOr<Traffic> TrafficOf(const Layout& from, const Layout& to);
absl::StatusOr<Traffic> TrafficOf(const MovementEnds& ends);
// The same and the adjoint's, for hardly more.
absl::StatusOr<TwoWayTraffic> TwoWayTrafficOf(const MovementEnds& ends);
// The same from the schedules of all ranks, one by one, in time quadratic in the ranks: for any distributions.
absl::StatusOr<TwoWayTraffic> TrafficBySchedules(const Distribution& from, const Distribution& to);

// A movement as MovementEnds has it, of parts that somebody else holds. `read`: as the source, where there is none.
struct MovementView {
  const Layout& from;
  const Layout& to;
  const std::map<int, Reading>& readings;
  const Layout& read;
  const std::map<int, Reading>& source;
};

// What a movement makes the busiest ranks do, where what each of them does is not needed.
struct BusiestTraffic {
  RankTraffic forward;  // by component the largest over the ranks
  RankTraffic adjoint;
  bool is_identity = false;  // as TwoWayTraffic
  bool has_groups = false;   // some ranks' tensors could take a collective operation, whether it pays or not
};

// As TwoWayTrafficOf, in a fraction of the time and without memory for every rank. Errors: as that.
absl::StatusOr<BusiestTraffic> BusiestTrafficOf(const MovementView& ends);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_TRAFFIC_H_
