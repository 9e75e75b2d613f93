#include "primitives/geometry/exchange_schedule.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;
using Coords = std::vector<int64_t>;

// Which pairs of ranks the selection joins; what they exchange is then every cell that both hold.
class Selection {
 public:
  Selection(const Distribution& from, const Distribution& to)
      : from_(from),
        to_(to),
        same_mesh_(from.mesh() == to.mesh()),
        sums_(ReduceOf(from) == ReduceOp::kSum),
        replicas_(1) {
    for (int axis = 0; axis < from.mesh().axes(); ++axis) {
      if (from.placements()[axis].kind == Kind::kBroadcast) replicas_ *= from.mesh().shape()[axis];
    }
  }

  // True where cells go from the rank at `a` to rank `dest` at `b`.
  bool Joins(const Coords& a, int dest, const Coords& b) const {
    return same_mesh_ ? JoinsOnOneMesh(a, b) : JoinsAcrossMeshes(a, dest, b);
  }

 private:
  // Every axis decides for itself.
  bool JoinsOnOneMesh(const Coords& a, const Coords& b) const {
    for (int axis = 0; axis < from_.mesh().axes(); ++axis) {
      const Kind source = from_.placements()[axis].kind;
      const Kind dest = to_.placements()[axis].kind;
      if (source == Kind::kBroadcast && a[axis] != (dest == Kind::kPartial ? 0 : b[axis])) return false;
      const bool meets = source == Kind::kPartial && !sums_;
      if (dest == Kind::kPartial && b[axis] != (source == Kind::kBroadcast || meets ? 0 : a[axis])) return false;
    }
    return true;
  }

  bool JoinsAcrossMeshes(const Coords& a, int dest, const Coords& b) const {
    for (int axis = 0; axis < to_.mesh().axes(); ++axis) {
      if (to_.placements()[axis].kind == Kind::kPartial && b[axis] != 0) return false;
    }
    const std::optional<Coords> own = from_.mesh().CoordsOf(dest);
    if (own.has_value() && SameSplit(*own, a)) return ReplicaOf(*own) == ReplicaOf(a);
    return ReplicaOf(a) == Turn(b) % replicas_;
  }

  bool SameSplit(const Coords& a, const Coords& b) const {
    for (int axis = 0; axis < from_.mesh().axes(); ++axis) {
      if (from_.placements()[axis].kind == Kind::kSplit && a[axis] != b[axis]) return false;
    }
    return true;
  }

  // Row-major number of the source copy that the rank at `a` holds.
  int64_t ReplicaOf(const Coords& a) const {
    int64_t replica = 0;
    for (int axis = 0; axis < from_.mesh().axes(); ++axis) {
      if (from_.placements()[axis].kind == Kind::kBroadcast) replica = replica * from_.mesh().shape()[axis] + a[axis];
    }
    return replica;
  }

  // Row-major number of the rank at `b` among the destinations that receive anything.
  int64_t Turn(const Coords& b) const {
    int64_t turn = 0;
    for (int axis = 0; axis < to_.mesh().axes(); ++axis) {
      if (to_.placements()[axis].kind != Kind::kPartial) turn = turn * to_.mesh().shape()[axis] + b[axis];
    }
    return turn;
  }

  const Distribution& from_;
  const Distribution& to_;
  const bool same_mesh_;
  const bool sums_;
  int64_t replicas_;
};

// Calls visit(rank, position in the mesh, coordinates) for every rank of `mesh`, in row-major order, without looking
// each one up: planning for P ranks comes here P x P times.
template <typename Visit>
void ForEachRank(const Mesh& mesh, const Visit& visit) {
  Coords coords(mesh.axes(), 0);
  for (int64_t position = 0; position < mesh.size(); ++position) {
    visit(mesh.ranks()[position], position, coords);
    for (int axis = mesh.axes() - 1; axis >= 0 && ++coords[axis] == mesh.shape()[axis]; --axis) coords[axis] = 0;
  }
}

bool Overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.dims(); ++d) {
    if (a[d].Intersect(b[d]).empty()) return false;
  }
  return true;
}

Region RegionOf(const Piece& piece, const Box& part) {
  Region region{piece.at, part.Shape()};
  for (int d = 0; d < part.dims(); ++d) region.at[d] += part[d].lo - piece.box[d].lo;
  return region;
}

// The regions of one transfer, by destination piece and then source piece: the order that both ends know. They are in
// the source's local tensor, or in the destination's.
Transfer TransferBetween(const LocalView& source, const LocalView& dest, int peer, bool in_source) {
  Transfer transfer;
  transfer.peer = peer;
  for (const Piece& dest_piece : dest.pieces) {
    for (const Piece& source_piece : source.pieces) {
      if (!Overlap(dest_piece.box, source_piece.box)) continue;
      const Box part = dest_piece.box.Intersect(source_piece.box);
      transfer.regions.push_back(RegionOf(in_source ? source_piece : dest_piece, part));
      transfer.elements += part.Volume();
    }
  }
  return transfer;
}

void AddTransfer(Transfer transfer, std::vector<Transfer>& transfers) {
  if (transfer.elements > 0) transfers.push_back(std::move(transfer));
}

bool Overlap(const Region& a, const Region& b) {
  for (size_t d = 0; d < a.at.size(); ++d) {
    if (a.at[d] >= b.at[d] + b.size[d] || b.at[d] >= a.at[d] + a.size[d]) return false;
  }
  return true;
}

