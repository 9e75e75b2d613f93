// Messages over UCX: shared memory between processes of one node, TCP between nodes.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto transport, UcxTransport::Create({.rank = rank, .size = size}));
//   std::vector<std::string> addresses = ExchangeSomehow(transport->Address());     // one per rank, by rank
//   ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, Deadline::After(absl::Seconds(60))));
//   ... StartSend, StartRecv, Wait ...
//   ADJOIN_RETURN_IF_ERROR(transport->Close(Deadline::After(absl::Seconds(60))));   // or just destroy it
//
// Host memory, and CUDA memory where UCX was built with CUDA (Options::cuda); what was queued for a buffer's stream is
// the caller's to wait for (device_transport.h). Programs open it by name (transport_factory.h).
// The user's own UCX_* variables win over the settings made here.
//
// All host data is sent eagerly where there is no CUDA memory, so that a send is over once UCX has taken the data,
// whether or not the receive was posted; the caller bounds what is in flight. With CUDA, UCX chooses.
//
// A peer's death is noticed by keepalive (about the interval, shared memory) or by its sockets (at once, TCP). A
// stopped process and one that its parent has not reaped are never noticed: deadlines are for these.
//
// Threads: as Transport says. Create changes the process's environment while it runs (see scoped_environment.h).
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_UCX_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_UCX_TRANSPORT_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "primitives/transport/operation.h"
#include "primitives/transport/shared_peers.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/ucx_address.h"

namespace adjoin {

class UcxTransport final : public Transport {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    bool shared_memory = true;       // between ranks of one node; off: TCP also there
    bool shared_channels = true;     // with shared_memory: also shared_peers(); ADJOIN_SHARED_CHANNELS=off: not
    bool other_nodes = true;         // whether some rank may be on another node; off: no TCP
    bool cuda = false;               // moves CUDA memory, too; KnowsCuda() must be true
    std::string net_devices = "lo";  // the network interfaces that TCP may use, e.g. "eth0"; empty: all
    std::string port_range;          // the ports on which TCP listens, e.g. "41000-41999"; empty: any
    absl::Duration keepalive = absl::Milliseconds(100);
    // How Wait waits: this many pauses, then yields of the processor for so long, then sleeps of at most so long.
    int pauses = 32;
    absl::Duration yielding = absl::Microseconds(200);
    absl::Duration longest_sleep = absl::Milliseconds(1);
  };

  // True where this UCX has the transports for CUDA memory.
  static bool KnowsCuda();

