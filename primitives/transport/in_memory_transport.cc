#include "primitives/transport/in_memory_transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/transport/barrier.h"
#include "primitives/transport/operation.h"

namespace adjoin {

class InMemoryTransport final : public Transport {
 public:
  InMemoryTransport(std::shared_ptr<InMemoryFabric> fabric, int rank)
      : fabric_(std::move(fabric)), rank_(rank), mailbox_(fabric_->mailboxes_[rank]), sent_to_(fabric_->size()) {}

  int rank() const override { return rank_; }
  int size() const override { return fabric_->size(); }
  bool Moves(MemoryKind kind) const override {
    return Transport::Moves(kind) || (fabric_->options_.view != nullptr && kind == fabric_->options_.view_kind);
  }
  std::string Address() const override { return fabric_->AddressOf(rank_); }
  absl::Status Connect(const std::vector<std::string>& addresses, Deadline deadline) override;
  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override;
  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override;
  absl::Status Wait(Handle handle, Deadline deadline) override;
  bool Test(Handle handle) override;
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override;
  absl::Status Flush(Deadline deadline) override;
  absl::Status Close(Deadline deadline) override;
  void Abort(absl::Status reason) override;
  bool Disturbed() const override;
  bool AbortedByPeer() const override { return mailbox_.aborted_by_peer.load(); }
  int64_t BytesSent() const override { return bytes_sent_.load(std::memory_order_relaxed); }
  std::string Describe(int peer) const override { return peer == rank_ ? "memory/self" : "memory"; }

 private:
  using Key = std::pair<int, uint64_t>;  // the other end, tag
  using Message = InMemoryFabric::Message;

  struct Pending {
    Operation operation;
    Buffer buffer;
    char* view = nullptr;  // the address at which this process may touch the memory
    bool done = false;
    absl::Status outcome;
    uint64_t sequence = 0;  // a send: its number among those to its peer
    int hold_back = 0;      // a send: calls that are left until it may depart
  };
  struct Arriving {
    Message message;
    int hold_back = 0;
  };

  absl::StatusOr<Pending> Prepare(bool send, int peer, Tag tag, const Buffer& buffer) const;
  absl::Status OwnFailure() const;
  void Progress();
  void Depart(Pending& send);
  void Deliver(Message message);
  void Complete(Pending& receive, const Message& message);
  void Forget(uint64_t id);
  bool HeldBackFrom(int peer) const;
  bool Over(Handle handle) const;
  void Block(absl::Span<const int> living, Deadline deadline);

