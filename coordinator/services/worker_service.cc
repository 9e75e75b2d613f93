#include "coordinator/services/worker_service.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/watchdog.h"
#include "coordinator/decisions/hello_check.h"
#include "proto/fit_message.h"
#include "proto/grpc_status.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr absl::Duration kClientReads = absl::Seconds(60);
constexpr absl::Duration kStrangerReads = absl::Seconds(10);
// A daemon that reads nothing while so many messages wait for it is cut off. It connects again, and its hello has all
// that it runs.
constexpr size_t kMaxWaiting = 10000;

absl::Status CheckHeader(const Header& header) { return CheckProtocol(header, "the worker", "this coordinator"); }

// Breaks a call off that takes longer than it may. It may go off when the call is gone.
class CallLimit {
 public:
  CallLimit(grpc::CallbackServerContext* context, absl::Duration limit) : alive_(std::make_shared<Alive>()) {
    alive_->context = context;
    late_.Set(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit), [alive = alive_](bool expired) {
      absl::MutexLock lock(&alive->mutex);
      if (expired && alive->context != nullptr) alive->context->TryCancel();
    });
  }
  void Lift() { late_.Cancel(); }
  // Before the context goes.
  void End() {
    late_.Cancel();
    absl::MutexLock lock(&alive_->mutex);
    alive_->context = nullptr;
  }

 private:
  struct Alive {
    absl::Mutex mutex;
    grpc::CallbackServerContext* context ABSL_GUARDED_BY(mutex) = nullptr;
  };
  const std::shared_ptr<Alive> alive_;
  grpc::Alarm late_;
};

// The authorities, for one who has shown nothing. It holds no thread, and counts until it is sent: who reads nothing is
// cut off. It deletes itself when gRPC needs it no more.
class AuthoritiesAnswer final : public grpc::ServerUnaryReactor {
 public:
  AuthoritiesAnswer(grpc::CallbackServerContext* context, absl::StatusOr<Admitted> call,
                    const std::function<absl::Status()>& answer)
      : call_(std::move(call)), limit_(context, kStrangerReads) {
    Finish(ToGrpc(call_.ok() ? answer() : call_.status()));
  }
  void OnDone() override {
    limit_.End();
    delete this;
  }

 private:
  ~AuthoritiesAnswer() override = default;
  const absl::StatusOr<Admitted> call_;
  CallLimit limit_;
};

// One daemon's stream. It deletes itself when gRPC needs it no more.
class DaemonStream final : public grpc::ServerBidiReactor<WorkerMessage, CoordinatorMessage>, public DaemonConnection {
 public:
  DaemonStream(grpc::CallbackServerContext* context, Hub& hub, LogWriter& logs, FolderRemovals& removals,
               absl::StatusOr<Admitted> call, absl::Duration first_message)
      : context_(context),
        hub_(hub),
        logs_(logs),
        removals_(removals),
        limit_(context, first_message),
        call_(std::move(call)) {
    if (!call_.ok()) {
      Finish(ToGrpc(call_.status()));
      return;
    }
    call_->WhenOver([this](const absl::Status& reason, bool last) { EndWith(reason, last); });
    StartRead(&in_);
  }

  void Send(CoordinatorMessage message) override {
    Fit(&message);
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    if (out_.size() >= kMaxWaiting) {
      context_->TryCancel();
      return;
    }
    out_.push_back(std::move(message));
    if (out_.size() == 1) StartWrite(&out_.front());
  }
  void Break() override { context_->TryCancel(); }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    out_.pop_front();
    if (ok && !finished_ && !out_.empty()) StartWrite(&out_.front());
  }

  void OnReadDone(bool ok) override {
    const absl::Status status = !ok        ? absl::CancelledError(id_ == 0 ? "no hello came" : "")
                                : id_ == 0 ? Greet()
                                           : Take();
    if (ok && status.ok()) {
      absl::MutexLock lock(&mutex_);
      if (!finished_) {
        in_.Clear();
        StartRead(&in_);
        return;
      }
    }
    if (id_ != 0) {
      hub_.Do([&](CoordinationService& service) { service.WorkerDisconnected(id_, "its connection ended"); });
      hub_.Detach(id_);
    }
    const bool orderly = !ok && id_ != 0;
    absl::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(orderly ? grpc::Status::OK : ToGrpc(status));
  }

  void OnDone() override {
    limit_.End();
    delete this;
  }

 private:
  ~DaemonStream() override = default;

  // The daemon's certificate counts no more. It connects again, with the one that it has now. Its reads end with the
  // stream.
  void EndWith(const absl::Status& reason, bool last) {
    if (last) context_->TryCancel();
    absl::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(ToGrpc(reason));
  }

  // Handles the first message. Errors: the reason why the daemon is refused.
  absl::Status Greet() {
    limit_.Lift();
    if (absl::Status status = CheckHeader(in_.header()); !status.ok()) return status;
    if (!in_.has_hello()) return absl::InvalidArgumentError("the first message of a worker has to be its hello");
    // What is refused for its length is refused before it is cut.
    absl::Status accepted = CheckHello(in_.hello());
    if (accepted.ok()) accepted = CheckWorkerName(call_->caller(), in_.hello().name());
    if (accepted.ok()) {
      FitParts(&in_);
      id_ = hub_.Attach(this);
      accepted = hub_.Do([&](CoordinationService& service) { return service.WorkerConnected(id_, in_.hello()); });
    }
    if (!accepted.ok()) {
      LogWarning(absl::StrCat("refused worker ", PrintableText(in_.hello().name(), kMaxNameBytes), ": ",
                              std::string(accepted.message())));
    }
    return accepted;
  }

  absl::Status Take() {
    if (absl::Status status = CheckHeader(in_.header()); !status.ok()) return status;
    FitParts(&in_);  // the daemon may be of another release
    if (in_.has_log()) {
      KeepLog();
    } else if (in_.has_folders_removed()) {
      removals_.Answer(in_.folders_removed());
    } else {
      hub_.Do([&](CoordinationService& service) { service.WorkerSaid(id_, in_); });
    }
    return absl::OkStatus();
  }

  void KeepLog() {
    const LogBatch& batch = in_.log();
    const bool owns = hub_.Look(
        [&](CoordinationService& service) { return service.Owns(id_, batch.job_id(), in_.header().epoch()); });
    if (!owns) return;
    std::vector<LogLine> lines(batch.line().begin(), batch.line().end());
    for (LogLine& line : lines) line.set_epoch(in_.header().epoch());
    logs_.Add(batch.job_id(), std::move(lines));
  }

  grpc::CallbackServerContext* const context_;
  Hub& hub_;
  LogWriter& logs_;
  FolderRemovals& removals_;
  CallLimit limit_;      // no hello came
  ConnectionId id_ = 0;  // set after its hello; used by its reads alone
  WorkerMessage in_;
  absl::Mutex mutex_;
  std::deque<CoordinatorMessage> out_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<Admitted> call_;  // last: EndWith uses the rest
};

}  // namespace

