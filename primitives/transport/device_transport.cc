#include "primitives/transport/device_transport.h"

#include <sched.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "primitives/transport/operation.h"

namespace adjoin {
namespace {

constexpr absl::Duration kSlice = absl::Microseconds(50);  // the longest wait that does not look at the device

Deadline Now() { return Deadline::After(absl::ZeroDuration()); }

absl::Status NoSuchHandle(Handle handle) {
  return absl::NotFoundError(absl::StrCat("no operation in flight has handle ", handle.id));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> DeviceTransport::Create(std::unique_ptr<Transport> inner,
                                                                   std::shared_ptr<Device> device,
                                                                   const Options& options) {
  if (!options.staged && !inner->Moves(device->kind())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the transport cannot move ", ToString(device->kind()), ": it must be staged"));
  }
  std::unique_ptr<DeviceTransport> transport(new DeviceTransport(std::move(inner), std::move(device), options));
  ADJOIN_ASSIGN_OR_RETURN(transport->copies_, transport->device_->CreateStream());
  return std::unique_ptr<Transport>(std::move(transport));
}

DeviceTransport::DeviceTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Device> device,
                                 const Options& options)
    : ForwardingTransport(inner.get()),
      owned_(std::move(inner)),
      device_(std::move(device)),
      options_(options),
      pool_(device_.get()) {}

DeviceTransport::~DeviceTransport() {
  while (!messages_.empty()) Forget(messages_.begin()->first);
  // The device may still read or write the tensors' memory.
  const Deadline deadline = Deadline::After(absl::Seconds(1));
  for (Leftover& leftover : leftovers_) {
    absl::StatusOr<bool> done = leftover.used->Done();
    while (done.ok() && !*done && !deadline.Expired()) {
      sched_yield();
      done = leftover.used->Done();
    }
    if (!done.ok() || !*done) new Leftover(std::move(leftover));
  }
}

absl::Status DeviceTransport::CheckStart(bool send, int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_RETURN_IF_ERROR(AbortReason());
  const Operation operation{.send = send, .rank = rank(), .peer = peer, .tag = tag, .bytes = buffer.bytes};
  ADJOIN_RETURN_IF_ERROR(CheckOperation(operation, size(), buffer));
  if (closed_) return absl::FailedPreconditionError(absl::StrCat(operation.ToString(), ": the transport is closed"));
  if (buffer.kind == device_->kind() || inner().Moves(buffer.kind)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation.ToString(), ": neither the transport nor ", device_->name(),
                                                 " moves ", ToString(buffer.kind)));
}

absl::StatusOr<Handle> DeviceTransport::StartSend(int peer, Tag tag, const Buffer& buffer) {
  Message message;
  message.send = true;
  message.peer = peer;
  message.tag = tag;
  message.buffer = buffer;
  return Start(std::move(message));
}

absl::StatusOr<Handle> DeviceTransport::StartRecv(int peer, Tag tag, const Buffer& buffer) {
  Message message;
  message.peer = peer;
  message.tag = tag;
  message.buffer = buffer;
  return Start(std::move(message));
}

absl::StatusOr<Handle> DeviceTransport::Start(Message message) {
  ADJOIN_RETURN_IF_ERROR(CheckStart(message.send, message.peer, message.tag, message.buffer));
  const bool on_device = message.buffer.bytes > 0 && message.buffer.kind == device_->kind();
  message.staged = on_device && options_.staged;
  if (on_device && message.buffer.stream != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(message.ready, message.buffer.stream->Record());
  }
  if (message.staged && !message.send) {
    ADJOIN_ASSIGN_OR_RETURN(message.pinned, pool_.Take(message.buffer.bytes));
  }
  std::deque<uint64_t>& queue = message.send ? queued_sends_ : queued_receives_;
  const uint64_t id = ++last_id_;
  Message& started = messages_.emplace(id, std::move(message)).first->second;
  queue.push_back(id);
  Advance();
  // What failed at once is told at once, as the other transports do.
  if (started.state == Message::State::kOver && !started.outcome.ok()) {
    const absl::Status outcome = started.outcome;
    Forget(id);
    return outcome;
  }
  return Handle{id};
}

// Sends wait for the room of sends alone: receives have their memory, and wait for the other ranks' sends.
bool DeviceTransport::RoomFor(const Message& message) const {
  return sends_in_pinned_ == 0 ||
         sends_in_pinned_ + static_cast<int64_t>(message.buffer.bytes) <= options_.most_staged_bytes;
}

absl::Status DeviceTransport::Stage(Message& message) {
  ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation pinned, pool_.Take(message.buffer.bytes));
  if (message.ready != nullptr) ADJOIN_RETURN_IF_ERROR(copies_->WaitFor(*message.ready));
  // Where this fails the memory goes, and the device waits for what uses it.
  ADJOIN_RETURN_IF_ERROR(copies_->Copy(pinned.data, message.buffer.data, message.buffer.bytes));
  ADJOIN_ASSIGN_OR_RETURN(message.ready, copies_->Record());
  message.pinned = std::move(pinned);
  sends_in_pinned_ += static_cast<int64_t>(message.pinned.bytes);
  return absl::OkStatus();
}