  const std::shared_ptr<InMemoryFabric> fabric_;
  const int rank_;
  InMemoryFabric::Mailbox& mailbox_;
  std::atomic<int64_t> bytes_sent_{0};
  bool connected_ = false;
  bool closed_ = false;

  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Pending> pending_;
  std::list<uint64_t> departing_;  // sends that have not read their buffer
  std::list<Arriving> arriving_;   // messages that may not be seen yet
  std::map<Key, std::deque<uint64_t>> posted_;
  std::map<Key, std::deque<Message>> unexpected_;
  std::vector<uint64_t> sent_to_;  // messages so far, by receiver
};

absl::StatusOr<std::shared_ptr<InMemoryFabric>> InMemoryFabric::Create(int size, const Options& options) {
  if (size < 1) return absl::InvalidArgumentError(absl::StrCat("in-memory fabric: size ", size, " is not positive"));
  return std::shared_ptr<InMemoryFabric>(new InMemoryFabric(size, options));
}

absl::StatusOr<std::unique_ptr<Transport>> InMemoryFabric::CreateTransport(int rank) {
  if (rank < 0 || rank >= size()) {
    return absl::InvalidArgumentError(absl::StrCat("in-memory fabric of ", size(), " ranks has no rank ", rank));
  }
  Mailbox& mailbox = mailboxes_[rank];
  std::lock_guard<std::mutex> lock(mailbox.mutex);
  if (mailbox.taken) return absl::AlreadyExistsError(absl::StrCat("rank ", rank, " already has a transport"));
  mailbox.taken = true;
  return std::unique_ptr<Transport>(new InMemoryTransport(shared_from_this(), rank));
}

std::string InMemoryFabric::AddressOf(int rank) const {
  return absl::StrCat("in-memory fabric ", reinterpret_cast<uintptr_t>(this), " rank ", rank, " of ", size());
}

void InMemoryFabric::Kill(int rank) {
  mailboxes_[rank].dead.store(true);
  for (Mailbox& mailbox : mailboxes_) {
    std::lock_guard<std::mutex> lock(mailbox.mutex);
    mailbox.changed.notify_all();
  }
}

int InMemoryFabric::HoldBack(int sender, int receiver, uint64_t sequence, bool at_sender) const {
  if (!options_.delay) return 0;
  uint64_t x = options_.seed;  // SplitMix64 over the fields
  for (uint64_t field : {uint64_t(sender), uint64_t(receiver), sequence, uint64_t(at_sender)}) {
    x += field + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
  }
  const int bound = (x & 0xf) == 0 ? 64 : 6;  // a few messages are overtaken by many others
  return static_cast<int>((x >> 8) % bound);
}

absl::Status InMemoryTransport::OwnFailure() const {
  if (mailbox_.aborted.load()) {
    std::lock_guard<std::mutex> lock(mailbox_.mutex);
    return mailbox_.abort_reason;
  }
  if (mailbox_.dead.load()) return absl::UnavailableError(absl::StrCat("rank ", rank_, " was killed"));
  return absl::OkStatus();
}

absl::StatusOr<InMemoryTransport::Pending> InMemoryTransport::Prepare(bool send, int peer, Tag tag,
                                                                      const Buffer& buffer) const {
  ADJOIN_RETURN_IF_ERROR(OwnFailure());
  if (closed_) return absl::FailedPreconditionError("in-memory transport: the transport is closed");
  Pending pending;
  pending.operation.send = send;
  pending.operation.rank = rank_;
  pending.operation.peer = peer;
  pending.operation.tag = tag;
  pending.operation.bytes = buffer.bytes;
  pending.buffer = buffer;
  ADJOIN_RETURN_IF_ERROR(CheckOperation(pending.operation, size(), buffer));
  if (buffer.kind == MemoryKind::kHost || buffer.kind == MemoryKind::kPinnedHost) {
    pending.view = static_cast<char*>(buffer.data);
  } else if (Moves(buffer.kind)) {
    ADJOIN_ASSIGN_OR_RETURN(pending.view, fabric_->options_.view(buffer.data, buffer.bytes));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(pending.operation.ToString(), ": the in-memory transport does not move ", ToString(buffer.kind)));
  }
  return pending;
}

absl::StatusOr<Handle> InMemoryTransport::StartSend(int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(Pending send, Prepare(true, peer, tag, buffer));
  if (fabric_->mailboxes_[peer].dead.load()) return absl::UnavailableError(absl::StrCat("rank ", peer, " died"));
  send.sequence = sent_to_[peer]++;
  send.hold_back = fabric_->HoldBack(rank_, peer, send.sequence, /*at_sender=*/true);
  if (peer != rank_) bytes_sent_.fetch_add(static_cast<int64_t>(buffer.bytes), std::memory_order_relaxed);
  const uint64_t id = ++last_id_;
  pending_.emplace(id, std::move(send));
  departing_.push_back(id);
  Progress();
  return Handle{id};
}

absl::StatusOr<Handle> InMemoryTransport::StartRecv(int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(Pending receive, Prepare(false, peer, tag, buffer));
  const bool dead = fabric_->mailboxes_[peer].dead.load();
  Progress();
  const uint64_t id = ++last_id_;
  const Key key(peer, tag.bits());
  auto unexpected = unexpected_.find(key);
  if (unexpected != unexpected_.end()) {
    Complete(receive, unexpected->second.front());
    unexpected->second.pop_front();
    if (unexpected->second.empty()) unexpected_.erase(unexpected);
    pending_.emplace(id, std::move(receive));
    return Handle{id};
  }
  if (dead && !HeldBackFrom(peer)) return absl::UnavailableError(absl::StrCat("rank ", peer, " died"));
  pending_.emplace(id, std::move(receive));
  posted_[key].push_back(id);
  return Handle{id};
}

void InMemoryTransport::Complete(Pending& receive, const Message& message) {
  if (message.bytes != receive.buffer.bytes) {
    receive.outcome = LengthMismatch(receive.operation, message.bytes);
  } else if (message.bytes > 0) {
    std::memcpy(receive.view, message.payload.get(), message.bytes);
  }
  receive.done = true;
}

