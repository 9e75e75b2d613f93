#include "primitives/comm/collective_execution.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr std::size_t kWindow = CompiledCollective::kAhead + 1;
constexpr std::size_t kMostSends = 16;  // in flight

Deadline Now() { return Deadline::After(absl::ZeroDuration()); }

}  // namespace

CollectiveExecution::CollectiveExecution(Channel* channel, LocalMemory* memory, DType dtype, ReduceOp reduce,
                                         const CompiledCollective* compiled, const std::vector<SharedRoute>* sends,
                                         const std::vector<SharedRoute>* receives, const ExecutionLinks* links,
                                         const Buffer* source, const Buffer* destination)
    : channel_(channel),
      memory_(memory),
      dtype_(dtype),
      reduce_(reduce),
      element_bytes_(SizeOf(dtype)),
      compiled_(compiled),
      send_routes_(sends),
      receive_routes_(receives),
      links_(links),
      source_(source),
      destination_(destination),
      copied_(!compiled->copies_source),
      receiving_(kWindow) {}

CollectiveExecution::~CollectiveExecution() {
  for (const InFlight& send : sends_) channel_->Abandon(send.posted);
  for (std::size_t i = next_; i < posted_receives_; ++i) {
    const Receiving& receiving = receiving_[i % kWindow];
    if (compiled_->steps[i].recv_from >= 0 && !receiving.over) channel_->Abandon(receiving.posted);
  }
}

void* CollectiveExecution::At(const Buffer& buffer, Interval elements) const {
  return static_cast<char*>(buffer.data) + elements.lo * element_bytes_;
}

Buffer CollectiveExecution::Elements(const Buffer& buffer, Interval elements) const {
  return PartOf(buffer, elements.lo * element_bytes_, elements.size() * element_bytes_);
}

Buffer CollectiveExecution::StagingOf(std::size_t step, Interval elements) const {
  const int64_t offset = static_cast<int64_t>(step % kWindow) * compiled_->longest_combined;
  return Elements(staging_, {offset, offset + elements.size()});
}