void DeviceTransport::StageSends() {
  for (const uint64_t id : queued_sends_) {
    Message& message = messages_.at(id);
    if (!message.staged || message.pinned.data != nullptr || message.state == Message::State::kOver) continue;
    if (!RoomFor(message)) EndStagedSends();
    if (!RoomFor(message)) return;
    message.outcome = Stage(message);
    if (!message.outcome.ok()) message.state = Message::State::kOver;
  }
}

void DeviceTransport::Release(Message& message, Pinned how, std::shared_ptr<DeviceEvent> used) {
  if (message.pinned.data == nullptr) return;
  if (message.send) sends_in_pinned_ -= static_cast<int64_t>(message.pinned.bytes);
  DeviceAllocation pinned = std::exchange(message.pinned, {});
  if (how == Pinned::kGive) pool_.Give(std::move(pinned), std::move(used));
}

void DeviceTransport::Advance() {
  while (!leftovers_.empty()) {
    const absl::StatusOr<bool> done = leftovers_.front().used->Done();
    if (!done.ok() || !*done) break;
    leftovers_.pop_front();
  }
  StageSends();
  PostFrom(queued_sends_);
  PostFrom(queued_receives_);
}

void DeviceTransport::PostFrom(std::deque<uint64_t>& queue) {
  for (; !queue.empty(); queue.pop_front()) {
    Message& message = messages_.at(queue.front());
    if (message.state == Message::State::kOver) continue;
    const bool receive_staged = message.staged && !message.send;
    if (message.staged && message.pinned.data == nullptr) return;
    // What is received to pinned memory waits for the device only on its way to the tensor.
    if (message.ready != nullptr && !receive_staged) {
      const absl::StatusOr<bool> done = message.ready->Done();
      if (done.ok() && !*done) return;
      message.outcome = done.status();
    }
    if (message.outcome.ok()) message.outcome = Post(message);
    message.state = message.outcome.ok() ? Message::State::kPosted : Message::State::kOver;
  }
}

absl::Status DeviceTransport::Post(Message& message) {
  Buffer buffer = message.buffer;
  buffer.stream = nullptr;
  if (message.staged) {
    buffer.data = message.pinned.data;
    buffer.kind = MemoryKind::kPinnedHost;
    buffer.keepalive = message.pinned.keepalive;
  } else if (buffer.bytes == 0) {
    buffer.kind = MemoryKind::kHost;
  }
  const absl::StatusOr<Handle> handle = message.send ? inner().StartSend(message.peer, message.tag, buffer)
                                                     : inner().StartRecv(message.peer, message.tag, buffer);
  ADJOIN_RETURN_IF_ERROR(handle.status());
  message.inner = *handle;
  return absl::OkStatus();
}

absl::Status DeviceTransport::CopyToDevice(Message& message) {
  if (message.ready != nullptr) ADJOIN_RETURN_IF_ERROR(copies_->WaitFor(*message.ready));
  ADJOIN_RETURN_IF_ERROR(copies_->Copy(message.buffer.data, message.pinned.data, message.buffer.bytes));
  ADJOIN_ASSIGN_OR_RETURN(message.arrived, copies_->Record());
  leftovers_.push_back({message.arrived, message.buffer});
  return absl::OkStatus();
}

void DeviceTransport::End(Message& message) {
  message.outcome = inner().Wait(message.inner, Now());
  message.state = Message::State::kOver;
  const bool received = message.outcome.ok() && message.staged && !message.send;
  if (received) message.outcome = CopyToDevice(message);
  // After a failure `inner`, or the device, may not be through with it.
  Release(message, message.outcome.ok() ? Pinned::kGive : Pinned::kLose, message.arrived);
}

void DeviceTransport::EndStagedSends() {
  for (auto& [id, message] : messages_) {
    if (message.send && message.staged) Over(message);
  }
}

bool DeviceTransport::Over(Message& message) {
  if (message.state == Message::State::kPosted && inner().Test(message.inner)) End(message);
  return message.state == Message::State::kOver;
}

bool DeviceTransport::Test(Handle handle) {
  const auto it = messages_.find(handle.id);
  if (it == messages_.end()) return true;
  Advance();
  return Over(it->second) || !AbortReason().ok();
}