  // Errors: kInvalidArgument (options), kFailedPrecondition (Options::cuda, and UCX cannot move CUDA memory here),
  // kInternal (UCX's own error, with its name).
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const Options& options);

  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  std::string Address() const override { return address_; }
  // kFailedPrecondition also where ranks of one node should share memory and do not.
  absl::Status Connect(const std::vector<std::string>& addresses, Deadline deadline) override;
  absl::Status Flush(Deadline deadline) override;
  absl::Status Close(Deadline deadline) override;
  bool Disturbed() const override;
  bool AbortedByPeer() const override { return aborted_by_peer_.load(); }
  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  bool Moves(MemoryKind kind) const override {
    return Transport::Moves(kind) || (options_.cuda && kind == MemoryKind::kCuda);
  }
  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override;
  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override;
  absl::Status Wait(Handle handle, Deadline deadline) override;
  bool Test(Handle handle) override;
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override;
  void Abort(absl::Status reason) override;
  int64_t BytesSent() const override;
  SharedPeers* shared_peers() override { return shared_.get(); }
  absl::Status WaitAnyWord(absl::Span<const Handle> handles, absl::Span<const SharedWord> words,
                           Deadline deadline) override;
  bool Reachable(int peer) const override {
    return !aborted_.load(std::memory_order_relaxed) && peers_[peer].failure.ok();
  }
  absl::Status Check(int peer) override;
  // UCX's name of the lane, e.g. "posix/memory" or "tcp/lo"; "not connected" before Connect.
  std::string Describe(int peer) const override;

 private:
  // One send or receive. UCX writes to it (and to its buffer) until `done`, whatever becomes of the handle.
  struct Request {
    UcxTransport* transport = nullptr;
    uint64_t id = 0;  // 0: no handle names it (free, or abandoned while UCX still holds it)
    Operation operation;
    std::shared_ptr<void> keepalive;
    void* ucx = nullptr;  // null before it is started and once done
    bool done = false;
    ucs_status_t status = UCS_OK;
    ucp_tag_recv_info_t received = {};
  };
  struct Peer {
    UcxTransport* transport = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    absl::Status failure;  // sticky
  };
  // The message of a rank that has aborted: why.
  struct Notice {
    int32_t code = 0;
    char message[508] = {};  // zero-terminated
  };
  // The receive of one peer's Notice, posted as long as the worker lives.
  struct NoticeReceive {
    UcxTransport* transport = nullptr;
    int peer = 0;
    Notice notice;
    void* ucx = nullptr;  // null before it is started and once done
    bool done = false;
  };
  // How far a wait has gone from spinning to sleeping.
  struct Patience {
    int pauses = 0;
    Deadline::Clock::time_point sleep_from;
  };

  explicit UcxTransport(const Options& options) : options_(options) {}
  absl::Status Open();
  absl::Status OpenEndpoint(Peer& peer, const std::string& worker_address);
  absl::Status CheckLane(const Peer& peer) const;
  // Makes the memory that other ranks map; says so once where it cannot.
  absl::Status OpenArena();
  // Maps the arenas of the ranks of this node, and finds out from each whether it has mapped this rank's.
  absl::Status MapArenas(const std::vector<UcxAddress>& addresses, Deadline deadline);
  absl::Status CheckCuda() const;
  absl::Status WaitForUcx(ucs_status_ptr_t request, const char* what, Deadline deadline);

  absl::Status CheckStart(const Operation& operation, const Buffer& buffer);
  Request& NewRequest(const Operation& operation, const Buffer& buffer);
  absl::StatusOr<Handle> Started(Request& request, ucs_status_ptr_t ucx);
  absl::StatusOr<Handle> PostSend(const Operation& operation, const Buffer& buffer);
  absl::StatusOr<Handle> PostRecv(const Operation& operation, const Buffer& buffer);
  Request* Find(Handle handle);
  absl::Status Outcome(const Request& request);
  void Release(Request& request);
  bool DrainedDone(const Request& request);
  bool Over(Handle handle);

  absl::Status AbortReason() const;
  void Idle(Patience& patience, Deadline deadline, absl::Span<const SharedWord> words = {});
  void Sleep(Deadline deadline, absl::Span<const SharedWord> words);
  void MarkFailed(int peer, ucs_status_t status);
  void ListenForNotices();
  // Tells the others once that this rank has aborted, unless it was another that told it.
  void TellPeers();

  static void OnSent(void* ucx, ucs_status_t status, void* request);
  static void OnReceived(void* ucx, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request);
  static void OnNotice(void* ucx, ucs_status_t status, const ucp_tag_recv_info_t* info, void* receive);
  static void OnPeerFailure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  void OnDone(Request& request, void* ucx, ucs_status_t status);

  const Options options_;
  std::string address_;
  std::string node_;
  bool user_chose_lanes_ = false;
  bool closed_ = false;
  std::deque<Request> requests_;  // stable addresses; outlive the worker
  std::vector<uint32_t> free_requests_;
  uint64_t last_serial_ = 0;
  std::vector<Peer> peers_;
  std::unique_ptr<SharedPeers> shared_;
  std::vector<NoticeReceive> notices_;  // by rank
  Notice own_notice_;                   // while it is sent
  bool told_ = false;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int worker_fd_ = -1;  // readable when the worker has something to do (owned by the worker)
  int abort_fd_ = -1;   // an eventfd, readable from the first Abort on
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> aborted_by_peer_{false};
  mutable std::mutex mutex_;
  absl::Status abort_reason_;  // guarded by mutex_
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_UCX_TRANSPORT_H_