grpc::ServerBidiReactor<WorkerMessage, CoordinatorMessage>* WorkerService::Connect(
    grpc::CallbackServerContext* context) {
  return new DaemonStream(context, hub_, logs_, removals_, access_.Admit(*context, "Connect"), first_message_);
}

grpc::Status WorkerService::UploadArtifact(grpc::ServerContext* context, grpc::ServerReader<ArtifactChunk>* reader,
                                           UploadArtifactResponse* response) {
  absl::StatusOr<Admitted> call = access_.Admit(*context, "UploadArtifact");
  if (!call.ok()) return ToGrpc(call.status());
  *response->mutable_header() = MakeHeader();
  auto over = std::make_shared<std::atomic<bool>>(false);
  call->WhenOver([over, context](const absl::Status&, bool last) {
    *over = true;
    if (last) context->TryCancel();  // the daemon sends nothing
  });
  ArtifactChunk chunk;
  {
    Watchdog late(first_message_, [context] { context->TryCancel(); });
    if (!reader->Read(&chunk)) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "an upload without a chunk");
  }
  if (absl::Status status = CheckHeader(chunk.header()); !status.ok()) return ToGrpc(status);
  std::shared_ptr<ArtifactPipe> pipe = relay_.Take(chunk.request_id());
  if (pipe == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no client waits for this upload");
  // Counts where the stream breaks before the end.
  absl::Cleanup broken = [&] { pipe->Finish(absl::UnavailableError("the upload broke off")); };
  int64_t left = chunk.total_bytes();
  do {
    if (*over) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the daemon's certificate counts no more");
    if (!chunk.error().empty()) {
      pipe->Finish(absl::NotFoundError(PrintableText(chunk.error(), kMaxErrorBytes)));
      return grpc::Status::OK;
    }
    const auto size = static_cast<int64_t>(chunk.data().size());
    if (absl::Status status = pipe->Push(std::move(chunk), Deadline::After(kClientReads)); !status.ok()) {
      return ToGrpc(status);
    }
    left -= size;
    chunk.Clear();
  } while (reader->Read(&chunk));
  if (left == 0) pipe->Finish(absl::OkStatus());
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* WorkerService::ReadAuthorities(grpc::CallbackServerContext* context,
                                                         const ReadAuthoritiesRequest* request,
                                                         ReadAuthoritiesResponse* response) {
  return new AuthoritiesAnswer(context, access_.AdmitAnyone(*context, "ReadAuthorities"), [&]() -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(CheckHeader(request->header()));
    ADJOIN_ASSIGN_OR_RETURN(std::string authorities, nodes_.ReadAuthorities());
    *response->mutable_header() = MakeHeader();
    response->set_authorities(std::move(authorities));
    return absl::OkStatus();
  });
}

grpc::Status WorkerService::JoinNode(grpc::ServerContext* context, const JoinNodeRequest* request,
                                     JoinNodeResponse* response) {
  absl::StatusOr<Admitted> call = access_.AdmitAnyone(*context, "JoinNode");
  if (!call.ok()) return ToGrpc(call.status());
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  absl::StatusOr<NodeCertificate> issued = nodes_.Join(*request);
  if (!issued.ok()) {
    access_.LogRefused(context->peer(), "JoinNode", issued.status());
    return ToGrpc(issued.status());
  }
  *response->mutable_header() = MakeHeader();
  *response->mutable_issued() = *std::move(issued);
  return grpc::Status::OK;
}

grpc::Status WorkerService::RenewCertificate(grpc::ServerContext* context, const RenewCertificateRequest* request,
                                             RenewCertificateResponse* response) {
  absl::StatusOr<Admitted> call = access_.Admit(*context, "RenewCertificate");
  if (!call.ok()) return ToGrpc(call.status());
  if (absl::Status status = CheckHeader(request->header()); !status.ok()) return ToGrpc(status);
  const auto shown = [&]() -> absl::StatusOr<std::string> {
    ADJOIN_ASSIGN_OR_RETURN(const Caller caller, access_.Identify(*context));
    return caller.serial;
  };
  absl::StatusOr<NodeCertificate> issued = nodes_.Renew(call->caller().name, request->certificate_request(), shown);
  if (!issued.ok()) return ToGrpc(issued.status());
  *response->mutable_header() = MakeHeader();
  *response->mutable_issued() = *std::move(issued);
  return grpc::Status::OK;
}

}  // namespace adjoin
