#include "worker/daemon/artifact_uploader.h"

#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr int kTries = 5;
constexpr absl::Duration kBetweenTries = absl::Milliseconds(500);

}  // namespace

ArtifactUploader::~ArtifactUploader() {
  std::list<Upload> uploads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    for (Upload& upload : uploads_) {
      if (upload.context.has_value()) upload.context->TryCancel();
    }
    uploads.swap(uploads_);
  }
  for (Upload& upload : uploads) upload.thread.join();
}

void ArtifactUploader::Start(const SendArtifact& request) {
  absl::MutexLock lock(&mutex_);
  for (auto it = uploads_.begin(); it != uploads_.end();) {
    if (it->over) it->thread.join();
    it = it->over ? uploads_.erase(it) : std::next(it);
  }
  Upload& upload = uploads_.emplace_back();
  try {
    upload.thread = std::thread([this, &upload, request] {
      Run(upload, request);
      upload.over = true;
    });
  } catch (const std::system_error& error) {
    uploads_.pop_back();
    LogWarning(absl::StrCat("sending ", request.name(), " failed: no thread: ", error.what()));
  }
}

bool ArtifactUploader::Stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void ArtifactUploader::Run(Upload& upload, const SendArtifact& request) {
  grpc::Status status;
  absl::Status unanswered;
  for (int i = 0; i < kTries; ++i) {
    status = TryOnce(upload, request, unanswered);
    if (status.ok()) return;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) break;
    absl::MutexLock lock(&mutex_);
    const bool stopping = changed_.Wait(mutex_, Deadline::After(kBetweenTries),
                                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    if (stopping) break;
  }
  // The coordinator answers NOT_FOUND where it has the file already.
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return;
  LogWarning(absl::StrCat("sending ", request.name(), " failed: ", status.error_message()));
}

grpc::Status ArtifactUploader::TryOnce(Upload& upload, const SendArtifact& request, absl::Status& unanswered) {
  UploadArtifactResponse response;
  std::unique_ptr<WorkerLink::Stub> stub = WorkerLink::NewStub(channel_());
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return grpc::Status(grpc::StatusCode::CANCELLED, "the daemon stops");
    upload.context.emplace();
    upload.context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoSeconds(kLongestUpload));
  }
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ArtifactReader>> {
    if (!unanswered.ok()) return unanswered;
    return OpenApart(
        files_, output_root_, request, [this] { return Stopping(); }, patience_);
  };
  // Before the upload begins: the coordinator ends one whose first chunk is late.
  absl::StatusOr<std::unique_ptr<ArtifactReader>> opened = open();
  const auto note = [&unanswered](const absl::Status& status) {
    if (absl::IsDeadlineExceeded(status)) unanswered = status;
  };
  note(opened.status());
  std::unique_ptr<grpc::ClientWriter<ArtifactChunk>> writer = stub->UploadArtifact(&*upload.context, &response);
  ArtifactChunk chunk;
  *chunk.mutable_header() = MakeHeader();
  chunk.set_request_id(request.request_id());
  if (!opened.ok()) {
    chunk.set_error(PrintableText(opened.status().message(), kMaxErrorBytes));
    writer->Write(chunk);
  } else {
    ArtifactReader& reader = **opened;
    chunk.set_total_bytes(reader.bytes());
    do {
      absl::StatusOr<std::string> part = reader.more() ? reader.Next() : std::string();
      note(part.status());
      if (!part.ok()) chunk.set_error(PrintableText(part.status().message(), kMaxErrorBytes));
      chunk.set_data(part.ok() ? *std::move(part) : "");
      if (!writer->Write(chunk) || !chunk.error().empty()) break;
      chunk.clear_request_id();
      chunk.clear_total_bytes();
    } while (reader.more());
    opened->reset();  // the next one has its room before the coordinator hears of the end
  }
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  writer.reset();
  absl::MutexLock lock(&mutex_);
  upload.context.reset();
  return status;
}

}  // namespace adjoin
