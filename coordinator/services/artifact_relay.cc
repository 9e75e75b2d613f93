#include "coordinator/services/artifact_relay.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/wait_unless_gone.h"

namespace adjoin {

absl::Status ArtifactPipe::Push(ArtifactChunk chunk, Deadline deadline) {
  if (chunk.total_bytes() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("no file has ", chunk.total_bytes(), " bytes"));
  }
  absl::MutexLock lock(&mutex_);
  auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_ || chunks_.size() < kMaxChunks; };
  if (!changed_.Wait(mutex_, deadline, room)) return absl::DeadlineExceededError("the client does not read");
  if (cancelled_) return absl::CancelledError("the client has gone");
  chunks_.push_back(std::move(chunk));
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ArtifactChunk>> ArtifactPipe::Pop(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_.has_value() || !chunks_.empty(); };
  if (!changed_.Wait(mutex_, deadline, ready)) return absl::DeadlineExceededError("the worker does not send");
  if (!chunks_.empty()) {
    ArtifactChunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    changed_.NotifyAll();
    return std::optional<ArtifactChunk>(std::move(chunk));
  }
  if (!finished_->ok()) return *finished_;
  return std::optional<ArtifactChunk>();
}

void ArtifactPipe::Finish(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (!finished_.has_value()) finished_ = std::move(status);
  changed_.NotifyAll();
}

void ArtifactPipe::Break(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  chunks_.clear();
  finished_ = std::move(status);
  changed_.NotifyAll();
}

void ArtifactPipe::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  changed_.NotifyAll();
}

absl::StatusOr<ArtifactRelay::Seat> ArtifactRelay::TakeSeat(const std::string& caller, const std::string& worker,
                                                            Deadline deadline, const std::function<bool()>& gone) {
  const Sitter sitter = {caller, worker};
  {
    absl::MutexLock lock(&mutex_);
    const auto free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto taken = seats_.find(sitter);
      return taken == seats_.end() || taken->second < kSeats;
    };
    const WaitEnd end = WaitUnlessGone(left_, mutex_, deadline, gone, free);
    if (end == WaitEnd::kGone) return absl::CancelledError("nobody waits for the file any more");
    if (end == WaitEnd::kExpired) {
      return absl::ResourceExhaustedError(absl::StrCat(kSeats, " files from ", worker, " are on their way to ", caller,
                                                       " already: ask again when one of them has come"));
    }
    ++seats_[sitter];
  }
  return Seat(nullptr, [this, sitter](void* /*none*/) { LeaveSeat(sitter); });
}

void ArtifactRelay::LeaveSeat(const Sitter& sitter) {
  {
    absl::MutexLock lock(&mutex_);
    if (--seats_[sitter] == 0) seats_.erase(sitter);
  }
  left_.NotifyAll();
}

std::shared_ptr<ArtifactPipe> ArtifactRelay::Open(const std::string& request_id) {
  auto pipe = std::make_shared<ArtifactPipe>();
  absl::MutexLock lock(&mutex_);
  pipes_[request_id] = pipe;
  return pipe;
}

std::shared_ptr<ArtifactPipe> ArtifactRelay::Take(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  auto found = pipes_.find(request_id);
  if (found == pipes_.end()) return nullptr;
  std::shared_ptr<ArtifactPipe> pipe = std::move(found->second);
  pipes_.erase(found);
  return pipe;
}

}  // namespace adjoin
