#include "worker/daemon/rank_link_server.h"

#include <errno.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/watchdog.h"
#include "proto/fit_message.h"
#include "proto/grpc_status.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"
#include "worker/daemon/proc_stat.h"

namespace adjoin {
namespace {

constexpr absl::Duration kHelloTimeout = absl::Seconds(30);

using Stream = grpc::ServerReaderWriter<DaemonMessage, RankMessage>;

// Writes on a thread of its own, so that a rank that does not read holds up no other. gRPC allows one writer at a time,
// and none once the RPC's handler has returned.
class StreamPeer final : public RankPeer {
 public:
  explicit StreamPeer(Stream* stream) : stream_(stream), writer_([this] { WriteMessages(); }) {}
  ~StreamPeer() override { Close(); }

  void Send(const DaemonMessage& message) override {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;
      // Only the last lease counts.
      if (message.has_lease() && !outbox_.empty() && outbox_.back().has_lease()) outbox_.pop_back();
      outbox_.push_back(message);
    }
    changed_.NotifyAll();
  }

  // Waits for a write under way, which ends with the stream.
  void Close() {
    {
      absl::MutexLock lock(&mutex_);
      closed_ = true;
    }
    changed_.NotifyAll();
    if (writer_.joinable()) writer_.join();
  }

 private:
  void WriteMessages() {
    while (true) {
      DaemonMessage message;
      {
        absl::MutexLock lock(&mutex_);
        auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !outbox_.empty(); };
        if (!changed_.Wait(mutex_, Deadline::After(absl::Hours(1)), ready)) continue;
        if (closed_) return;
        message = std::move(outbox_.front());
        outbox_.pop_front();
      }
      if (!stream_->Write(message)) return;
    }
  }

  Stream* const stream_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::deque<DaemonMessage> outbox_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread writer_;  // last: it uses the rest
};

// Which process is at the other end of each connection that was let in.
class Connections {
 public:
  void Put(int fd, pid_t process) {
    absl::MutexLock lock(&mutex_);
    processes_[fd] = process;
  }
  // `peer`: as gRPC names a connection that was made from a descriptor, "fd:17". 0: not known.
  pid_t ProcessOf(absl::string_view peer) {
    int fd = -1;
    if (!absl::ConsumePrefix(&peer, "fd:") || !absl::SimpleAtoi(peer, &fd)) return 0;
    absl::MutexLock lock(&mutex_);
    auto found = processes_.find(fd);
    return found == processes_.end() ? 0 : found->second;
  }

 private:
  absl::Mutex mutex_;
  // By descriptor. One that is closed stays until its number is used again: as many as were ever open at once.
  std::map<int, pid_t> processes_ ABSL_GUARDED_BY(mutex_);
};

class Service final : public RankLink::Service {
 public:
  Service(NodeAttempts& attempts, Connections& connections) : attempts_(attempts), connections_(connections) {}

  grpc::Status Connect(grpc::ServerContext* context, Stream* stream) override {
    RankMessage message;
    {
      Watchdog late(kHelloTimeout, [context] { context->TryCancel(); });
      if (!stream->Read(&message)) return grpc::Status(grpc::StatusCode::CANCELLED, "no hello came");
    }
    absl::Status protocol = CheckProtocol(message.header(), "the rank process", "its daemon");
    if (!protocol.ok()) return ToGrpc(protocol);
    if (!message.has_hello())
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the first message is not a hello");
    const pid_t process = connections_.ProcessOf(context->peer());
    absl::Status own = attempts_.CheckProcess(message.header().epoch(), message.hello(), process);
    if (!own.ok()) {
      LogWarning(absl::StrCat("refused a rank's hello: ", std::string(own.message())));
      return ToGrpc(own);
    }
    message.mutable_hello()->set_pid(process);
    auto peer = std::make_shared<StreamPeer>(stream);
    RankKey key{message.hello().job_id(), message.header().epoch(), message.hello().rank()};
    absl::Status wanted = attempts_.RankConnected(key.epoch, message.hello(), peer);
    if (!wanted.ok()) return ToGrpc(wanted);
    while (stream->Read(&message)) {
      if (message.header().epoch() != key.epoch) continue;
      // A rank may run its user's own code. An address that is too long is refused with a reason of its own.
      if (message.kind_case() != RankMessage::kTransportAddress) Fit(&message);
      attempts_.RankSaid(key, message);
    }
    peer->Close();
    attempts_.RankDisconnected(key);
    return grpc::Status::OK;
  }

 private:
  NodeAttempts& attempts_;
  Connections& connections_;
};

class Server final : public RankLinkServer {
 public:
  explicit Server(NodeAttempts& attempts) : attempts_(attempts), service_(attempts, connections_) {}
  ~Server() override {
    if (acceptor_.joinable()) {
      eventfd_write(stop_.get(), 1);
      acceptor_.join();
    }
    for (const Waiting& each : waiting_) close(each.fd);
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    unlink(path_.c_str());
  }

