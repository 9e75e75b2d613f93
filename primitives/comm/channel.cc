#include "primitives/comm/channel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace adjoin {

std::string OperatorText(int64_t op, absl::string_view name) {
  return absl::StrCat("operator ", op, name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

Buffer PartOf(const Buffer& buffer, int64_t offset_bytes, int64_t bytes) {
  Buffer part = buffer;
  part.data = static_cast<char*>(buffer.data) + offset_bytes;
  part.bytes = static_cast<std::size_t>(bytes);
  return part;
}

Channel::Channel(Transport* transport, int communicator, const Execution* execution, int64_t generation)
    : transport_(transport), communicator_(communicator), execution_(execution), generation_(generation) {}

void Channel::Abandon(const Posted& posted) {
  if (posted.shared()) return;  // nothing was posted
  const Deadline now = Deadline::After(absl::ZeroDuration());
  transport_->Wait(posted.handle, now).IgnoreError();  // the first failure is what is reported
}

absl::StatusOr<Tag> Channel::MakeTag(int source, int slot) const {
  return Tag::Make({communicator_, execution_->op, generation_, execution_->direction, source, slot});
}

absl::StatusOr<Channel::Posted> Channel::Checked(absl::StatusOr<Handle> handle, int peer, bool send) const {
  if (!handle.ok())
    return Annotate(handle.status(), absl::StrCat(send ? "sending to rank " : "receiving from rank ", peer));
  Posted posted;
  posted.handle = *handle;
  posted.peer = peer;
  posted.send = send;
  return posted;
}

SpanRecorder::Open Channel::BeginSpan(SpanKind kind, int peer, int slot, int64_t bytes) {
  if (recorder_ == nullptr) return {};
  return recorder_->Begin({.kind = kind,
                           .direction = execution_->direction,
                           .slot = static_cast<uint16_t>(slot),
                           .index = static_cast<int32_t>(execution_->op),
                           .peer = peer,
                           .bytes = bytes,
                           .generation = generation_});
}

absl::StatusOr<Channel::Posted> Channel::Send(int peer, int slot, const Buffer& buffer) {
  const absl::StatusOr<Tag> tag = MakeTag(transport_->rank(), slot);
  if (!tag.ok()) return Annotate(tag.status(), "sending");
  const SpanRecorder::Open span = BeginSpan(SpanKind::kSend, peer, slot, static_cast<int64_t>(buffer.bytes));
  absl::StatusOr<Posted> posted = Checked(transport_->StartSend(peer, *tag, buffer), peer, true);
  if (posted.ok()) posted->span = span;
  return posted;
}

absl::StatusOr<Channel::Posted> Channel::Recv(int peer, int slot, const Buffer& buffer) {
  const absl::StatusOr<Tag> tag = MakeTag(peer, slot);
  if (!tag.ok()) return Annotate(tag.status(), "receiving");
  const SpanRecorder::Open span = BeginSpan(SpanKind::kReceive, peer, slot, static_cast<int64_t>(buffer.bytes));
  absl::StatusOr<Posted> posted = Checked(transport_->StartRecv(peer, *tag, buffer), peer, false);
  if (posted.ok()) posted->span = span;
  return posted;
}

absl::Status Channel::WaitWord(const Posted& posted) const {
  uint64_t value = posted.word.word->load(std::memory_order_acquire);
  if (value == posted.word.before) {
    const absl::Status reachable = transport_->Check(posted.peer);
    value = posted.word.word->load(std::memory_order_acquire);  // the last that a peer did before its death counts
    if (value == posted.word.before) {
      if (!reachable.ok()) return reachable;
      return absl::DeadlineExceededError(absl::StrCat("rank ", transport_->rank(), " waited too long for rank ",
                                                      posted.peer, " to ", posted.send ? "read" : "write",
                                                      " a message in shared memory"));
    }
  }
  if (value == posted.after) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("rank ", posted.peer, " wrote ", value,
                                          " into a word of shared memory, where ", posted.after, " was to follow ",
                                          posted.word.before));
}

absl::Status Channel::Wait(const Posted& posted, Deadline deadline) {
  const absl::Status status = posted.shared() ? WaitWord(posted) : transport_->Wait(posted.handle, deadline);
  EndSpan(posted.span);
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat(posted.send ? "waiting to send to rank " : "waiting for rank ", posted.peer));
}

absl::StatusOr<Handle> Channel::SendCredit(int peer) {
  ADJOIN_ASSIGN_OR_RETURN(const Tag tag, Tag::Make({communicator_, execution_->op, generation_, Direction::kControl,
                                                    transport_->rank(), static_cast<int>(execution_->direction)}));
  return transport_->StartSend(peer, tag, Buffer());
}

absl::StatusOr<Channel::Posted> Channel::RecvCredit(int peer, int64_t generation) {
  ADJOIN_ASSIGN_OR_RETURN(const Tag tag, Tag::Make({communicator_, execution_->op, generation, Direction::kControl,
                                                    peer, static_cast<int>(execution_->direction)}));
  return Checked(transport_->StartRecv(peer, tag, Buffer()), peer, false);
}

absl::StatusOr<Tag> Channel::OfferTag(int source) const {
  constexpr int kFirstSlot = 2;  // after those of credits
  return Tag::Make({communicator_, execution_->op, generation_, Direction::kControl, source,
                    kFirstSlot + static_cast<int>(execution_->direction)});
}

absl::StatusOr<Channel::Posted> Channel::SendOffer(int peer, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(const Tag tag, OfferTag(transport_->rank()));
  return Checked(transport_->StartSend(peer, tag, buffer), peer, true);
}

absl::StatusOr<Channel::Posted> Channel::RecvOffer(int peer, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(const Tag tag, OfferTag(peer));
  return Checked(transport_->StartRecv(peer, tag, buffer), peer, false);
}

absl::Status Channel::Annotate(const absl::Status& status, absl::string_view what) const {
  const char* direction = execution_->direction == Direction::kForward ? "forward" : "adjoint";
  return absl::Status(status.code(), absl::StrCat(OperatorText(execution_->op, execution_->name), " ", direction,
                                                  ", generation ", generation_, ": ", what, ": ", status.message()));
}

}  // namespace adjoin
