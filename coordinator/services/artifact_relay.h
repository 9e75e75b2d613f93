// Passes a file from the daemon that uploads it to the client that asked for it, a few chunks at a time.
//
// The client's RPC, before the daemon is asked:
//   ADJOIN_ASSIGN_OR_RETURN(ArtifactRelay::Seat seat, relay.TakeSeat("alice", "worker-0", deadline, gone));
//   std::shared_ptr<ArtifactPipe> pipe = relay.Open(request_id);
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<ArtifactChunk> chunk, pipe->Pop(Deadline::After(absl::Seconds(30))));
//
// The daemon's RPC:
//   std::shared_ptr<ArtifactPipe> pipe = relay.Take(chunk.request_id());
//   ADJOIN_RETURN_IF_ERROR(pipe->Push(chunk, Deadline::After(absl::Seconds(30))));
//   pipe->Finish(absl::OkStatus());
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_ARTIFACT_RELAY_H_
#define ADJOIN_COORDINATOR_SERVICES_ARTIFACT_RELAY_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class ArtifactPipe {
 public:
  // Waits for room. Errors: kCancelled (the reader has gone), kDeadlineExceeded (it does not read), kInvalidArgument
  // (the file's size is negative).
  absl::Status Push(ArtifactChunk chunk, Deadline deadline);
  // Returns the next chunk, or nothing at the end. Errors: the status that Finish was called with; kDeadlineExceeded.
  absl::StatusOr<std::optional<ArtifactChunk>> Pop(Deadline deadline);
  // Called by the writer at the end. Only the first call counts.
  void Finish(absl::Status status);
  // Ends both sides at once, whatever waits: Push and Pop return this error from now on.
  void Break(absl::Status status);
  // Called by the reader when it wants no more.
  void Cancel();

 private:
  static constexpr size_t kMaxChunks = 4;

  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::deque<ArtifactChunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> finished_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

class ArtifactRelay {
 public:
  // How many files of one worker a caller has under way at once: a daemon sends 16 of one file system, to all callers
  // together.
  static constexpr int kSeats = 4;
  // One of these files, until the last copy has gone.
  using Seat = std::shared_ptr<void>;

  // Waits until the caller has a file less than that under way; `gone`, which is asked several times a second, ends the
  // wait. The relay outlives the seat. Errors: kResourceExhausted, kCancelled.
  absl::StatusOr<Seat> TakeSeat(const std::string& caller, const std::string& worker, Deadline deadline,
                                const std::function<bool()>& gone);

  std::shared_ptr<ArtifactPipe> Open(const std::string& request_id);
  // Null where no client opened the request, or its pipe was taken already.
  std::shared_ptr<ArtifactPipe> Take(const std::string& request_id);

 private:
  using Sitter = std::pair<std::string, std::string>;  // caller, worker

  void LeaveSeat(const Sitter& sitter);

  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<ArtifactPipe>> pipes_ ABSL_GUARDED_BY(mutex_);
  MonotonicCondition left_;
  std::map<Sitter, int> seats_ ABSL_GUARDED_BY(mutex_);  // that are taken
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_ARTIFACT_RELAY_H_
