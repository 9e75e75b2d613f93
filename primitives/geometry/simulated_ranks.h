// Runs schedules, plans and collective steps on all ranks in one thread, with plain arrays as local tensors.
//
//   Tensors<int64_t> y = Move(schedules, x);     // every rank's ExchangeSchedule, every rank's source tensor
//
// Messages are handed over only when both ends are at the step that names them (nothing is buffered), so an order of
// steps that could block a transport is found as a deadlock. Errors are empty results with a message in `*error`.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_SIMULATED_RANKS_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_SIMULATED_RANKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {

// Local tensors by rank, flat in row-major order.
template <typename T>
using Tensors = std::map<int, std::vector<T>>;

// Calls visit(flat position, coordinates) for every cell of `region` in a tensor of `shape`, in row-major order.
template <typename Visit>
void ForEachCell(const std::vector<int64_t>& shape, const Region& region, const Visit& visit) {
  if (region.Volume() == 0) return;
  std::vector<int64_t> at = region.at;
  while (true) {
    int64_t flat = 0;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + at[d];
    visit(flat, at);
    int d = static_cast<int>(shape.size()) - 1;
    for (; d >= 0; --d) {
      if (++at[d] < region.at[d] + region.size[d]) break;
      at[d] = region.at[d];
    }
    if (d < 0) return;
  }
}

// Flat positions of a transfer's cells, in the order of the message.
inline std::vector<int64_t> CellsOf(const std::vector<int64_t>& shape, const Transfer& transfer) {
  std::vector<int64_t> cells;
  for (const Region& region : transfer.regions) {
    ForEachCell(shape, region, [&](int64_t flat, const std::vector<int64_t>&) { cells.push_back(flat); });
  }
  return cells;
}

inline const Transfer* FindPeer(const std::vector<Transfer>& transfers, int peer) {
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == peer) return &transfer;
  }
  return nullptr;
}

// Adds what the plain lists move to `dest`. `schedules` is indexed by rank.
template <typename T>
void AddMoved(const std::vector<const ExchangeSchedule*>& schedules, const Tensors<T>& source, Tensors<T>& dest) {
  for (const ExchangeSchedule* to : schedules) {
    for (const Transfer& recv : to->recvs()) {
      const ExchangeSchedule& from = *schedules[recv.peer];
      const Transfer* send = FindPeer(from.sends(), to->rank());
      if (send == nullptr || send->elements != recv.elements) continue;  // the tests of matching say so
      const std::vector<int64_t> source_cells = CellsOf(from.from_shape(), *send);
      const std::vector<int64_t> dest_cells = CellsOf(to->to_shape(), recv);
      for (size_t i = 0; i < dest_cells.size(); ++i) {
        dest[to->rank()][dest_cells[i]] += source.at(recv.peer)[source_cells[i]];
      }
    }
  }
}

template <typename T>
Tensors<T> Move(const std::vector<ExchangeSchedule>& schedules, const Tensors<T>& source) {
  Tensors<T> dest;
  std::vector<const ExchangeSchedule*> pointers;
  for (const ExchangeSchedule& schedule : schedules) {
    dest[schedule.rank()].resize(VolumeOf(schedule.to_shape()));
    pointers.push_back(&schedule);
  }
  AddMoved(pointers, source, dest);
  return dest;
}

// One rank of a collective.
template <typename T>
struct SimulatedMember {
  std::vector<CollectiveStep> steps;
  std::vector<T> buffer;
  size_t next = 0;
  bool sent = false;
  bool received = false;
  std::vector<T> arrived;
  int64_t elements_sent = 0;

  const CollectiveStep* step() const { return next < steps.size() ? &steps[next] : nullptr; }
  bool FinishStep() {
    const CollectiveStep* now = step();
    if (now == nullptr || (now->send_to >= 0 && !sent) || (now->recv_from >= 0 && !received)) return false;
    for (int64_t i = 0; now->recv_from >= 0 && i < now->recv.size(); ++i) {
      T& cell = buffer[now->recv.lo + i];
      cell = now->add ? cell + arrived[i] : arrived[i];
    }
    ++next;
    sent = received = false;
    return true;
  }
};

