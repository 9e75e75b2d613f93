#include "primitives/transport/ucx_transport.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr ucp_tag_t kExactTag = ~ucp_tag_t{0};

ucs_memory_type_t MemoryTypeOf(const Buffer& buffer) {
  return buffer.kind == MemoryKind::kCuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// A handle: which request, and a serial number that tells the users of its storage apart.
constexpr int kSlotBits = 24;
constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace

bool UcxTransport::Disturbed() const {
  return aborted_ || std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.failure.ok(); });
}

absl::Status UcxTransport::AbortReason() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return abort_reason_;
}

void UcxTransport::Abort(absl::Status reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (aborted_.load()) return;
    abort_reason_ = reason.ok() ? absl::CancelledError("aborted without a reason") : std::move(reason);
    aborted_.store(true);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(abort_fd_, &one, sizeof(one));  // a sleep is short even if this fails
}

absl::Status UcxTransport::CheckStart(const Operation& operation, const Buffer& buffer) {
  if (aborted_.load(std::memory_order_acquire)) {
    TellPeers();
    return AbortReason();
  }
  ADJOIN_RETURN_IF_ERROR(CheckOperation(operation, size(), buffer));
  if (peers_.empty() || closed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(operation.ToString(), ": the transport is ", closed_ ? "closed" : "not connected"));
  }
  if (!Moves(buffer.kind)) {
    return absl::InvalidArgumentError(absl::StrCat(operation.ToString(), ": ", ToString(buffer.kind),
                                                   " cannot be moved; stage it through the host's memory"));
  }
  return absl::OkStatus();
}