void InMemoryTransport::Deliver(Message message) {
  const Key key(message.sender, message.tag);
  auto posted = posted_.find(key);
  if (posted == posted_.end()) {
    unexpected_[key].push_back(std::move(message));
    return;
  }
  Complete(pending_.at(posted->second.front()), message);
  posted->second.pop_front();
  if (posted->second.empty()) posted_.erase(posted);
}

void InMemoryTransport::Depart(Pending& send) {
  Message message;
  message.sender = rank_;
  message.tag = send.operation.tag.bits();
  message.sequence = send.sequence;
  message.bytes = send.buffer.bytes;
  if (message.bytes > 0) {
    message.payload.reset(new char[message.bytes]);
    std::memcpy(message.payload.get(), send.view, message.bytes);
  }
  InMemoryFabric::Mailbox& to = fabric_->mailboxes_[send.operation.peer];
  std::lock_guard<std::mutex> lock(to.mutex);
  to.inbox.push_back(std::move(message));
  to.changed.notify_one();
  send.done = true;
}

// Advances all operations: sends that have waited long enough read their buffers and leave, messages that have waited
// long enough meet their receives. One that waits holds back the later ones of equal peer and tag.
void InMemoryTransport::Progress() {
  if (mailbox_.dead.load()) return;
  std::set<Key> waiting;
  for (auto it = departing_.begin(); it != departing_.end();) {
    Pending& send = pending_.at(*it);
    const Key key(send.operation.peer, send.operation.tag.bits());
    if (--send.hold_back >= 0 || waiting.count(key) > 0) {
      waiting.insert(key);
      ++it;
    } else {
      Depart(send);
      it = departing_.erase(it);
    }
  }
  std::vector<Message> arrived;
  {
    std::lock_guard<std::mutex> lock(mailbox_.mutex);
    arrived.swap(mailbox_.inbox);
  }
  for (Message& message : arrived) {
    const int hold_back = fabric_->HoldBack(message.sender, rank_, message.sequence, /*at_sender=*/false);
    arriving_.push_back({std::move(message), hold_back});
  }
  waiting.clear();
  for (auto it = arriving_.begin(); it != arriving_.end();) {
    const Key key(it->message.sender, it->message.tag);
    if (--it->hold_back >= 0 || waiting.count(key) > 0) {
      waiting.insert(key);
      ++it;
    } else {
      Deliver(std::move(it->message));
      it = arriving_.erase(it);
    }
  }
}

bool InMemoryTransport::HeldBackFrom(int peer) const {
  return std::any_of(arriving_.begin(), arriving_.end(),
                     [&](const Arriving& arriving) { return arriving.message.sender == peer; });
}

void InMemoryTransport::Forget(uint64_t id) {
  auto it = pending_.find(id);
  if (!it->second.done) {
    if (it->second.operation.send) {
      departing_.remove(id);
    } else {
      const Key key(it->second.operation.peer, it->second.operation.tag.bits());
      std::deque<uint64_t>& queue = posted_.at(key);
      queue.erase(std::find(queue.begin(), queue.end(), id));
      if (queue.empty()) posted_.erase(key);
    }
  }
  pending_.erase(it);
}

// Returns when something changes for this rank; at once where only further calls of Progress let something move.
// `living`:
// the peers that were alive before the last Progress.
void InMemoryTransport::Block(absl::Span<const int> living, Deadline deadline) {
  if (!departing_.empty() || !arriving_.empty()) {
    std::this_thread::yield();
    return;
  }
  std::unique_lock<std::mutex> lock(mailbox_.mutex);
  mailbox_.changed.wait_until(lock, deadline.when(), [&] {
    return !mailbox_.inbox.empty() || mailbox_.aborted.load() || mailbox_.dead.load() ||
           std::any_of(living.begin(), living.end(), [&](int peer) { return fabric_->mailboxes_[peer].dead.load(); });
  });
}

