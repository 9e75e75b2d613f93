// The order in which a job's ranks are dealt out to nodes, so that neighbours in its mesh are on one node.
//
//   std::vector<int> order = AssignmentOrder(spec);     // ranks of a 4x4 mesh: 0 1 4 5, 2 3 6 7, 8 9 12 13, ...
#ifndef ADJOIN_COORDINATOR_PLACEMENT_RANK_ORDER_H_
#define ADJOIN_COORDINATOR_PLACEMENT_RANK_ORDER_H_

#include <vector>

#include "primitives/geometry/mesh.h"
#include "proto/job.pb.h"

namespace adjoin {

// All ranks of the mesh; any run of consecutive ones is compact. The mesh is halved along its longest axis again and
// again.
std::vector<int> CompactOrder(const Mesh& mesh);

// Ranks 0 to spec.ranks() - 1 in the compact order of the first layout that has all of them, in which the first
// layers of a network exchange halos. Without such a layout: 0, 1, 2, ...
std::vector<int> AssignmentOrder(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_RANK_ORDER_H_
