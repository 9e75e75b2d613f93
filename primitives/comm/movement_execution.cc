#include "primitives/comm/movement_execution.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int64_t kUnreceived = 2;  // executions

}  // namespace

MovementExecution::MovementExecution(Transport* transport, LocalMemory* memory, int communicator,
                                     const Execution* execution, int64_t generation, Operator* op,
                                     std::shared_ptr<const RoutedMovement> movement, Buffer source, Buffer destination)
    : op_(op),
      movement_(std::move(movement)),
      compiled_(&movement_->compiled),
      source_(std::move(source)),
      destination_(std::move(destination)),
      channel_(transport, communicator, execution, generation),
      direct_(&channel_, memory, compiled_, &movement_->routes, &links_, &source_, &destination_) {
  for (std::size_t i = 0; i < compiled_->collectives.size(); ++i) {
    collectives_.push_back(std::make_unique<CollectiveExecution>(
        &channel_, memory, compiled_->dtype, compiled_->reduce, &compiled_->collectives[i],
        &movement_->routes.out.steps[i], &movement_->routes.in.steps[i], &links_, &source_, &destination_));
  }
}

MovementExecution::~MovementExecution() {
  Leave();
  for (const Channel::Posted& credit : credits_) channel_.Abandon(credit);
}

void MovementExecution::Join(std::vector<MovementExecution*>* list) {
  list_ = list;
  list_->push_back(this);
}

void MovementExecution::Leave() {
  if (list_ == nullptr) return;
  list_->erase(std::find(list_->begin(), list_->end(), this));
  list_ = nullptr;
}

absl::Status MovementExecution::Start() {
  ADJOIN_ASSIGN_OR_RETURN(links_, op_->links.Begin(channel_, movement_->routes));
  ADJOIN_RETURN_IF_ERROR(direct_.PostReceives());
  ADJOIN_RETURN_IF_ERROR(ExpectCredits());
  return Advance().status();
}

absl::Status MovementExecution::ExpectCredits() {
  Operator::Previous& before = op_->previous[channel_.generation() % kUnreceived];
  if (before.movement != nullptr) {
    for (int peer : before.movement->compiled.sends_one_way_to) {
      if (!before.links.SendsByTransport(peer)) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Channel::Posted credit,
                              channel_.RecvCredit(peer, channel_.generation() - kUnreceived));
      credits_.push_back(credit);
    }
  }
  before = {};
  if (!compiled_->sends_one_way_to.empty()) before = {movement_, links_};
  return absl::OkStatus();
}

absl::StatusOr<bool> MovementExecution::TakeCredits() {
  while (!credits_.empty()) {
    const Channel::Posted credit = credits_.back();
    if (!channel_.Over(credit)) return false;
    credits_.pop_back();
    ADJOIN_RETURN_IF_ERROR(channel_.Wait(credit, Deadline::After(absl::ZeroDuration())));
  }
  return links_.TakeOffers(channel_);
}

absl::StatusOr<bool> MovementExecution::Advance() {
  if (done_) return false;
  absl::StatusOr<bool> moved = AdvanceNow();
  links_.Wake();
  return moved;
}

absl::StatusOr<bool> MovementExecution::AdvanceNow() {
  const std::size_t credits = credits_.size();
  ADJOIN_ASSIGN_OR_RETURN(const bool may_send, TakeCredits());
  bool moved = credits_.size() != credits;
  bool done = may_send;
  if (may_send) {
    ADJOIN_ASSIGN_OR_RETURN(const bool sent, direct_.Send());
    moved = moved || sent;
    for (const std::unique_ptr<CollectiveExecution>& collective : collectives_) {
      if (collective->done()) continue;
      ADJOIN_ASSIGN_OR_RETURN(const bool advanced, collective->Advance());
      moved = moved || advanced;
      done = done && collective->done();
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(const bool received, direct_.Receive());
  if (!done || !direct_.sent() || !direct_.received()) return moved || received;
  GiveCredits();
  done_ = true;
  // One that was sent ahead may stay here for long: the tensors need not.
  source_ = {};
  destination_ = {};
  Leave();
  return true;
}

void MovementExecution::GiveCredits() {
  for (int peer : compiled_->receives_one_way_from) {
    if (!links_.ReceivesByTransport(peer)) continue;
    const absl::StatusOr<Handle> credit = channel_.SendCredit(peer);
    if (credit.ok()) credit_sends_.push_back(*credit);
  }
}

void MovementExecution::AppendBlockers(std::vector<Channel::Posted>& blockers) const {
  if (done_) return;
  direct_.AppendBlockers(blockers);
  if (!credits_.empty()) {
    blockers.push_back(credits_.back());
    return;
  }
  links_.AppendBlockers(blockers);
  for (const std::unique_ptr<CollectiveExecution>& collective : collectives_) collective->AppendBlockers(blockers);
}

absl::Status MovementExecution::GivenUp(const Channel::Posted& blocker) {
  const absl::Status status = channel_.Wait(blocker, Deadline::After(absl::ZeroDuration()));
  if (!status.ok()) return status;
  // It came in the last moment. Where an abort ended the wait, that is the reason all the same.
  const absl::Status reachable = channel_.transport().Check(blocker.peer);
  if (!reachable.ok()) return channel_.Annotate(reachable, absl::StrCat("waiting for rank ", blocker.peer));
  return channel_.Annotate(absl::DeadlineExceededError("not done in time"), "waiting");
}

}  // namespace adjoin
