#include "worker/rank_link_server.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/watchdog.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"

namespace adjoin {
namespace {

constexpr absl::Duration kHelloTimeout = absl::Seconds(30);

using Stream = grpc::ServerReaderWriter<DaemonMessage, RankMessage>;

// gRPC allows one writer at a time, and none once the RPC's handler has returned.
class StreamPeer final : public RankPeer {
 public:
  explicit StreamPeer(Stream* stream) : stream_(stream) {}

  void Send(const DaemonMessage& message) override {
    absl::MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_);
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
    if (!message.has_hello()) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the first message is not a hello");
    auto peer = std::make_shared<StreamPeer>(stream);
    RankKey key{message.hello().job_id(), message.header().epoch(), message.hello().rank()};
    absl::StatusOr<DaemonMessage> orders = attempts_.RankConnected(key.epoch, message.hello(), peer);
    if (!orders.ok()) return ToGrpc(orders.status());
    peer->Send(*orders);
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

  absl::Status Start(const std::string& path) {
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
    return absl::OkStatus();
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankLinkServer>> RankLinkServer::Start(const std::string& path, Attempts& attempts) {
  auto server = std::make_unique<Server>(attempts);
  absl::Status status = server->Start(path);
  if (!status.ok()) return status;
  return server;
}

}  // namespace adjoin
