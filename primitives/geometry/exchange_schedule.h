// What one rank sends and receives in a movement between two distributions: the plain list under every operator.
//
//   ExchangeSchedule s = *ExchangeSchedule::Build(from, to, /*rank=*/2);
//   for (const Transfer& t : s.sends()) ...   // pack t.regions of the local source tensor for rank t.peer
//
// The movement F adds source cells into destination cells; from P(max) or P(min) it takes the largest or the smallest.
// For every (global index, destination replica, source partial) the selection names one pair (source replica u,
// destination partial v):
// - on an axis of the mesh that both sides share (the meshes are equal), u is the destination's coordinate where the
//   destination is split or broadcast there, and v is the source's where the source is split or partial there; where
//   neither is determined (B -> P) both are 0; from P(max) or P(min) v is 0, since the partials of one cell must meet;
// - on different meshes v is 0 on every axis, and u is the destination rank's own copy where it holds that index
//   itself, else the destination's ranks (in mesh order) are dealt out over the source's replicas in turn.
// The adjoint F* adds back along the same pairs: the same list read backwards. (From P(max) or P(min): the adjoint of
// the sum along these pairs, a part of the gradient.)
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_EXCHANGE_SCHEDULE_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_EXCHANGE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// A box of cells of a local tensor.
struct Region {
  std::vector<int64_t> at;
  std::vector<int64_t> size;
  int64_t Volume() const { return VolumeOf(size); }
  friend bool operator==(const Region& a, const Region& b) { return a.at == b.at && a.size == b.size; }
};

// Everything that goes from one rank to another, in an order both know: regions back to back in one message.
struct Transfer {
  int peer = 0;
  std::vector<Region> regions;
  int64_t elements = 0;
  friend bool operator==(const Transfer& a, const Transfer& b) {
    return a.peer == b.peer && a.regions == b.regions && a.elements == b.elements;
  }
};

// How a movement from `from` combines what comes to one cell: as its partial axes of more than one rank say, which
// agree (Build refuses others); kSum where there is none, since then there is nothing to combine.
ReduceOp ReduceOf(const Distribution& from);
ReduceOp ReduceOf(const Layout& from);

class ExchangeSchedule {
 public:
  // Builds `rank`'s part, in time linear in the number of ranks.
  // Errors: kInvalidArgument (different global shapes or dtypes; `to` has a P(max) or P(min); partial axes of `from` of
  // more than one rank have different reductions; P(max) or P(min) of complex numbers, which have no order).
  static absl::StatusOr<ExchangeSchedule> Build(const Distribution& from, const Distribution& to, int rank);

  int rank() const { return rank_; }
  // In the order of the peers in the other side's mesh, row-major, so that sums are taken alike wherever their terms
  // have like positions, whatever the ranks are called; `rank` itself where it keeps something (the same cells then
  // stand in both lists, in the same order). No transfer is empty.
  const std::vector<Transfer>& sends() const { return sends_; }
  const std::vector<Transfer>& recvs() const { return recvs_; }
  const std::vector<int64_t>& from_shape() const { return from_shape_; }
  const std::vector<int64_t>& to_shape() const { return to_shape_; }

  // The same without what leaves the local source, or without what reaches the local destination (what this rank keeps
  // included).
  ExchangeSchedule WithoutSends() const;
  ExchangeSchedule WithoutRecvs() const;
  // The schedule of the adjoint: equal to Build(dual(to), dual(from), rank) with the selection transposed.
  ExchangeSchedule Reversed() const;
  // Elements that leave this rank: what it keeps does not count.
  int64_t ElementsSent() const;
  // True where a destination cell of this rank receives more than one contribution.
  bool accumulates() const { return accumulates_; }

  friend bool operator==(const ExchangeSchedule& a, const ExchangeSchedule& b);

 private:
  int rank_ = 0;
  std::vector<int64_t> from_shape_;
  std::vector<int64_t> to_shape_;
  std::vector<Transfer> sends_;
  std::vector<Transfer> recvs_;
  bool accumulates_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_EXCHANGE_SCHEDULE_H_
