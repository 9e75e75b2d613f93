// Sends results of jobs to the coordinator, each on a thread of its own.
//
//   ArtifactUploader uploader("/srv/output", [] { return channel; });
//   uploader.Start(send_artifact);
//
// Any thread. The destructor breaks off what is under way.
#ifndef ADJOIN_WORKER_DAEMON_ARTIFACT_UPLOADER_H_
#define ADJOIN_WORKER_DAEMON_ARTIFACT_UPLOADER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class ArtifactUploader {
 public:
  ArtifactUploader(std::string output_root, std::function<std::shared_ptr<grpc::Channel>()> channel)
      : output_root_(std::move(output_root)), channel_(std::move(channel)) {}
  ~ArtifactUploader();
  ArtifactUploader(const ArtifactUploader&) = delete;
  ArtifactUploader& operator=(const ArtifactUploader&) = delete;

  // A file that is no artifact, or too many uploads at once, is answered with an error.
  void Start(const SendArtifact& request);

 private:
  struct Upload {
    std::optional<grpc::ClientContext> context;  // the RPC under way; guarded by mutex_
    std::atomic<bool> over{false};
    std::thread thread;
  };
  // Tries again where the connection broke, since a user waits for the file.
  void Run(Upload& upload, const SendArtifact& request, bool busy);
  grpc::Status TryOnce(Upload& upload, const SendArtifact& request, bool busy);

  const std::string output_root_;
  const std::function<std::shared_ptr<grpc::Channel>()> channel_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::list<Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ARTIFACT_UPLOADER_H_
