#include "worker/daemon/rank_binding.h"

#include <errno.h>
#include <hwloc.h>
#include <string.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

struct FreeTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;
struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat("hwloc: ", what, ": ", strerror(errno)));
}

absl::StatusOr<Topology> Load(const std::string& machine) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return Failed("hwloc_topology_init");
  Topology topology(made);
  if (!machine.empty() && hwloc_topology_set_synthetic(made, machine.c_str()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("hwloc does not understand the machine '", machine, "'"));
  }
  // Ranks need processors and memory only; devices take long to find.
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(made) != 0) return Failed("hwloc_topology_load");
  if (!machine.empty()) return topology;
  const Bitmap own(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(made, own.get(), HWLOC_CPUBIND_PROCESS) == 0 && hwloc_bitmap_iszero(own.get()) == 0) {
    // Fails where that leaves nothing: then all that hwloc found stays.
    hwloc_topology_restrict(made, own.get(), HWLOC_RESTRICT_FLAG_REMOVE_CPULESS);
  }
  return topology;
}

std::vector<hwloc_obj_t> Objects(hwloc_topology* topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> found;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    if (object->cpuset != nullptr && hwloc_bitmap_iszero(object->cpuset) == 0) found.push_back(object);
  }
  return found;
}

RankPlace PlaceOf(hwloc_const_bitmap_t processors, hwloc_const_bitmap_t memory) {
  RankPlace place;
  for (int p = hwloc_bitmap_first(processors); p >= 0; p = hwloc_bitmap_next(processors, p)) {
    place.processors.push_back(p);
  }
  if (hwloc_bitmap_weight(memory) == 1) place.memory = hwloc_bitmap_first(memory);
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, processors) >= 0) {
    place.text = absl::StrCat("processors ", text, place.memory < 0 ? "" : absl::StrCat(", memory ", place.memory));
    if (place.text.size() > kMaxNameBytes) place.text = place.text.substr(0, kMaxNameBytes - 3) + "...";
  }
  std::free(text);
  return place;
}

// Several kinds of memory beside the same processors are one.
std::vector<hwloc_obj_t> NodesOfMemory(hwloc_topology* topology) {
  std::vector<hwloc_obj_t> nodes;
  for (hwloc_obj_t node : Objects(topology, HWLOC_OBJ_NUMANODE)) {
    if (nodes.empty() || hwloc_bitmap_isequal(nodes.back()->cpuset, node->cpuset) == 0) nodes.push_back(node);
  }
  return nodes;
}

// Slots are divided over the nodes of memory in proportion to their processors.
std::vector<RankPlace> ByMemory(const std::vector<hwloc_obj_t>& places, int slots) {
  int64_t all = 0;
  for (hwloc_obj_t node : places) all += hwloc_bitmap_weight(node->cpuset);
  std::vector<RankPlace> result;
  int64_t before = 0;
  for (hwloc_obj_t node : places) {
    before += hwloc_bitmap_weight(node->cpuset);
    while (static_cast<int64_t>(result.size()) * all < before * slots && static_cast<int>(result.size()) < slots) {
      result.push_back(PlaceOf(node->cpuset, node->nodeset));
    }
  }
  return result;
}

absl::StatusOr<std::vector<RankPlace>> ByCores(const std::vector<hwloc_obj_t>& cores, int slots) {
  const auto count = static_cast<int64_t>(cores.size());
  if (count < slots) {
    return absl::InvalidArgumentError(absl::StrCat("--bind-ranks cores needs a core for each slot, and there are ",
                                                   slots, " slots and ", count,
                                                   " cores; give it fewer --slots, or bind to numa"));
  }
  std::vector<RankPlace> result;
  for (int64_t slot = 0; slot < slots; ++slot) {
    const Bitmap processors(hwloc_bitmap_alloc()), memory(hwloc_bitmap_alloc());
    for (int64_t core = slot * count / slots; core < (slot + 1) * count / slots; ++core) {
      hwloc_bitmap_or(processors.get(), processors.get(), cores[core]->cpuset);
      hwloc_bitmap_or(memory.get(), memory.get(), cores[core]->nodeset);
    }
    result.push_back(PlaceOf(processors.get(), memory.get()));
  }
  return result;
}

}  // namespace

absl::StatusOr<RankBinding> ParseRankBinding(absl::string_view text) {
  static const auto* const kNames = new std::map<absl::string_view, RankBinding>{{"auto", RankBinding::kAuto},
                                                                                 {"none", RankBinding::kNone},
                                                                                 {"numa", RankBinding::kNuma},
                                                                                 {"cores", RankBinding::kCores}};
  const auto found = kNames->find(text);
  if (found != kNames->end()) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat("ranks cannot be bound to '", text, "'; possible are auto, none, numa and cores"));
}

absl::StatusOr<std::vector<RankPlace>> RankPlaces(RankBinding binding, const RankNode& node) {
  if (binding == RankBinding::kNone) return std::vector<RankPlace>();
  absl::StatusOr<Topology> topology = Load(node.machine);
  // Where hwloc cannot read the machine, as in a sandbox without /sys, ranks that need not be bound are not.
  if (!topology.ok() && binding == RankBinding::kAuto && node.machine.empty()) return std::vector<RankPlace>();
  ADJOIN_RETURN_IF_ERROR(topology.status());
  if (binding == RankBinding::kCores) {
    std::vector<hwloc_obj_t> cores = Objects(topology->get(), HWLOC_OBJ_CORE);
    if (cores.empty()) cores = Objects(topology->get(), HWLOC_OBJ_PU);  // a virtual machine may not tell
    return ByCores(cores, node.slots);
  }
  const std::vector<hwloc_obj_t> nodes = NodesOfMemory(topology->get());
  std::vector<RankPlace> places = ByMemory(nodes, node.slots);
  if (binding == RankBinding::kNuma) return places;
  if (nodes.size() < 2 || static_cast<size_t>(node.slots) < nodes.size()) return std::vector<RankPlace>();
  // Ranks that compute with more threads than their node has processors would be slower there than anywhere.
  std::map<int, size_t> threads;
  for (const RankPlace& place : places) {
    threads[place.memory] += static_cast<size_t>(node.threads);
    if (threads[place.memory] > place.processors.size()) return std::vector<RankPlace>();
  }
  return places;
}

}  // namespace adjoin