absl::Status CollectiveExecution::Begin() {
  begun_ = true;
  int64_t combined = 0, staged = 0;
  for (std::size_t i = 0; i < compiled_->steps.size(); ++i) {
    const CompiledStep& step = compiled_->steps[i];
    if (step.recv_from < 0 || step.take == CompiledStep::Take::kReplace) continue;
    ++combined;
    if (links_->Receive((*receive_routes_)[i]).channel == nullptr) ++staged;
  }
  if (staged > 0) {
    const int64_t places = std::min<int64_t>(static_cast<int64_t>(compiled_->steps.size()), kWindow);
    ADJOIN_ASSIGN_OR_RETURN(staging_, memory_->Allocate(places * compiled_->longest_combined * element_bytes_));
  }
  if (compiled_->works_in_destination) {
    work_ = *destination_;
  } else if (combined > 0) {
    const int64_t elements = std::min(compiled_->elements, CompiledCollective::kSegments * compiled_->segment);
    ADJOIN_ASSIGN_OR_RETURN(work_, memory_->Allocate(elements * element_bytes_));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CollectiveExecution::EndSends() {
  std::size_t kept = 0;
  absl::Status status;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (status.ok() && channel_->Over(sends_[i].posted)) {
      status = channel_->Wait(sends_[i].posted, Now());
    } else {
      sends_[kept++] = sends_[i];
    }
  }
  const bool ended = kept != sends_.size();
  sends_.resize(kept);
  ADJOIN_RETURN_IF_ERROR(status);
  return ended;
}

absl::StatusOr<bool> CollectiveExecution::MayWrite(Interval work) {
  const auto reads = [&](const InFlight& send) { return !send.work.Intersect(work).empty(); };
  if (std::none_of(sends_.begin(), sends_.end(), reads)) return true;
  ADJOIN_RETURN_IF_ERROR(EndSends().status());
  return std::none_of(sends_.begin(), sends_.end(), reads);
}

absl::StatusOr<bool> CollectiveExecution::PostReceives() {
  const std::size_t before = posted_receives_;
  const std::size_t end = std::min(compiled_->steps.size(), next_ + kWindow);
  for (; posted_receives_ < end; ++posted_receives_) {
    const CompiledStep& step = compiled_->steps[posted_receives_];
    if (step.recv_from < 0) continue;
    Receiving& receiving = receiving_[posted_receives_ % kWindow];
    receiving = {};
    receiving.shared = links_->Receive((*receive_routes_)[posted_receives_]);
    if (receiving.shared.channel != nullptr) {
      receiving.posted = receiving.shared.Arrival();
      receiving.posted.span = channel_->BeginSpan(
          SpanKind::kReceive, step.recv_from, Channel::CollectiveSlot(step.slot), step.recv.size() * element_bytes_);
      continue;
    }
    Buffer into;
    if (step.take == CompiledStep::Take::kReplace) {
      if (step.recv_after > next_) break;
      const Interval cells = compiled_->InWork(step.recv);
      ADJOIN_ASSIGN_OR_RETURN(const bool may_write, MayWrite(cells));
      if (!may_write) break;
      into = Elements(work_, cells);
    } else {
      into = StagingOf(posted_receives_, step.recv);
    }
    ADJOIN_ASSIGN_OR_RETURN(receiving.posted, channel_->Recv(step.recv_from, Channel::CollectiveSlot(step.slot), into));
  }
  return posted_receives_ != before;
}

absl::StatusOr<bool> CollectiveExecution::PostSends() {
  const std::size_t before = posted_sends_;
  const std::size_t end = std::min(compiled_->steps.size(), next_ + kWindow);
  for (; posted_sends_ < end; ++posted_sends_) {
    const CompiledStep& step = compiled_->steps[posted_sends_];
    if (step.send_to < 0) continue;
    if (step.send_after > next_) break;
    const Interval work = step.send_from_source ? Interval{} : compiled_->InWork(step.send);
    const Buffer& from = step.send_from_source ? *source_ : work_;
    const Interval cells = step.send_from_source ? step.send : work;
    if (const SharedMessage shared = links_->Send((*send_routes_)[posted_sends_]); shared.channel != nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(const bool may_write, HasRoom(*channel_, shared));
      no_room_ = !may_write;
      if (no_room_) break;
      const SpanRecorder::Open span = channel_->BeginSpan(
          SpanKind::kSend, step.send_to, Channel::CollectiveSlot(step.slot), cells.size() * element_bytes_);
      ADJOIN_RETURN_IF_ERROR(memory_->Copy(element_bytes_, At(from, cells), shared.payload(), {1, cells.size(), 0, 0}));
      links_->Publish(shared);
      channel_->EndSpan(span);
      continue;
    }
    if (sends_.size() >= kMostSends) {
      ADJOIN_ASSIGN_OR_RETURN(const bool ended, EndSends());
      if (!ended) break;
    }
    const Buffer out = Elements(from, cells);
    ADJOIN_ASSIGN_OR_RETURN(const Channel::Posted posted,
                            channel_->Send(step.send_to, Channel::CollectiveSlot(step.slot), out));
    sends_.push_back({posted, work});
  }
  return posted_sends_ != before;
}

absl::Status CollectiveExecution::Combine(const CompiledStep& step, const void* received) {
  void* const onto = At(work_, compiled_->InWork(step.recv));
  const void* left = step.take == CompiledStep::Take::kCombineSource ? At(*source_, step.recv) : onto;
  const void* right = received;
  if (step.received_first) std::swap(left, right);
  return memory_->Combine(reduce_, dtype_, right, left, onto, {1, step.recv.size(), 0, 0});
}

absl::Status CollectiveExecution::TakeShared(const CompiledStep& step, const SharedMessage& shared) {
  if (step.take == CompiledStep::Take::kReplace) {
    ADJOIN_RETURN_IF_ERROR(memory_->Copy(element_bytes_, shared.payload(), At(work_, compiled_->InWork(step.recv)),
                                         {1, step.recv.size(), 0, 0}));
  } else {
    ADJOIN_RETURN_IF_ERROR(Combine(step, shared.payload()));
  }
  links_->Release(shared);
  return absl::OkStatus();
}

absl::StatusOr<bool> CollectiveExecution::Complete(const CompiledStep& step) {
  if (step.send_to >= 0 && posted_sends_ <= next_) return false;
  if (step.recv_from < 0) return true;
  if (posted_receives_ <= next_) return false;
  Receiving& receiving = receiving_[next_ % kWindow];
  if (!receiving.over) {
    if (!channel_->Over(receiving.posted)) return false;
    receiving.over = true;
    ADJOIN_RETURN_IF_ERROR(channel_->Wait(receiving.posted, Now()));
  }
  const bool shared = receiving.shared.channel != nullptr;
  if (step.take == CompiledStep::Take::kReplace && !shared) return true;
  ADJOIN_ASSIGN_OR_RETURN(const bool may_write, MayWrite(compiled_->InWork(step.recv)));
  if (!may_write) return false;
  ADJOIN_RETURN_IF_ERROR(shared ? TakeShared(step, receiving.shared) : Combine(step, StagingOf(next_, step.recv).data));
  return true;
}

absl::StatusOr<bool> CollectiveExecution::Advance() {
  if (!begun_) ADJOIN_RETURN_IF_ERROR(Begin());
  bool moved = false;
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(const bool receives, PostReceives());
    ADJOIN_ASSIGN_OR_RETURN(const bool sends, PostSends());
    moved = moved || receives || sends;
    if (!copied_) {  // once the first messages are on their way
      const Rows all = {1, compiled_->elements, 0, 0};
      ADJOIN_RETURN_IF_ERROR(memory_->Copy(element_bytes_, source_->data, destination_->data, all));
      copied_ = moved = true;
    }
    if (next_ == compiled_->steps.size()) break;
    ADJOIN_ASSIGN_OR_RETURN(const bool complete, Complete(compiled_->steps[next_]));
    if (!complete) break;
    ++next_;
    moved = true;
  }
  ADJOIN_ASSIGN_OR_RETURN(const bool ended, EndSends());
  return moved || ended;
}

void CollectiveExecution::AppendBlockers(std::vector<Channel::Posted>& blockers) const {
  // While a step's own send waits for others to be over, its receive does not let it go on.
  const bool sent = next_ < posted_sends_;
  if (sent && next_ < posted_receives_ && compiled_->steps[next_].recv_from >= 0 && !receiving_[next_ % kWindow].over) {
    blockers.push_back(receiving_[next_ % kWindow].posted);
  }
  for (const InFlight& send : sends_) blockers.push_back(send.posted);
  if (no_room_) blockers.push_back(links_->Send((*send_routes_)[posted_sends_]).Room());
}

}  // namespace adjoin