  absl::Status Start(const std::string& path, const std::optional<User>& user) {
    path_ = path;
    uid_ = user.has_value() ? user->uid : geteuid();
    unlink(path.c_str());
    ADJOIN_RETURN_IF_ERROR(Listen());
    if (user.has_value() && chown(path.c_str(), user->uid, user->gid) != 0) {
      return absl::UnavailableError(absl::StrCat(path, " cannot be given to user ", user->name, ": ", strerror(errno)));
    }
    grpc::ServerBuilder builder;  // without an address: the acceptor brings it its connections
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::UnavailableError(absl::StrCat("no server for the ranks at ", path));
    acceptor_ = std::thread([this] { Accept(); });
    return absl::OkStatus();
  }

 private:
  // A connection whose process is a child of this one, and may be a rank of which the supervisor has not told yet.
  struct Waiting {
    int fd;
    pid_t process;
    Deadline until;
  };

  absl::Status Listen() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof(address.sun_path)) {
      return absl::UnavailableError(absl::StrCat("the path of the socket ", path_, " is too long"));
    }
    memcpy(address.sun_path, path_.data(), path_.size());
    stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const mode_t old_mask = umask(0077);
    const bool bound = listener_.get() >= 0 && stop_.get() >= 0 &&
                       bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                       listen(listener_.get(), kBacklog) == 0;
    const int cause = errno;
    umask(old_mask);
    if (bound) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cannot listen on the Unix socket ", path_, ": ", strerror(cause)));
  }

  void Accept() {
    while (true) {
      // Without a descriptor for it, a connection stays in the queue and would wake this thread at once again.
      pollfd fds[] = {{stop_.get(), POLLIN, 0}, {pause_ ? -1 : listener_.get(), POLLIN, 0}};
      poll(fds, 2, waiting_.empty() && !pause_ ? -1 : kRetryMs);
      pause_ = false;
      if (fds[0].revents != 0) return;
      waiting_.remove_if([this](const Waiting& each) { return Judge(each); });
      if (fds[1].revents != 0) AcceptOne();
    }
  }

  void AcceptOne() {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      pause_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      return;
    }
    ucred peer = {};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) {
      return Refuse(fd, "a process of another PID namespace");
    }
    if (peer.uid != uid_) return Refuse(fd, absl::StrCat("process ", peer.pid, " of user ", peer.uid));
    const Waiting connection{fd, peer.pid, Deadline::After(kStartGrace)};
    if (Judge(connection)) return;
    if (waiting_.size() >= kMostWaiting) return Refuse(fd, absl::StrCat("process ", peer.pid));
    waiting_.push_back(connection);
  }

  // Lets the connection in or closes it. Returns false where its process may turn out to be a rank.
  bool Judge(const Waiting& connection) {
    const auto& [fd, process, until] = connection;
    if (!attempts_.IsRank(process)) {
      const std::optional<ProcStat> stat = ReadProcStat(process);
      const bool child = stat.has_value() && stat->parent == getpid() && !stat->Dead();
      if (child && !until.Expired()) return false;
      Refuse(fd, absl::StrCat("process ", process));
      return true;
    }
    if (counts_.size() > kMostCounts) ForgetCounts();
    if (++counts_[process] > kMostConnections) {
      Refuse(fd, absl::StrCat("process ", process, " once more than the ", kMostConnections, " times that a rank may"));
      return true;
    }
    connections_.Put(fd, process);
    grpc::AddInsecureChannelFromFd(server_.get(), fd);  // which closes it
    return true;
  }

  void ForgetCounts() {
    for (auto it = counts_.begin(); it != counts_.end();) {
      it = attempts_.IsRank(it->first) ? std::next(it) : counts_.erase(it);
    }
  }

  // Logs at most once a second: who is refused can connect as often as they like.
  void Refuse(int fd, const std::string& who) {
    close(fd);
    if (!next_log_.Expired()) return;
    next_log_ = Deadline::After(absl::Seconds(1));
    LogWarning(absl::StrCat("refused a connection to the ranks' socket ", path_, " by ", who,
                            ": only processes that were started here as ranks may"));
  }

  static constexpr int kBacklog = 1024;
  static constexpr int kRetryMs = 20;
  static constexpr absl::Duration kStartGrace = absl::Seconds(5);
  static constexpr size_t kMostWaiting = 256;
  static constexpr int kMostConnections = 8;  // of one rank, which needs one
  static constexpr size_t kMostCounts = 4096;

  NodeAttempts& attempts_;
  Connections connections_;
  Service service_;
  std::string path_;
  uid_t uid_ = 0;
  UniqueFd stop_, listener_;
  std::unique_ptr<grpc::Server> server_;
  // The acceptor's own.
  bool pause_ = false;
  std::list<Waiting> waiting_;
  std::map<pid_t, int> counts_;  // connections that were let in, by process
  Deadline next_log_ = Deadline::After(absl::ZeroDuration());
  std::thread acceptor_;  // last: it uses the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankLinkServer>> RankLinkServer::Start(const std::string& path, NodeAttempts& attempts,
                                                                      const std::optional<User>& user) {
  auto server = std::make_unique<Server>(attempts);
  absl::Status status = server->Start(path, user);
  if (!status.ok()) return status;
  return server;
}

}  // namespace adjoin
