#include "primitives/comm/pending_movement.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "primitives/comm/pack.h"

namespace adjoin {
namespace {

constexpr int64_t kUnreceived = 2;  // executions

int PositionOf(int rank, const CollectiveGroup& group) {
  return static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
}

// A broadcast's root and a sum-reduce's others give their source.
bool GivesSource(const CollectiveGroup& group, int position) {
  if (group.kind == CollectiveGroup::Kind::kBroadcast) return position == 0;
  return group.kind == CollectiveGroup::Kind::kAllSumReduce || position != 0;
}

const Transfer* Own(const std::vector<Transfer>& transfers, int rank) {
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank) return &transfer;
  }
  return nullptr;
}

}  // namespace

PendingMovement::PendingMovement(Transport* transport, LocalMemory* memory, int communicator, Execution execution,
                                 int64_t generation, const MovementPlan* plan, Buffer source, Buffer destination)
    : channel_(transport, communicator, std::move(execution), generation),
      memory_(memory),
      plan_(plan),
      element_bytes_(SizeOf(plan->dtype())),
      source_(std::move(source)),
      destination_(std::move(destination)) {
  FindOneWayPeers();
}

void PendingMovement::FindOneWayPeers() {
  const int rank = channel_.transport().rank();
  std::set<int> to;
  std::set<int> from;
  for (const Transfer& transfer : plan_->direct().sends()) to.insert(transfer.peer);
  for (const Transfer& transfer : plan_->direct().recvs()) from.insert(transfer.peer);
  for (const CollectiveGroup& group : plan_->groups()) {
    const int position = PositionOf(rank, group);
    std::vector<CollectiveStep> steps = StepsOf(group, position, plan_->dtype());
    if (group.kind != CollectiveGroup::Kind::kAllSumReduce) {
      for (const CollectiveStep& step : steps) {
        if (step.send_to >= 0) to.insert(group.ranks[step.send_to]);
        if (step.recv_from >= 0) from.insert(group.ranks[step.recv_from]);
      }
    }
    CollectiveRun run(&channel_, memory_, plan_->dtype(), &group, std::move(steps), position, source_, destination_);
    // First what gives this rank's source, on every rank: then no two groups wait for each other in a circle.
    collectives_.insert(GivesSource(group, position) ? collectives_.begin() : collectives_.end(), std::move(run));
  }
  to.erase(rank);
  from.erase(rank);
  std::set_difference(to.begin(), to.end(), from.begin(), from.end(),
                      std::inserter(sends_one_way_to_, sends_one_way_to_.end()));
  std::set_difference(from.begin(), from.end(), to.begin(), to.end(),
                      std::inserter(receives_one_way_from_, receives_one_way_from_.end()));
}

absl::Status PendingMovement::Start(Deadline deadline) {
  ADJOIN_RETURN_IF_ERROR(PostReceives());
  ADJOIN_RETURN_IF_ERROR(WaitForCredits(deadline));
  ADJOIN_RETURN_IF_ERROR(PostSends());
  for (CollectiveRun& collective : collectives_) ADJOIN_RETURN_IF_ERROR(collective.Begin(deadline));
  // Where contributions are added, this rank's own waits for its turn.
  return plan_->direct().accumulates() ? absl::OkStatus() : KeepOwn();
}

absl::Status PendingMovement::WaitForCredits(Deadline deadline) {
  if (channel_.generation() < kUnreceived) return absl::OkStatus();
  std::vector<Channel::Posted> credits;
  for (int peer : sends_one_way_to_) {
    ADJOIN_ASSIGN_OR_RETURN(const Channel::Posted credit,
                            channel_.RecvCredit(peer, channel_.generation() - kUnreceived));
    credits.push_back(credit);
  }
  for (const Channel::Posted& credit : credits) ADJOIN_RETURN_IF_ERROR(channel_.Wait(credit, deadline));
  return absl::OkStatus();
}

