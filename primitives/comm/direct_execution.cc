#include "primitives/comm/direct_execution.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/comm/pack.h"

namespace adjoin {

DirectExecution::DirectExecution(Channel* channel, LocalMemory* memory, const CompiledMovement* compiled,
                                 const SharedRoutes* routes, const ExecutionLinks* links, const Buffer* source,
                                 const Buffer* destination)
    : channel_(channel),
      memory_(memory),
      compiled_(compiled),
      routes_(routes),
      links_(links),
      source_(source),
      destination_(destination),
      element_bytes_(SizeOf(compiled->dtype)) {
  receives_.reserve(compiled->receives.size());
}

DirectExecution::~DirectExecution() {
  for (std::size_t i = ended_sends_; i < sends_.size(); ++i) channel_->Abandon(sends_[i].posted);
  for (std::size_t i = taken_; i < receives_.size(); ++i) channel_->Abandon(receives_[i].posted);
}

absl::StatusOr<Buffer> DirectExecution::TakeStaging(int64_t bytes) {
  while (!free_staging_.empty()) {
    Buffer staging = std::move(free_staging_.back());
    free_staging_.pop_back();
    if (static_cast<int64_t>(staging.bytes) >= bytes) return staging;
    // Too small: it goes, or messages of growing length would keep the memory of all that came before.
  }
  return memory_->Allocate(bytes);
}

absl::Status DirectExecution::PostReceives() {
  while (receives_.size() < compiled_->receives.size()) {
    const ListedMessage& message = compiled_->receives[receives_.size()];
    const int64_t bytes = BytesOf(message);
    InFlight receive;
    receive.shared = links_->Receive(routes_->in.listed[receives_.size()]);
    if (receive.shared.channel != nullptr) {
      receive.posted = receive.shared.Arrival();
      receive.posted.span = channel_->BeginSpan(SpanKind::kReceive, message.peer, Channel::kDirectSlot, bytes);
      receives_.push_back(std::move(receive));
      continue;
    }
    Buffer into;
    if (message.run.has_value() && !compiled_->combines) {
      into = PartOf(*destination_, *message.run * element_bytes_, bytes);
    } else {
      if (staged_to_take_ > 0 && staged_to_take_ + bytes > kStagedBytes) return absl::OkStatus();
      ADJOIN_ASSIGN_OR_RETURN(receive.staging, TakeStaging(bytes));
      staged_to_take_ += static_cast<int64_t>(receive.staging.bytes);
      into = PartOf(receive.staging, 0, bytes);
    }
    ADJOIN_ASSIGN_OR_RETURN(receive.posted, channel_->Recv(message.peer, Channel::kDirectSlot, into));
    receives_.push_back(std::move(receive));
  }
  return absl::OkStatus();
}

// In order: what travels in place needs nothing more, and what was packed gives its memory back.
absl::Status DirectExecution::EndSends() {
  for (; ended_sends_ < sends_.size() && channel_->Over(sends_[ended_sends_].posted); ++ended_sends_) {
    InFlight& send = sends_[ended_sends_];
    const absl::Status ended = channel_->Wait(send.posted, Deadline::After(absl::ZeroDuration()));
    if (!ended.ok()) {
      ++ended_sends_;  // no longer this one's to abandon
      return ended;
    }
    if (send.staging.bytes == 0) continue;
    staged_to_send_ -= static_cast<int64_t>(send.staging.bytes);
    free_staging_.push_back(std::move(send.staging));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> DirectExecution::SendShared(const ListedMessage& message, const SharedMessage& shared) {
  ADJOIN_ASSIGN_OR_RETURN(const bool may_write, HasRoom(*channel_, shared));
  if (!may_write) return false;
  const SpanRecorder::Open span =
      channel_->BeginSpan(SpanKind::kSend, message.peer, Channel::kDirectSlot, BytesOf(message));
  ADJOIN_RETURN_IF_ERROR(
      Pack(*memory_, compiled_->dtype, compiled_->from_shape, message.regions, source_->data, shared.payload()));
  links_->Publish(shared);
  channel_->EndSpan(span);
  return true;
}

absl::StatusOr<bool> DirectExecution::Send() {
  const std::size_t before = posted_sends_ + ended_sends_;
  ADJOIN_RETURN_IF_ERROR(EndSends());
  while (posted_sends_ < compiled_->sends.size()) {
    const ListedMessage& message = compiled_->sends[posted_sends_];
    if (const SharedMessage shared = links_->Send(routes_->out.listed[posted_sends_]); shared.channel != nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(const bool sent, SendShared(message, shared));
      no_room_ = !sent;
      if (!sent) break;
      ++posted_sends_;
      continue;
    }
    const int64_t bytes = BytesOf(message);
    InFlight send;
    Buffer out;
    if (message.run.has_value()) {
      out = PartOf(*source_, *message.run * element_bytes_, bytes);
    } else {
      if (staged_to_send_ > 0 && staged_to_send_ + bytes > kStagedBytes) break;
      ADJOIN_ASSIGN_OR_RETURN(send.staging, TakeStaging(bytes));
      staged_to_send_ += static_cast<int64_t>(send.staging.bytes);
      ADJOIN_RETURN_IF_ERROR(
          Pack(*memory_, compiled_->dtype, compiled_->from_shape, message.regions, source_->data, send.staging.data));
      out = PartOf(send.staging, 0, bytes);
    }
    ADJOIN_ASSIGN_OR_RETURN(send.posted, channel_->Send(message.peer, Channel::kDirectSlot, out));
    sends_.push_back(std::move(send));
    ++posted_sends_;
    ADJOIN_RETURN_IF_ERROR(EndSends());
  }
  return posted_sends_ + ended_sends_ != before;
}

absl::Status DirectExecution::Keep(const KeptCells& kept) {
  return CopyRegions(*memory_, compiled_->dtype, op(), compiled_->from_shape, kept.from, source_->data,
                     compiled_->to_shape, kept.to, destination_->data);
}

absl::Status DirectExecution::TakeIn(const ListedMessage& message, const InFlight& receive) {
  if (receive.shared.channel != nullptr) {
    ADJOIN_RETURN_IF_ERROR(Unpack(*memory_, compiled_->dtype, op(), compiled_->to_shape, message.regions,
                                  receive.shared.payload(), destination_->data));
    links_->Release(receive.shared);
    return absl::OkStatus();
  }
  if (receive.staging.bytes == 0) return absl::OkStatus();
  return Unpack(*memory_, compiled_->dtype, op(), compiled_->to_shape, message.regions, receive.staging.data,
                destination_->data);
}

absl::StatusOr<bool> DirectExecution::Receive() {
  const std::size_t before = taken_ + kept_;
  while (true) {
    // Where nothing is combined, what is kept need not wait for its turn.
    while (kept_ < compiled_->kept.size() &&
           (!compiled_->combines || compiled_->kept[kept_].before_receive <= taken_)) {
      ADJOIN_RETURN_IF_ERROR(Keep(compiled_->kept[kept_]));
      ++kept_;
    }
    if (taken_ == receives_.size() || !channel_->Over(receives_[taken_].posted)) break;
    InFlight& receive = receives_[taken_];
    const ListedMessage& message = compiled_->receives[taken_];
    ++taken_;  // whatever comes of it, it is no longer this one's to abandon
    ADJOIN_RETURN_IF_ERROR(channel_->Wait(receive.posted, Deadline::After(absl::ZeroDuration())));
    ADJOIN_RETURN_IF_ERROR(TakeIn(message, receive));
    if (receive.staging.bytes > 0) {
      staged_to_take_ -= static_cast<int64_t>(receive.staging.bytes);
      free_staging_.push_back(std::move(receive.staging));
    }
    ADJOIN_RETURN_IF_ERROR(PostReceives());
  }
  return taken_ + kept_ != before;
}

void DirectExecution::AppendBlockers(std::vector<Channel::Posted>& blockers) const {
  if (taken_ < receives_.size()) blockers.push_back(receives_[taken_].posted);
  if (ended_sends_ < sends_.size()) blockers.push_back(sends_[ended_sends_].posted);
  if (no_room_) blockers.push_back(links_->Send(routes_->out.listed[posted_sends_]).Room());
}

}  // namespace adjoin