absl::Status InMemoryTransport::Wait(Handle handle, Deadline deadline) {
  auto it = pending_.find(handle.id);
  if (it == pending_.end()) return absl::NotFoundError(absl::StrCat("no operation in flight has handle ", handle.id));
  const Pending& pending = it->second;  // stays put when other operations come and go
  const int peer = pending.operation.peer;
  absl::Status status;
  while (true) {
    status = OwnFailure();
    if (!status.ok()) break;
    const bool dead = fabric_->mailboxes_[peer].dead.load();
    Progress();
    if (pending.done) {
      status = pending.outcome;
      break;
    }
    if (dead && !HeldBackFrom(peer)) {
      status = absl::UnavailableError(absl::StrCat("rank ", peer, " died: ", pending.operation.ToString()));
      break;
    }
    if (deadline.Expired()) {
      status = WaitedTooLong(pending.operation);
      break;
    }
    Block(absl::MakeConstSpan(&peer, dead ? 0 : 1), deadline);
  }
  Forget(handle.id);
  return status;
}

bool InMemoryTransport::Test(Handle handle) {
  Progress();
  return Over(handle) || !OwnFailure().ok();
}

bool InMemoryTransport::Over(Handle handle) const {
  auto it = pending_.find(handle.id);
  if (it == pending_.end() || it->second.done) return true;
  const int peer = it->second.operation.peer;
  return fabric_->mailboxes_[peer].dead.load() && !HeldBackFrom(peer);
}

absl::Status InMemoryTransport::WaitAny(absl::Span<const Handle> handles, Deadline deadline) {
  while (true) {
    ADJOIN_RETURN_IF_ERROR(OwnFailure());
    std::vector<int> living;
    for (Handle handle : handles) {
      auto it = pending_.find(handle.id);
      if (it == pending_.end()) return absl::OkStatus();
      const int peer = it->second.operation.peer;
      if (!fabric_->mailboxes_[peer].dead.load()) living.push_back(peer);
    }
    Progress();
    if (std::any_of(handles.begin(), handles.end(), [&](Handle handle) { return Over(handle); })) {
      return absl::OkStatus();
    }
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("none of ", handles.size(), " operations was over in time"));
    }
    Block(living, deadline);
  }
}

absl::Status InMemoryTransport::Connect(const std::vector<std::string>& addresses, Deadline deadline) {
  if (connected_) return absl::FailedPreconditionError("in-memory transport: Connect was already called");
  if (addresses.size() != static_cast<size_t>(size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("in-memory transport: ", addresses.size(), " addresses for ", size(), " ranks"));
  }
  for (int r = 0; r < size(); ++r) {
    if (addresses[r] == fabric_->AddressOf(r)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("address ", r, " is not that of rank ", r, " of this fabric of ", size(), " ranks"));
  }
  connected_ = true;
  return Barrier(*this, Meeting::kConnect, deadline);
}

absl::Status InMemoryTransport::Flush(Deadline deadline) {
  while (true) {
    ADJOIN_RETURN_IF_ERROR(OwnFailure());
    Progress();
    if (departing_.empty()) return absl::OkStatus();
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("waited too long at rank ", rank_, " for: flush"));
    }
  }
}

absl::Status InMemoryTransport::Close(Deadline deadline) {
  if (closed_) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(Flush(deadline));
  ADJOIN_RETURN_IF_ERROR(Barrier(*this, Meeting::kClose, deadline));
  closed_ = true;
  return absl::OkStatus();
}

bool InMemoryTransport::Disturbed() const {
  return mailbox_.aborted.load() || std::any_of(fabric_->mailboxes_.begin(), fabric_->mailboxes_.end(),
                                                [](const auto& mailbox) { return mailbox.dead.load(); });
}

void InMemoryTransport::Abort(absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("aborted without a reason");
  {
    std::lock_guard<std::mutex> lock(mailbox_.mutex);
    if (mailbox_.aborted.load()) return;
    mailbox_.abort_reason = reason;
    mailbox_.aborted.store(true);
    mailbox_.changed.notify_all();
  }
  if (mailbox_.dead.load()) return;  // a dead rank tells no other
  const absl::Status told(reason.code(), absl::StrCat("rank ", rank_, ": ", reason.message()));
  for (InMemoryFabric::Mailbox& other : fabric_->mailboxes_) {
    std::lock_guard<std::mutex> lock(other.mutex);
    if (other.aborted.load()) continue;
    other.abort_reason = told;
    other.aborted_by_peer.store(true);
    other.aborted.store(true);
    other.changed.notify_all();
  }
}

}  // namespace adjoin