absl::Status PendingMovement::PostReceives() {
  const ExchangeSchedule& direct = plan_->direct();
  for (const Transfer& transfer : direct.recvs()) {
    if (transfer.peer == direct.rank()) continue;
    Incoming incoming{&transfer, {}, {}};
    const int64_t bytes = transfer.elements * element_bytes_;
    const std::optional<int64_t> run =
        direct.accumulates() ? std::nullopt : RunOf(direct.to_shape(), transfer.regions);
    if (!run.has_value()) {
      ADJOIN_ASSIGN_OR_RETURN(incoming.staging, memory_->Allocate(bytes));
    }
    const Buffer into = run.has_value() ? PartOf(destination_, *run * element_bytes_, bytes) : incoming.staging;
    ADJOIN_ASSIGN_OR_RETURN(incoming.posted, channel_.Recv(transfer.peer, Channel::kDirectSlot, into));
    incoming_.push_back(std::move(incoming));
  }
  return absl::OkStatus();
}

absl::Status PendingMovement::PostSends() {
  const ExchangeSchedule& direct = plan_->direct();
  for (const Transfer& transfer : direct.sends()) {
    if (transfer.peer == direct.rank()) continue;
    const int64_t bytes = transfer.elements * element_bytes_;
    Buffer message;
    if (const std::optional<int64_t> run = RunOf(direct.from_shape(), transfer.regions); run.has_value()) {
      message = PartOf(source_, *run * element_bytes_, bytes);
    } else {
      ADJOIN_ASSIGN_OR_RETURN(message, memory_->Allocate(bytes));
      ADJOIN_RETURN_IF_ERROR(
          Pack(*memory_, plan_->dtype(), direct.from_shape(), transfer.regions, source_.data, message.data));
    }
    ADJOIN_ASSIGN_OR_RETURN(const Channel::Posted posted, channel_.Send(transfer.peer, Channel::kDirectSlot, message));
    sends_.push_back(posted);
  }
  return absl::OkStatus();
}

std::optional<ReduceOp> PendingMovement::Combining() const {
  return plan_->direct().accumulates() ? std::make_optional(plan_->reduce()) : std::nullopt;
}

absl::Status PendingMovement::KeepOwn() {
  const ExchangeSchedule& direct = plan_->direct();
  const Transfer* from = Own(direct.sends(), direct.rank());
  const Transfer* to = Own(direct.recvs(), direct.rank());
  if (from == nullptr || to == nullptr) return absl::OkStatus();
  return CopyRegions(*memory_, plan_->dtype(), Combining(), direct.from_shape(), from->regions, source_.data,
                     direct.to_shape(), to->regions, destination_.data);
}

absl::Status PendingMovement::TakeIn(const Incoming& incoming, Deadline deadline) {
  ADJOIN_RETURN_IF_ERROR(channel_.Wait(incoming.posted, deadline));
  const ExchangeSchedule& direct = plan_->direct();
  const std::vector<Region>& regions = incoming.transfer->regions;
  if (incoming.staging.bytes == 0) return absl::OkStatus();
  return Unpack(*memory_, plan_->dtype(), Combining(), direct.to_shape(), regions, incoming.staging.data,
                destination_.data);
}

absl::Status PendingMovement::Finish(Deadline deadline) {
  for (CollectiveRun& collective : collectives_) ADJOIN_RETURN_IF_ERROR(collective.Finish(deadline));
  const ExchangeSchedule& direct = plan_->direct();
  bool own_due = direct.accumulates();
  for (const Incoming& incoming : incoming_) {
    if (own_due && incoming.transfer->peer > direct.rank()) {
      ADJOIN_RETURN_IF_ERROR(KeepOwn());
      own_due = false;
    }
    ADJOIN_RETURN_IF_ERROR(TakeIn(incoming, deadline));
  }
  if (own_due) ADJOIN_RETURN_IF_ERROR(KeepOwn());
  GiveCredits();
  for (const Channel::Posted& send : sends_) ADJOIN_RETURN_IF_ERROR(channel_.Wait(send, deadline));
  return absl::OkStatus();
}

void PendingMovement::GiveCredits() {
  for (int peer : receives_one_way_from_) {
    const absl::StatusOr<Handle> credit = channel_.SendCredit(peer);
    if (credit.ok()) credit_sends_.push_back(*credit);
  }
}

}  // namespace adjoin
