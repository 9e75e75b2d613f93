#include "examples/transport/queue_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/transport/barrier.h"
#include "primitives/transport/operation.h"

namespace adjoin {
namespace {

// One rank's end of all its connections.
struct Queue {
  int rank = 0;
  int size = 0;
  std::map<uint64_t, std::deque<std::vector<char>>> messages;  // that have come and were not received, by tag
  absl::Status abort;                                          // OK: not aborted
  bool aborted_by_peer = false;
  bool gone = false;  // its transport was destroyed without Close
};

// What the ranks of this process share.
struct Exchange {
  std::mutex mutex;  // guards all that follows, and every Queue
  std::condition_variable changed;
  std::map<std::string, std::weak_ptr<Queue>> queues;  // by address
  int64_t opened = 0;
};

Exchange& TheExchange() {
  static Exchange* exchange = new Exchange;
  return *exchange;
}

class QueueTransport final : public Transport {
 public:
  QueueTransport(int rank, int size) : rank_(rank), size_(size), own_(std::make_shared<Queue>()) {
    own_->rank = rank;
    own_->size = size;
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    address_ = absl::StrCat("queue ", ++exchange_.opened);
    exchange_.queues[address_] = own_;
  }

  ~QueueTransport() override {
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    exchange_.queues.erase(address_);
    own_->gone = !closed_;
    exchange_.changed.notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string Address() const override { return address_; }

  absl::Status Connect(const std::vector<std::string>& addresses, Deadline deadline) override {
    if (!peers_.empty()) return absl::FailedPreconditionError("queue transport: Connect was already called");
    if (addresses.size() != static_cast<size_t>(size_)) {
      return absl::InvalidArgumentError(absl::StrCat(addresses.size(), " addresses for ", size_, " ranks"));
    }
    std::vector<std::shared_ptr<Queue>> peers;
    {
      std::lock_guard<std::mutex> lock(exchange_.mutex);
      for (int r = 0; r < size_; ++r) {
        const auto it = exchange_.queues.find(addresses[r]);
        std::shared_ptr<Queue> queue = it == exchange_.queues.end() ? nullptr : it->second.lock();
        if (queue == nullptr || queue->rank != r || queue->size != size_) {
          return absl::InvalidArgumentError(
              absl::StrCat("address ", r, " is not that of rank ", r, " of ", size_, " ranks of this process"));
        }
        peers.push_back(std::move(queue));
      }
      peers_ = std::move(peers);
    }
    return Barrier(*this, Meeting::kConnect, deadline);
  }

  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    const Operation send = {.send = true, .rank = rank_, .peer = peer, .tag = tag, .bytes = buffer.bytes};
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    ADJOIN_RETURN_IF_ERROR(CheckStart(send, buffer));
    if (peers_[peer]->gone) return Died(send);
    const char* bytes = static_cast<const char*>(buffer.data);
    peers_[peer]->messages[tag.bits()].emplace_back(bytes, bytes + buffer.bytes);
    exchange_.changed.notify_all();
    if (peer != rank_) bytes_sent_ += static_cast<int64_t>(buffer.bytes);
    return Add({.operation = send, .buffer = Buffer(), .done = true, .outcome = absl::OkStatus()});
  }

  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override {
    const Operation receive = {.send = false, .rank = rank_, .peer = peer, .tag = tag, .bytes = buffer.bytes};
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    ADJOIN_RETURN_IF_ERROR(CheckStart(receive, buffer));
    const Handle handle = Add({.operation = receive, .buffer = buffer, .done = false, .outcome = absl::OkStatus()});
    Progress();
    const auto it = pending_.find(handle.id);
    if (it->second.done || !peers_[peer]->gone) return handle;
    pending_.erase(it);
    return Died(receive);
  }

  absl::Status Wait(Handle handle, Deadline deadline) override {
    std::unique_lock<std::mutex> lock(exchange_.mutex);
    const auto it = pending_.find(handle.id);
    if (it == pending_.end()) return absl::NotFoundError(absl::StrCat("no operation in flight has handle ", handle.id));
    const Pending& pending = it->second;
    absl::Status status;
    while (true) {
      Progress();
      status = own_->abort;
      if (!status.ok()) break;
      if (pending.done)
        status = pending.outcome;
      else if (peers_[pending.operation.peer]->gone)
        status = Died(pending.operation);
      else if (deadline.Expired())
        status = WaitedTooLong(pending.operation);
      if (pending.done || !status.ok()) break;
      exchange_.changed.wait_until(lock, deadline.when());
    }
    pending_.erase(it);
    return status;
  }

