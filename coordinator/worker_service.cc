#include "coordinator/worker_service.h"

#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/watchdog.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr absl::Duration kClientReads = absl::Seconds(60);

absl::Status CheckHeader(const Header& header) { return CheckProtocol(header, "the worker", "this coordinator"); }

}  // namespace

grpc::Status WorkerService::Connect(grpc::ServerContext* context, Stream* stream) {
  WorkerMessage first;
  {
    Watchdog late(first_message_, [context] { context->TryCancel(); });
    if (!stream->Read(&first)) return grpc::Status(grpc::StatusCode::CANCELLED, "no hello came");
  }
  if (absl::Status status = CheckHeader(first.header()); !status.ok()) return ToGrpc(status);
  if (!first.has_hello()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the first message of a worker has to be its hello");
  }
  Hub::Connection connection = hub_.Attach([context] { context->TryCancel(); });
  std::thread writer([&] {
    while (std::optional<CoordinatorMessage> message = connection.outbox->Pop()) {
      if (!stream->Write(*message)) return;
    }
  });
  absl::Cleanup detach = [&] {
    hub_.Detach(connection.id);
    context->TryCancel();  // a write to a daemon that does not read ends as well
    writer.join();
  };
  absl::Status accepted = hub_.Do(
      [&](CoordinationService& service) { return service.WorkerConnected(connection.id, first.hello()); });
  if (!accepted.ok()) {
    LogWarning(absl::StrCat("refused worker ", first.hello().name(), ": ", std::string(accepted.message())));
    hub_.Detach(connection.id);
    writer.join();
    std::move(detach).Cancel();
    return ToGrpc(accepted);
  }
  return Serve(connection.id, stream);
}

grpc::Status WorkerService::Serve(ConnectionId connection, Stream* stream) {
  grpc::Status result = grpc::Status::OK;
  WorkerMessage message;
  while (stream->Read(&message)) {
    if (absl::Status status = CheckHeader(message.header()); !status.ok()) {
      result = ToGrpc(status);
      break;
    }
    if (message.has_log()) KeepLog(connection, message);
    if (message.has_heartbeat() || message.has_log()) {
      hub_.Look([&](CoordinationService& service) { service.WorkerHeard(connection); });
    } else {
      hub_.Do([&](CoordinationService& service) { service.WorkerSaid(connection, message); });
    }
  }
  hub_.Do([&](CoordinationService& service) { service.WorkerLost(connection, "its connection ended"); });
  return result;
}

void WorkerService::KeepLog(ConnectionId connection, const WorkerMessage& message) {
  const LogBatch& batch = message.log();
  bool owns = hub_.Look([&](CoordinationService& service) {
    return service.Owns(connection, batch.job_id(), message.header().epoch());
  });
  if (!owns) return;
  std::vector<LogLine> lines(batch.line().begin(), batch.line().end());
  for (LogLine& line : lines) line.set_epoch(message.header().epoch());
  absl::Status status = logs_.Append(batch.job_id(), lines);
  if (!status.ok()) LogError(std::string(status.message()));
  hub_.NoteChange();
}

grpc::Status WorkerService::UploadArtifact(grpc::ServerContext* context, grpc::ServerReader<ArtifactChunk>* reader,
                                           UploadArtifactResponse* response) {
  *response->mutable_header() = MakeHeader();
  ArtifactChunk chunk;
  {
    Watchdog late(first_message_, [context] { context->TryCancel(); });
    if (!reader->Read(&chunk)) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "an upload without a chunk");
  }
  if (absl::Status status = CheckHeader(chunk.header()); !status.ok()) return ToGrpc(status);
  std::shared_ptr<ArtifactPipe> pipe = relay_.Take(chunk.request_id());
  if (pipe == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "nobody waits for this upload");
  // What ends it early: the stream broke.
  absl::Cleanup broken = [&] { pipe->Finish(absl::UnavailableError("the upload broke off")); };
  int64_t left = chunk.total_bytes();
  do {
    if (!chunk.error().empty()) {
      pipe->Finish(absl::NotFoundError(chunk.error()));
      return grpc::Status::OK;
    }
    left -= static_cast<int64_t>(chunk.data().size());
    if (absl::Status status = pipe->Push(std::move(chunk), Deadline::After(kClientReads)); !status.ok()) {
      return ToGrpc(status);
    }
    chunk.Clear();
  } while (reader->Read(&chunk));
  if (left == 0) pipe->Finish(absl::OkStatus());
  return grpc::Status::OK;
}

}  // namespace adjoin