void DeviceTransport::Idle(absl::Span<const Handle> posted, int* idle_calls, Deadline deadline) {
  const bool device_works = !queued_sends_.empty() || !queued_receives_.empty();
  const Deadline until = device_works ? std::min(deadline, Deadline::After(kSlice),
                                                 [](Deadline a, Deadline b) { return a.when() < b.when(); })
                                      : deadline;
  if (!posted.empty()) {
    inner().WaitAny(posted, until).IgnoreError();
    return;
  }
  // Only the device: it is through in microseconds, mostly.
  constexpr int kYields = 1000;
  if (++*idle_calls < kYields) {
    sched_yield();
  } else {
    absl::SleepFor(std::min(kSlice, deadline.Remaining()));
  }
}

absl::Status DeviceTransport::Wait(Handle handle, Deadline deadline) {
  const auto it = messages_.find(handle.id);
  if (it == messages_.end()) return NoSuchHandle(handle);
  Message& message = it->second;
  int idle_calls = 0;
  Advance();
  absl::Status status;
  while (!Over(message)) {
    status = AbortReason();
    if (status.ok() && deadline.Expired()) {
      status = WaitedTooLong({.send = message.send,
                              .rank = rank(),
                              .peer = message.peer,
                              .tag = message.tag,
                              .bytes = message.buffer.bytes});
    }
    if (!status.ok()) break;
    const bool posted = message.state == Message::State::kPosted;
    Idle(posted ? absl::MakeConstSpan(&message.inner, 1) : absl::Span<const Handle>(), &idle_calls, deadline);
    Advance();
  }
  if (status.ok()) status = message.outcome;
  if (status.ok() && message.arrived != nullptr && message.buffer.stream != nullptr) {
    status = message.buffer.stream->WaitFor(*message.arrived);
  }
  Forget(handle.id);
  return status;
}

void DeviceTransport::Forget(uint64_t id) {
  const auto it = messages_.find(id);
  Message& message = it->second;
  if (message.state == Message::State::kPosted) {
    inner().Wait(message.inner, Now()).IgnoreError();
    Release(message, Pinned::kLose);
  } else {
    for (std::deque<uint64_t>* queue : {&queued_sends_, &queued_receives_}) {
      queue->erase(std::remove(queue->begin(), queue->end(), id), queue->end());
    }
    // A send that was never posted: a copy to its memory is queued.
    if (message.pinned.data != nullptr && message.send) leftovers_.push_back({message.ready, message.buffer});
    Release(message, Pinned::kGive, message.send ? message.ready : nullptr);
  }
  messages_.erase(it);
}

absl::Status DeviceTransport::WaitAny(absl::Span<const Handle> handles, Deadline deadline) {
  int idle_calls = 0;
  std::vector<Handle> posted;
  while (true) {
    Advance();
    posted.clear();
    bool over = false;
    for (const Handle handle : handles) {
      const auto it = messages_.find(handle.id);
      over = over || it == messages_.end() || Over(it->second);
      if (!over && it->second.state == Message::State::kPosted) posted.push_back(it->second.inner);
    }
    ADJOIN_RETURN_IF_ERROR(AbortReason());
    if (over) return absl::OkStatus();
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank(), " waited too long for any of ", handles.size(), " operations"));
    }
    Idle(posted, &idle_calls, deadline);
  }
}

void DeviceTransport::Abort(absl::Status reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (abort_reason_.ok()) abort_reason_ = reason;
  }
  inner().Abort(std::move(reason));
}

absl::Status DeviceTransport::AbortReason() {
  absl::Status reason;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    reason = abort_reason_;
  }
  if (reason.ok() && !inner().AbortedByPeer()) return reason;
  // In this call `inner` tells the other ranks of an abort, or this one.
  const absl::Status told = inner().Flush(Now());
  return reason.ok() && !absl::IsDeadlineExceeded(told) ? told : reason;
}

absl::Status DeviceTransport::Flush(Deadline deadline) {
  int idle_calls = 0;
  for (Advance(); !queued_sends_.empty(); Advance()) {
    ADJOIN_RETURN_IF_ERROR(AbortReason());
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank(), " waited too long to flush ",
                                                      queued_sends_.size(), " messages of ", device_->name()));
    }
    EndStagedSends();
    Idle({}, &idle_calls, deadline);
  }
  return inner().Flush(deadline);
}

absl::Status DeviceTransport::Close(Deadline deadline) {
  if (closed_) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(Flush(deadline));
  ADJOIN_RETURN_IF_ERROR(inner().Close(deadline));
  closed_ = true;
  return absl::OkStatus();
}

std::string DeviceTransport::Describe(int peer) const {
  return options_.staged ? absl::StrCat(inner().Describe(peer), " staged by ", device_->name())
                         : inner().Describe(peer);
}

}  // namespace adjoin