  bool Test(Handle handle) override {
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    Progress();
    return !own_->abort.ok() || Over(handle);
  }

  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override {
    std::unique_lock<std::mutex> lock(exchange_.mutex);
    while (true) {
      if (!own_->abort.ok()) return own_->abort;
      Progress();
      if (std::any_of(handles.begin(), handles.end(), [this](Handle handle) { return Over(handle); })) {
        return absl::OkStatus();
      }
      if (deadline.Expired()) {
        return absl::DeadlineExceededError(absl::StrCat("none of ", handles.size(), " operations was over in time"));
      }
      exchange_.changed.wait_until(lock, deadline.when());
    }
  }

  absl::Status Flush(Deadline deadline) override {  // a send leaves at once
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    return own_->abort;
  }

  absl::Status Close(Deadline deadline) override {
    if (closed_) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(Flush(deadline));
    if (!peers_.empty()) ADJOIN_RETURN_IF_ERROR(Barrier(*this, Meeting::kClose, deadline));
    closed_ = true;
    return absl::OkStatus();
  }

  void Abort(absl::Status reason) override {
    if (reason.ok()) reason = absl::CancelledError("aborted without a reason");
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    if (!own_->abort.ok()) return;
    own_->abort = reason;
    for (const std::shared_ptr<Queue>& peer : peers_) {
      if (!peer->abort.ok()) continue;
      peer->abort = absl::Status(reason.code(), absl::StrCat("rank ", rank_, ": ", reason.message()));
      peer->aborted_by_peer = true;
    }
    exchange_.changed.notify_all();
  }

  bool Disturbed() const override {
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    return !own_->abort.ok() || std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->gone; });
  }

  bool AbortedByPeer() const override {
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    return own_->aborted_by_peer;
  }

  int64_t BytesSent() const override {
    std::lock_guard<std::mutex> lock(exchange_.mutex);
    return bytes_sent_;
  }

  std::string Describe(int peer) const override { return "queue"; }

 private:
  struct Pending {
    Operation operation;
    Buffer buffer;  // of a receive, with its keepalive
    bool done = false;
    absl::Status outcome;
  };

  // The private functions are called with the mutex held.

  absl::Status CheckStart(const Operation& operation, const Buffer& buffer) const {
    if (!own_->abort.ok()) return own_->abort;
    ADJOIN_RETURN_IF_ERROR(CheckOperation(operation, size_, buffer));
    if (peers_.empty() || closed_) {
      return absl::FailedPreconditionError(
          absl::StrCat(operation.ToString(), ": the transport is ", closed_ ? "closed" : "not connected"));
    }
    if (buffer.kind == MemoryKind::kHost || buffer.kind == MemoryKind::kPinnedHost) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(operation.ToString(), ": only host memory can be moved"));
  }

  static absl::Status Died(const Operation& operation) {
    return absl::UnavailableError(absl::StrCat("rank ", operation.peer, " died: ", operation.ToString()));
  }

  Handle Add(Pending pending) {
    pending_.emplace(++last_id_, std::move(pending));
    return Handle{last_id_};
  }

  // Gives every message that has come to the first receive of its tag. The tag names the sender as well.
  void Progress() {
    for (auto& [id, pending] : pending_) {
      if (pending.done) continue;
      const auto it = own_->messages.find(pending.operation.tag.bits());
      if (it == own_->messages.end()) continue;
      const std::vector<char> message = std::move(it->second.front());
      it->second.pop_front();
      if (it->second.empty()) own_->messages.erase(it);
      if (message.size() != pending.buffer.bytes) {
        pending.outcome = LengthMismatch(pending.operation, message.size());
      } else if (!message.empty()) {
        std::memcpy(pending.buffer.data, message.data(), message.size());
      }
      pending.done = true;
    }
  }

  bool Over(Handle handle) const {
    const auto it = pending_.find(handle.id);
    return it == pending_.end() || it->second.done || peers_[it->second.operation.peer]->gone;
  }

  const int rank_;
  const int size_;
  const std::shared_ptr<Queue> own_;
  Exchange& exchange_ = TheExchange();
  std::string address_;
  std::vector<std::shared_ptr<Queue>> peers_;  // by rank; empty before Connect
  std::map<uint64_t, Pending> pending_;        // by handle: in the order of their starts
  uint64_t last_id_ = 0;
  int64_t bytes_sent_ = 0;
  bool closed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> OpenQueueTransport(const TransportOptions& options) {
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue transport: rank ", options.rank, " is not in [0, ", options.size, ")"));
  }
  return std::make_unique<QueueTransport>(options.rank, options.size);
}

}  // namespace adjoin
