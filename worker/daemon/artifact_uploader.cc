#include "worker/daemon/artifact_uploader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "worker/data/path_rules.h"

namespace adjoin {
namespace {

constexpr int64_t kChunkBytes = 512 << 10;
constexpr size_t kMaxUploads = 16;
constexpr std::chrono::hours kUploadTimeout{6};
constexpr int kTries = 5;
constexpr absl::Duration kBetweenTries = absl::Milliseconds(500);

struct OpenFile {
  UniqueFd fd;
  int64_t bytes = 0;
};

absl::StatusOr<OpenFile> OpenArtifact(const std::string& root, const SendArtifact& request) {
  const std::string& name = request.name();
  if (name.empty() || name == "." || name == ".." || absl::StrContains(name, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not the name of a file"));
  }
  std::string relative = request.output_dir().empty() ? name : absl::StrCat(request.output_dir(), "/", name);
  ADJOIN_ASSIGN_OR_RETURN(HeldPath held, HoldBelow(root, relative));
  OpenFile file;
  file.fd = UniqueFd(open(held.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.fd.get() < 0 || fstat(file.fd.get(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat("'", relative, "': ", strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("'", relative, "' is not a regular file"));
  file.bytes = info.st_size;
  return file;
}

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
  bool busy = uploads_.size() >= kMaxUploads;
  Upload& upload = uploads_.emplace_back();
  try {
    upload.thread = std::thread([this, &upload, request, busy] {
      Run(upload, request, busy);
      upload.over = true;
    });
  } catch (const std::system_error& error) {
    uploads_.pop_back();
    LogWarning(absl::StrCat("sending ", request.name(), " failed: no thread: ", error.what()));
  }
}

void ArtifactUploader::Run(Upload& upload, const SendArtifact& request, bool busy) {
  grpc::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = TryOnce(upload, request, busy);
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

grpc::Status ArtifactUploader::TryOnce(Upload& upload, const SendArtifact& request, bool busy) {
  UploadArtifactResponse response;
  std::unique_ptr<WorkerLink::Stub> stub = WorkerLink::NewStub(channel_());
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return grpc::Status(grpc::StatusCode::CANCELLED, "the daemon stops");
    upload.context.emplace();
    upload.context->set_deadline(std::chrono::system_clock::now() + kUploadTimeout);
  }
  std::unique_ptr<grpc::ClientWriter<ArtifactChunk>> writer = stub->UploadArtifact(&*upload.context, &response);
  absl::StatusOr<OpenFile> file =
      busy ? absl::ResourceExhaustedError("the worker sends many files already: try again later")
           : OpenArtifact(output_root_, request);
  ArtifactChunk chunk;
  *chunk.mutable_header() = MakeHeader();
  chunk.set_request_id(request.request_id());
  if (!file.ok()) {
    chunk.set_error(PrintableText(file.status().message(), kMaxErrorBytes));
    writer->Write(chunk);
  } else {
    chunk.set_total_bytes(file->bytes);
    int64_t left = file->bytes;
    do {
      std::string& data = *chunk.mutable_data();
      data.resize(std::min(left, kChunkBytes));
      ssize_t got = read(file->fd.get(), data.data(), data.size());
      if (got < 0 || (got == 0 && left > 0))
        chunk.set_error(
            PrintableText(absl::StrCat("'", request.name(), "' cannot be read to its end"), kMaxErrorBytes));
      data.resize(std::max<ssize_t>(got, 0));
      left -= got;
      if (!writer->Write(chunk) || !chunk.error().empty()) break;
      chunk.clear_request_id();
      chunk.clear_total_bytes();
    } while (left > 0);
  }
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  writer.reset();
  absl::MutexLock lock(&mutex_);
  upload.context.reset();
  return status;
}

}  // namespace adjoin
