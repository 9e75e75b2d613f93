#include "worker/daemon/rank_link_server.h"

#include <errno.h>
#include <grpcpp/grpcpp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/watchdog.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"

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

class Service final : public RankLink::Service {
 public:
  explicit Service(Attempts& attempts) : attempts_(attempts) {}

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
    auto peer = std::make_shared<StreamPeer>(stream);
    RankKey key{message.hello().job_id(), message.header().epoch(), message.hello().rank()};
    absl::Status wanted = attempts_.RankConnected(key.epoch, message.hello(), peer);
    if (!wanted.ok()) return ToGrpc(wanted);
    while (stream->Read(&message)) {
      if (message.header().epoch() == key.epoch) attempts_.RankSaid(key, message);
    }
    peer->Close();
    attempts_.RankDisconnected(key);
    return grpc::Status::OK;
  }

 private:
  Attempts& attempts_;
};

class Server final : public RankLinkServer {
 public:
  explicit Server(Attempts& attempts) : service_(attempts) {}
  ~Server() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    unlink(path_.c_str());
  }

  absl::Status Start(const std::string& path, const std::optional<User>& user) {
    path_ = path;
    unlink(path.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(64 << 20);
    mode_t old_mask = umask(0077);
    server_ = builder.BuildAndStart();
    umask(old_mask);
    if (server_ == nullptr) return absl::UnavailableError(absl::StrCat("cannot listen on the Unix socket ", path));
    if (user.has_value() && chown(path.c_str(), user->uid, user->gid) != 0) {
      return absl::UnavailableError(absl::StrCat(path, " cannot be given to user ", user->name, ": ", strerror(errno)));
    }
    return absl::OkStatus();
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankLinkServer>> RankLinkServer::Start(const std::string& path, Attempts& attempts,
                                                                      const std::optional<User>& user) {
  auto server = std::make_unique<Server>(attempts);
  absl::Status status = server->Start(path, user);
  if (!status.ok()) return status;
  return server;
}

}  // namespace adjoin