// True where two regions of `transfers` share a cell.
bool AnyOverlap(const std::vector<Transfer>& transfers) {
  std::vector<const Region*> regions;
  for (const Transfer& transfer : transfers) {
    for (const Region& region : transfer.regions) regions.push_back(&region);
  }
  if (regions.size() < 2 || regions[0]->at.empty()) return regions.size() > 1;
  std::sort(regions.begin(), regions.end(), [](const Region* a, const Region* b) { return a->at < b->at; });
  for (size_t i = 0; i < regions.size(); ++i) {
    const int64_t end = regions[i]->at[0] + regions[i]->size[0];
    for (size_t j = i + 1; j < regions.size() && regions[j]->at[0] < end; ++j) {
      if (Overlap(*regions[i], *regions[j])) return true;
    }
  }
  return false;
}

absl::Status CheckReductions(const Distribution& from) {
  const bool ordered = from.dtype() != DType::kComplex64 && from.dtype() != DType::kComplex128;
  const Placement combines = Placement::Partial(ReduceOf(from));
  for (int axis = 0; axis < from.mesh().axes(); ++axis) {
    const Placement& placement = from.placements()[axis];
    if (placement.kind != Kind::kPartial) continue;
    if (placement.reduce != ReduceOp::kSum && !ordered) {
      return absl::InvalidArgumentError(absl::StrCat("no movement starts in ", placement.ToString(), " of ",
                                                     ToString(from.dtype()),
                                                     ", which has no order; P(sum) is possible"));
    }
    if (placement != combines && from.mesh().shape()[axis] > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a movement from ", combines.ToString(), " and ", placement.ToString(), " (axis ", axis,
          ") at once: reduce one first; all partial axes of more than one rank must have the same reduction"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEnds(const Distribution& from, const Distribution& to) {
  if (from.global_shape() != to.global_shape()) {
    return absl::InvalidArgumentError(absl::StrCat("a movement keeps the global shape, but it goes from [",
                                                   absl::StrJoin(from.global_shape(), ", "), "] to [",
                                                   absl::StrJoin(to.global_shape(), ", "), "]"));
  }
  if (from.dtype() != to.dtype()) {
    return absl::InvalidArgumentError(absl::StrCat("a movement keeps the dtype, but it goes from ",
                                                   ToString(from.dtype()), " to ", ToString(to.dtype())));
  }
  for (const Placement& placement : to.placements()) {
    if (placement.kind == Kind::kPartial && placement.reduce != ReduceOp::kSum) {
      return absl::InvalidArgumentError(
          absl::StrCat("no movement ends in ", placement.ToString(), ": it is only a source; P(sum) is possible"));
    }
  }
  return CheckReductions(from);
}

ReduceOp ReduceOfAxes(const Mesh& mesh, const std::vector<Placement>& placements) {
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const Placement& placement = placements[axis];
    if (placement.kind == Kind::kPartial && mesh.shape()[axis] > 1) return placement.reduce;
  }
  return ReduceOp::kSum;
}

}  // namespace

ReduceOp ReduceOf(const Distribution& from) { return ReduceOfAxes(from.mesh(), from.placements()); }

ReduceOp ReduceOf(const Layout& from) { return ReduceOfAxes(from.mesh(), from.placements()); }

absl::StatusOr<ExchangeSchedule> ExchangeSchedule::Build(const Distribution& from, const Distribution& to, int rank) {
  absl::Status status = CheckEnds(from, to);
  if (!status.ok()) return status;
  const Selection selection(from, to);
  const LocalView& source = from.View(rank);
  const LocalView& dest = to.View(rank);
  ExchangeSchedule schedule;
  schedule.rank_ = rank;
  schedule.from_shape_ = source.shape;
  schedule.to_shape_ = dest.shape;
  if (const std::optional<Coords> a = from.mesh().CoordsOf(rank); a.has_value() && !source.pieces.empty()) {
    ForEachRank(to.mesh(), [&](int peer, int64_t position, const Coords& b) {
      if (!selection.Joins(*a, peer, b)) return;
      AddTransfer(TransferBetween(source, to.ViewAt(position), peer, /*in_source=*/true), schedule.sends_);
    });
  }
  if (const std::optional<Coords> b = to.mesh().CoordsOf(rank); b.has_value() && !dest.pieces.empty()) {
    ForEachRank(from.mesh(), [&](int peer, int64_t position, const Coords& a) {
      if (!selection.Joins(a, rank, *b)) return;
      AddTransfer(TransferBetween(from.ViewAt(position), dest, peer, /*in_source=*/false), schedule.recvs_);
    });
  }
  schedule.accumulates_ = AnyOverlap(schedule.recvs_);
  return schedule;
}

ExchangeSchedule ExchangeSchedule::WithoutSends() const {
  ExchangeSchedule schedule = *this;
  schedule.sends_.clear();
  return schedule;
}

ExchangeSchedule ExchangeSchedule::WithoutRecvs() const {
  ExchangeSchedule schedule = *this;
  schedule.recvs_.clear();
  schedule.accumulates_ = false;
  return schedule;
}

ExchangeSchedule ExchangeSchedule::Reversed() const {
  ExchangeSchedule schedule;
  schedule.rank_ = rank_;
  schedule.from_shape_ = to_shape_;
  schedule.to_shape_ = from_shape_;
  schedule.sends_ = recvs_;
  schedule.recvs_ = sends_;
  schedule.accumulates_ = AnyOverlap(schedule.recvs_);
  return schedule;
}

int64_t ExchangeSchedule::ElementsSent() const {
  int64_t elements = 0;
  for (const Transfer& transfer : sends_) {
    if (transfer.peer != rank_) elements += transfer.elements;
  }
  return elements;
}

bool operator==(const ExchangeSchedule& a, const ExchangeSchedule& b) {
  return a.rank_ == b.rank_ && a.from_shape_ == b.from_shape_ && a.to_shape_ == b.to_shape_ && a.sends_ == b.sends_ &&
         a.recvs_ == b.recvs_;
}

}  // namespace adjoin
