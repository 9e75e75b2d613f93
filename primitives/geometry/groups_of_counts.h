// Finds the groups of MovementPlan from the counts of all ranks: the same ones, each of them once.
//
//   GroupsOfCounts groups(counts, from.mesh(), to.mesh(), from.dtype());
//   const GroupsOfCounts::Place place = groups.OfSource(2);   // of the third rank of the source's mesh
//   if (place.group >= 0 && groups.Pays(place.group)) AddSteps(groups.GroupAt(place.group), place.position, ...);
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_GROUPS_OF_COUNTS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_GROUPS_OF_COUNTS_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/geometry/transfer_counts.h"

namespace adjoin {

// A rank's position in the mesh; -1: it is not in it.
int PositionIn(const Mesh& mesh, int rank);

// One thread.
class GroupsOfCounts {
 public:
  // A rank's place in a group; `group` is -1 where it is in none.
  struct Place {
    int group = -1;
    int position = 0;
  };

  // `counts`: of a movement between these meshes. All outlive this.
  GroupsOfCounts(const TransferCounts& counts, const Mesh& from, const Mesh& to, DType dtype)
      : counts_(counts), from_(from), to_(to), dtype_(dtype) {}

  // The group that takes the source tensor of the rank at position `p` of the source's mesh.
  Place OfSource(int p);
  // The group that gives the destination tensor of the rank at position `q` of the destination's mesh.
  Place OfDest(int q);

  const CollectiveGroup& GroupAt(int index) const { return groups_[index]; }
  const CollectiveGroup& AdjointAt(int index) const { return adjoints_[index]; }
  // True where the group's algorithm is taken; else its transfers stay in the plain list.
  bool Pays(int index) const { return pays_[index]; }

 private:
  static constexpr int kUnknown = -2;

  int Add(CollectiveGroup group);
  Place PlaceIn(int group, int rank) const;
  int Rooted(CollectiveGroup::Kind kind, int root);
  int Broadcast(int p);
  int Reduce(int q);
  bool Exchanges(int p, int q, const std::vector<int>& members) const;
  std::optional<Place> AllReduce(int p, int q);

  const TransferCounts& counts_;
  const Mesh& from_;
  const Mesh& to_;
  const DType dtype_;
  std::vector<CollectiveGroup> groups_, adjoints_;
  std::vector<bool> pays_;
  std::vector<absl::flat_hash_map<int, int>> places_;  // by group, by rank
  std::vector<int> broadcast_, reduce_, all_;          // by root, or by position of the source's mesh: the group
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_GROUPS_OF_COUNTS_H_