UcxTransport::Request& UcxTransport::NewRequest(const Operation& operation, const Buffer& buffer) {
  if (free_requests_.empty()) {
    free_requests_.push_back(static_cast<uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const uint32_t slot = free_requests_.back();
  free_requests_.pop_back();
  Request& request = requests_[slot];
  request.transport = this;
  // Never 0, also once it has gone around.
  if ((++last_serial_ << kSlotBits) == 0) ++last_serial_;
  request.id = (last_serial_ << kSlotBits) | slot;
  request.operation = operation;
  request.keepalive = buffer.keepalive;
  request.ucx = nullptr;
  request.done = false;
  request.status = UCS_OK;
  return request;
}

UcxTransport::Request* UcxTransport::Find(Handle handle) {
  const uint64_t slot = handle.id & kSlotMask;
  if (handle.id <= kSlotMask || slot >= requests_.size() || requests_[slot].id != handle.id) return nullptr;
  return &requests_[slot];
}

// Gives the handle up. The storage follows at once, or when UCX has let go of it.
void UcxTransport::Release(Request& request) {
  const uint32_t slot = static_cast<uint32_t>(request.id & kSlotMask);
  if (!request.done && !request.operation.send) ucp_request_cancel(worker_, request.ucx);
  if (request.done) {
    request.id = 0;
    request.keepalive.reset();
    free_requests_.push_back(slot);
  } else {
    request.id = slot;  // serial 0: no handle
  }
}

void UcxTransport::OnDone(Request& request, void* ucx, ucs_status_t status) {
  request.status = status;
  request.done = true;
  if (request.ucx == nullptr) return;  // done within the call that starts it, which still returns it: see Started
  request.ucx = nullptr;
  ucp_request_free(ucx);
  if (request.id <= kSlotMask) Release(request);
}

void UcxTransport::OnSent(void* ucx, ucs_status_t status, void* request) {
  Request& r = *static_cast<Request*>(request);
  r.transport->OnDone(r, ucx, status);
}

void UcxTransport::OnReceived(void* ucx, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request) {
  Request& r = *static_cast<Request*>(request);
  r.received = *info;
  r.transport->OnDone(r, ucx, status);
}

void UcxTransport::OnPeerFailure(void* peer, ucp_ep_h, ucs_status_t status) {
  const Peer& p = *static_cast<Peer*>(peer);
  p.transport->MarkFailed(p.rank, status);
}

void UcxTransport::MarkFailed(int peer, ucs_status_t status) {
  if (!peers_[peer].failure.ok()) return;
  peers_[peer].failure =
      absl::UnavailableError(absl::StrCat("rank ", peer, " died or cannot be reached: ", ucs_status_string(status)));
}

absl::StatusOr<Handle> UcxTransport::Started(Request& request, ucs_status_ptr_t ucx) {
  if (UCS_PTR_IS_ERR(ucx)) {
    request.done = true;
    request.status = UCS_PTR_STATUS(ucx);
    const absl::Status status = Outcome(request);
    Release(request);
    return status;
  }
  if (ucx == nullptr) {
    request.done = true;
  } else if (request.done) {
    ucp_request_free(ucx);
  } else {
    request.ucx = ucx;
  }
  return Handle{request.id};
}

absl::StatusOr<Handle> UcxTransport::PostSend(const Operation& operation, const Buffer& buffer) {
  Request& request = NewRequest(operation, buffer);
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &OnSent;
  param.user_data = &request;
  param.memory_type = MemoryTypeOf(buffer);
  return Started(request, ucp_tag_send_nbx(peers_[operation.peer].endpoint, buffer.data, buffer.bytes,
                                           operation.tag.bits(), &param));
}

absl::StatusOr<Handle> UcxTransport::PostRecv(const Operation& operation, const Buffer& buffer) {
  Request& request = NewRequest(operation, buffer);
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // UCX 1.13 tells the length to the callback only
  param.cb.recv = &OnReceived;
  param.user_data = &request;
  param.memory_type = MemoryTypeOf(buffer);
  return Started(request,
                 ucp_tag_recv_nbx(worker_, buffer.data, buffer.bytes, operation.tag.bits(), kExactTag, &param));
}

absl::StatusOr<Handle> UcxTransport::StartSend(int peer, Tag tag, const Buffer& buffer) {
  Operation operation{true, rank(), peer, tag, buffer.bytes};
  ADJOIN_RETURN_IF_ERROR(CheckStart(operation, buffer));
  ADJOIN_RETURN_IF_ERROR(peers_[peer].failure);
  if (peer != rank()) bytes_sent_.fetch_add(static_cast<int64_t>(buffer.bytes), std::memory_order_relaxed);
  return PostSend(operation, buffer);
}

absl::StatusOr<Handle> UcxTransport::StartRecv(int peer, Tag tag, const Buffer& buffer) {
  Operation operation{false, rank(), peer, tag, buffer.bytes};
  ADJOIN_RETURN_IF_ERROR(CheckStart(operation, buffer));
  ADJOIN_ASSIGN_OR_RETURN(Handle handle, PostRecv(operation, buffer));
  if (!peers_[peer].failure.ok()) {
    Request& request = *Find(handle);
    if (!DrainedDone(request)) {
      Release(request);
      return peers_[peer].failure;
    }
  }
  return handle;
}

// True where the request is done once everything that has already reached this process is taken in. The bound keeps a
// peer that sends without end from holding it up.
bool UcxTransport::DrainedDone(const Request& request) {
  for (int i = 0; i < 10000 && !request.done && ucp_worker_progress(worker_) > 0; ++i) {
  }
  return request.done;
}

absl::Status UcxTransport::Outcome(const Request& request) {
  const Operation& operation = request.operation;
  if (request.status == UCS_OK) {
    if (operation.send || request.received.length == operation.bytes) return absl::OkStatus();
    return LengthMismatch(operation, request.received.length);
  }
  if (request.status == UCS_ERR_MESSAGE_TRUNCATED) return LengthMismatch(operation, request.received.length);
  MarkFailed(operation.peer, request.status);
  return absl::UnavailableError(absl::StrCat(peers_[operation.peer].failure.message(), ": ", operation.ToString()));
}

absl::Status UcxTransport::Wait(Handle handle, Deadline deadline) {
  Request* request = Find(handle);
  if (request == nullptr) return absl::NotFoundError(absl::StrCat("no operation in flight has handle ", handle.id));
  const Peer& peer = peers_[request->operation.peer];
  Patience patience;
  absl::Status status;
  while (true) {
    if (aborted_.load(std::memory_order_acquire)) {
      TellPeers();
      status = AbortReason();
      break;
    }
    if (request->done || (!peer.failure.ok() && DrainedDone(*request))) {
      status = Outcome(*request);
      break;
    }
    if (!peer.failure.ok()) {
      status = absl::UnavailableError(absl::StrCat(peer.failure.message(), ": ", request->operation.ToString()));
      break;
    }
    if (ucp_worker_progress(worker_) > 0) {
      patience = Patience();
    } else if (patience.pauses >= options_.pauses && deadline.Expired()) {
      status = WaitedTooLong(request->operation);
      break;
    } else {
      Idle(patience, deadline);
    }
  }
  Release(*request);
  return status;
}

bool UcxTransport::Test(Handle handle) {
  if (aborted_.load(std::memory_order_acquire)) return true;
  if (Over(handle)) return true;
  ucp_worker_progress(worker_);
  return Over(handle);
}

bool UcxTransport::Over(Handle handle) {
  const Request* request = Find(handle);
  return request == nullptr || request->done || !peers_[request->operation.peer].failure.ok();
}

absl::Status UcxTransport::WaitAny(absl::Span<const Handle> handles, Deadline deadline) {
  Patience patience;
  while (true) {
    if (aborted_.load(std::memory_order_acquire)) {
      TellPeers();
      return AbortReason();
    }
    if (std::any_of(handles.begin(), handles.end(), [&](Handle handle) { return Over(handle); })) {
      return absl::OkStatus();
    }
    if (ucp_worker_progress(worker_) > 0) {
      patience = Patience();
    } else if (patience.pauses >= options_.pauses && deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("none of ", handles.size(), " operations was over in time"));
    } else {
      Idle(patience, deadline);
    }
  }
}

absl::Status UcxTransport::WaitAnyWord(absl::Span<const Handle> handles, absl::Span<const SharedWord> words,
                                       Deadline deadline) {
  const auto over = [&](const SharedWord& word) { return word.Changed() || !peers_[word.peer].failure.ok(); };
  Patience patience;
  for (int turn = 0;; ++turn) {
    if (aborted_.load(std::memory_order_acquire)) {
      TellPeers();
      return AbortReason();
    }
    if (std::any_of(words.begin(), words.end(), over)) return absl::OkStatus();
    if (std::any_of(handles.begin(), handles.end(), [&](Handle handle) { return Over(handle); })) {
      return absl::OkStatus();
    }
    // While it spins for words alone, UCX is left aside most of the time.
    const bool progress = !handles.empty() || patience.pauses >= options_.pauses || turn % 8 == 7;
    if (progress && ucp_worker_progress(worker_) > 0) {
      patience = Patience();
    } else if (patience.pauses >= options_.pauses && deadline.Expired()) {
      return absl::DeadlineExceededError(
          absl::StrCat("none of ", handles.size() + words.size(), " operations was over in time"));
    } else {
      Idle(patience, deadline, words);
    }
  }
}

absl::Status UcxTransport::Check(int peer) {
  ucp_worker_progress(worker_);
  if (aborted_.load(std::memory_order_acquire)) {
    TellPeers();
    return AbortReason();
  }
  return peers_[peer].failure;
}

int64_t UcxTransport::BytesSent() const {
  const int64_t by_ucx = bytes_sent_.load(std::memory_order_relaxed);
  return shared_ == nullptr ? by_ucx : by_ucx - shared_->AgreementBytes() + shared_->BytesSent();
}

// One step of waiting. Pauses answer fastest when the peer runs; yields let it run when cores are fewer than ranks;
// sleeps leave the cores to ranks that compute.
void UcxTransport::Idle(Patience& patience, Deadline deadline, absl::Span<const SharedWord> words) {
  if (patience.pauses < options_.pauses) {
    ++patience.pauses;
    Pause();
    return;
  }
  const auto now = Deadline::Clock::now();
  if (patience.pauses == options_.pauses) {
    ++patience.pauses;
    patience.sleep_from = now + absl::ToChronoNanoseconds(options_.yielding);
  }
  if (now < patience.sleep_from) {
    sched_yield();
  } else {
    Sleep(deadline, words);
  }
}

void UcxTransport::Sleep(Deadline deadline, absl::Span<const SharedWord> words) {
  if (ucp_worker_arm(worker_) != UCS_OK) return;  // something came meanwhile
  pollfd events[] = {{worker_fd_, POLLIN, 0}, {abort_fd_, POLLIN, 0}, {-1, POLLIN, 0}};
  const timespec longest = absl::ToTimespec(std::min(options_.longest_sleep, deadline.Remaining()));
  if (words.empty()) {
    ppoll(events, 2, &longest, nullptr);
    return;
  }
  SharedArena& arena = shared_->arena();
  events[2].fd = arena.bell();
  arena.AnnounceSleep();
  const auto changed = [](const SharedWord& word) { return word.Changed(); };
  if (std::none_of(words.begin(), words.end(), changed)) ppoll(events, 3, &longest, nullptr);
  arena.Awake();
}

}  // namespace adjoin
