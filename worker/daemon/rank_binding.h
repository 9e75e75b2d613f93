// Which processors each rank of a node runs on, and which memory it takes.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<RankPlace> places, RankPlaces(RankBinding::kAuto, {.slots = 64}));
//   places[3].processors;      // {0, 1, ..., 31}, of the rank in slot 3
//   places[3].text;            // "processors 0-31, memory 0"
//
// A machine with several sockets has memory beside each. A rank whose threads wander from one socket to the other reads
// tensors at a fraction of the speed: the kernel gives a page to the node (of memory, a NUMA node) that touches it
// first. So ranks stay within one such node where there are several. The topology is that of hwloc, as MPI's launchers
// see it, without processors that this process may not use (control groups, Slurm, taskset).
#ifndef ADJOIN_WORKER_DAEMON_RANK_BINDING_H_
#define ADJOIN_WORKER_DAEMON_RANK_BINDING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adjoin {

enum class RankBinding {
  kAuto,   // kNuma where there are several nodes of memory, a slot for each, and processors for all threads; else kNone
  kNone,   // ranks run anywhere
  kNuma,   // a rank has the processors and the memory of one node of memory
  kCores,  // likewise, and of its processors a share for itself: cores / slots
};

// "auto", "none", "numa", "cores". Errors: kInvalidArgument.
absl::StatusOr<RankBinding> ParseRankBinding(absl::string_view text);

struct RankPlace {
  std::vector<int> processors;  // by the kernel's numbers, in their order; not empty
  int memory = -1;              // the node of memory to prefer; -1: none, its processors are of several
  std::string text;
};

struct RankNode {
  int slots = 1;
  int threads = 1;      // that each rank computes with
  std::string machine;  // another one than this, in hwloc's words ("numa:2 core:4 pu:2"); empty: this one
};

// The place of the rank in each slot, neighbours beside each other; empty where ranks are not bound. Errors:
// kInvalidArgument (more slots than cores for kCores), kInternal (hwloc).
absl::StatusOr<std::vector<RankPlace>> RankPlaces(RankBinding binding, const RankNode& node);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_RANK_BINDING_H_
