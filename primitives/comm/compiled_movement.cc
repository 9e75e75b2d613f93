#include "primitives/comm/compiled_movement.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "primitives/comm/pack.h"
#include "primitives/geometry/transfer_segments.h"

namespace adjoin {
namespace {

using Kind = CollectiveGroup::Kind;

// Transfers cut into segments, with the number of each within its transfer.
struct Numbered {
  int64_t number;
  Transfer transfer;
};

std::vector<Numbered> Cut(const std::vector<Transfer>& transfers, DType dtype) {
  std::vector<Numbered> cut;
  for (const Transfer& transfer : transfers) {
    int64_t number = 0;
    for (Transfer& segment : SegmentsOf(transfer, kSegmentBytes / SizeOf(dtype))) {
      cut.push_back({number++, std::move(segment)});
    }
  }
  return cut;
}

ListedMessage MessageOf(const Transfer& transfer, const std::vector<int64_t>& shape) {
  return {transfer.peer, transfer.elements, transfer.regions, RunOf(shape, transfer.regions)};
}

void CompileList(const ExchangeSchedule& direct, CompiledMovement& compiled) {
  const int rank = direct.rank();
  std::vector<Numbered> sends = Cut(direct.sends(), compiled.dtype);
  std::vector<Numbered> receives = Cut(direct.recvs(), compiled.dtype);
  // Each rank begins with the peers after itself, so that not all of them send to the same one at once.
  auto turn = [&](const Numbered& n) { return std::make_tuple(n.number, n.transfer.peer < rank, n.transfer.peer); };
  std::stable_sort(sends.begin(), sends.end(), [&](const auto& a, const auto& b) { return turn(a) < turn(b); });
  // Among those of one number they stay in the schedule's order, which is that of the mesh.
  std::stable_sort(receives.begin(), receives.end(),
                   [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  std::vector<const Transfer*> kept;
  for (const Numbered& send : sends) {
    if (send.transfer.peer == rank) {
      kept.push_back(&send.transfer);
    } else {
      compiled.sends.push_back(MessageOf(send.transfer, direct.from_shape()));
    }
  }
  for (const Numbered& receive : receives) {
    if (receive.transfer.peer != rank) {
      compiled.receives.push_back(MessageOf(receive.transfer, direct.to_shape()));
    } else {
      // The same cells in the same order in both lists, and so the same segments.
      compiled.kept.push_back(
          {kept[compiled.kept.size()]->regions, receive.transfer.regions, compiled.receives.size()});
    }
  }
}

// What a rank of a group has and gets.
struct Role {
  Role(const CollectiveGroup& group, int position) {
    const bool root = position == 0;
    switch (group.kind) {
      case Kind::kBroadcast:
        has_source = root;
        has_destination = !root || group.root_takes_part;
        break;
      case Kind::kSumReduce:
        has_source = !root || group.root_takes_part;
        has_destination = root;
        break;
      case Kind::kAllSumReduce: has_source = has_destination = true; break;
    }
  }
  bool has_source = false;
  bool has_destination = false;
};

bool Meet(Interval a, Interval b) { return !a.Intersect(b).empty(); }

// Completes the dependencies of the last step. Steps further back than kAhead are complete before it is looked at.
void FindDependencies(const CompiledCollective& compiled, std::vector<CompiledStep>& steps) {
  CompiledStep& step = steps.back();
  const std::size_t last = steps.size() - 1;
  const std::size_t first = last > CompiledCollective::kAhead ? last - CompiledCollective::kAhead : 0;
  const bool sends_work = step.send_to >= 0 && !step.send_from_source;
  const bool in_place = step.recv_from >= 0 && step.take == CompiledStep::Take::kReplace;
  for (std::size_t i = first; i < last; ++i) {
    const CompiledStep& other = steps[i];
    const bool writes = other.recv_from >= 0;
    if (sends_work && writes && Meet(compiled.InWork(other.recv), compiled.InWork(step.send))) step.send_after = i + 1;
    if (!in_place) continue;
    const Interval to = compiled.InWork(step.recv);
    const bool reads = other.send_to >= 0 && !other.send_from_source;
    if ((writes && Meet(compiled.InWork(other.recv), to)) || (reads && Meet(compiled.InWork(other.send), to))) {
      step.recv_after = i + 1;
    }
  }
}

CompiledCollective CompileGroup(const CollectiveGroup& group, int rank, DType dtype) {
  const int position = static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
  const Role role(group, position);
  CompiledCollective compiled;
  compiled.elements = group.elements;
  compiled.copies_source = group.kind == Kind::kBroadcast && role.has_source && role.has_destination;
  compiled.works_in_destination = role.has_destination;
  compiled.segment = group.kind == Kind::kAllSumReduce ? group.elements : SegmentElements(group, dtype);
  absl::flat_hash_set<int64_t> written;  // by first element: intervals of one collective are equal or apart
  for (const CollectiveStep& listed : StepsOf(group, position, dtype)) {
    CompiledStep step;
    step.slot = listed.slot;
    if (listed.send_to >= 0) {
      step.send_to = group.ranks[listed.send_to];
      step.send = listed.send;
      step.send_from_source = role.has_source && written.count(listed.send.lo) == 0;
      compiled.sends_to.push_back(step.send_to);
    }
    if (listed.recv_from >= 0) {
      step.recv_from = group.ranks[listed.recv_from];
      step.recv = listed.recv;
      const bool first = written.insert(listed.recv.lo).second;
      if (listed.add && !first) step.take = CompiledStep::Take::kCombineWork;
      if (listed.add && first && role.has_source) step.take = CompiledStep::Take::kCombineSource;
      step.received_first = group.kind == Kind::kAllSumReduce && listed.recv_from < position;
      if (step.take != CompiledStep::Take::kReplace) {
        compiled.longest_combined = std::max(compiled.longest_combined, step.recv.size());
      }
      compiled.receives_from.push_back(step.recv_from);
    }
    compiled.steps.push_back(step);
    FindDependencies(compiled, compiled.steps);
  }
  compiled.mutual = group.kind == Kind::kAllSumReduce;
  return compiled;
}

void FindPeers(CompiledMovement& compiled) {
  std::set<int> to;
  std::set<int> from;
  std::set<int> all;
  for (const ListedMessage& message : compiled.sends) to.insert(message.peer);
  for (const ListedMessage& message : compiled.receives) from.insert(message.peer);
  for (const CompiledCollective& collective : compiled.collectives) {
    all.insert(collective.sends_to.begin(), collective.sends_to.end());
    all.insert(collective.receives_from.begin(), collective.receives_from.end());
    if (collective.mutual) continue;
    to.insert(collective.sends_to.begin(), collective.sends_to.end());
    from.insert(collective.receives_from.begin(), collective.receives_from.end());
  }
  all.insert(to.begin(), to.end());
  all.insert(from.begin(), from.end());
  compiled.peers.assign(all.begin(), all.end());
  std::set_difference(to.begin(), to.end(), from.begin(), from.end(), std::back_inserter(compiled.sends_one_way_to));
  std::set_difference(from.begin(), from.end(), to.begin(), to.end(),
                      std::back_inserter(compiled.receives_one_way_from));
}

}  // namespace

CompiledMovement CompiledMovement::Compile(const MovementPlan& plan) {
  CompiledMovement compiled;
  compiled.plan_serial = plan.serial();
  compiled.rank = plan.rank();
  compiled.dtype = plan.dtype();
  compiled.reduce = plan.reduce();
  compiled.from_shape = plan.direct().from_shape();
  compiled.to_shape = plan.direct().to_shape();
  compiled.combines = plan.direct().accumulates();
  CompileList(plan.direct(), compiled);
  for (const CollectiveGroup& group : plan.groups()) {
    compiled.collectives.push_back(CompileGroup(group, plan.rank(), plan.dtype()));
  }
  FindPeers(compiled);
  return compiled;
}

}  // namespace adjoin