// Runs a collective; `buffers` by position. Sets *error where a message finds no partner or a slot is used twice.
template <typename T>
std::vector<SimulatedMember<T>> RunSteps(const CollectiveGroup& group, DType dtype, std::vector<std::vector<T>> buffers,
                                         std::string* error) {
  std::vector<SimulatedMember<T>> members(group.ranks.size());
  std::set<std::tuple<int, int, int>> used;
  for (size_t p = 0; p < members.size(); ++p) {
    members[p].steps = StepsOf(group, static_cast<int>(p), dtype);
    members[p].buffer = std::move(buffers[p]);
    for (const CollectiveStep& step : members[p].steps) {
      if (step.slot < 0 || step.slot >= 4096) *error = absl::StrCat("slot ", step.slot);
      if (step.send_to >= 0 && !used.insert({static_cast<int>(p), step.send_to, step.slot}).second) {
        *error = absl::StrCat("position ", p, " uses slot ", step.slot, " to ", step.send_to, " twice");
      }
    }
  }
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t p = 0; p < members.size(); ++p) {
      const CollectiveStep* send = members[p].step();
      if (send != nullptr && send->send_to >= 0 && !members[p].sent) {
        SimulatedMember<T>& peer = members[send->send_to];
        const CollectiveStep* recv = peer.step();
        if (recv != nullptr && recv->recv_from == static_cast<int>(p) && !peer.received && recv->slot == send->slot &&
            recv->recv == send->send) {
          peer.arrived.assign(members[p].buffer.begin() + send->send.lo, members[p].buffer.begin() + send->send.hi);
          members[p].elements_sent += send->send.size();
          members[p].sent = peer.received = progress = true;
        }
      }
    }
    for (SimulatedMember<T>& member : members) progress = member.FinishStep() || progress;
  }
  for (size_t p = 0; p < members.size(); ++p) {
    if (members[p].step() != nullptr) *error = absl::StrCat("position ", p, " is stuck at step ", members[p].next);
  }
  return members;
}

// Runs one group of a plan: takes the members' source tensors, sets the destination tensors of those that have one.
template <typename T>
void MoveGroup(const CollectiveGroup& group, DType dtype, const Tensors<T>& source, Tensors<T>& dest,
               std::map<int, int64_t>& elements_sent, std::string* error) {
  using Kind = CollectiveGroup::Kind;
  std::vector<std::vector<T>> buffers;
  for (size_t p = 0; p < group.ranks.size(); ++p) {
    const bool has_source = group.kind == Kind::kAllSumReduce || (group.kind == Kind::kBroadcast) == (p == 0) ||
                            (p == 0 && group.root_takes_part);
    const T unused = group.kind == Kind::kBroadcast ? T(-12345) : T(0);
    buffers.push_back(has_source ? source.at(group.ranks[p]) : std::vector<T>(group.elements, unused));
  }
  std::vector<SimulatedMember<T>> members = RunSteps(group, dtype, std::move(buffers), error);
  for (size_t p = 0; p < group.ranks.size(); ++p) {
    elements_sent[group.ranks[p]] += members[p].elements_sent;
    const bool has_dest = group.kind == Kind::kAllSumReduce || (group.kind == Kind::kSumReduce) == (p == 0) ||
                          (p == 0 && group.root_takes_part);
    if (has_dest) dest[group.ranks[p]] = std::move(members[p].buffer);
  }
}

// Runs every rank's plan. `plans` is indexed by rank. `elements_sent` gets what left each rank.
template <typename T>
Tensors<T> Move(const std::vector<MovementPlan>& plans, const Tensors<T>& source, std::map<int, int64_t>& elements_sent,
                std::string* error) {
  Tensors<T> dest;
  std::vector<const ExchangeSchedule*> direct;
  for (const MovementPlan& plan : plans) {
    dest[plan.rank()].resize(VolumeOf(plan.direct().to_shape()));
    direct.push_back(&plan.direct());
    elements_sent[plan.rank()] = plan.direct().ElementsSent();
  }
  AddMoved(direct, source, dest);
  for (const MovementPlan& plan : plans) {
    for (const CollectiveGroup& group : plan.groups()) {
      for (int rank : group.ranks) {
        int found = 0;
        for (const CollectiveGroup& other : plans[rank].groups()) found += other == group;
        if (found != 1) *error = absl::StrCat("rank ", rank, " does not know a group of rank ", plan.rank());
      }
      if (group.ranks[0] == plan.rank()) MoveGroup(group, plan.dtype(), source, dest, elements_sent, error);
    }
  }
  return dest;
}

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_SIMULATED_RANKS_H_
