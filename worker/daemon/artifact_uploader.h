// Sends results of jobs to the coordinator, each on a thread of its own, and reads them on another (artifact_feed.h): a
// file system that does not answer holds up no upload from others.
//
//   ArtifactUploader uploader("/srv/output", [] { return channel; });
//   uploader.Start(send_artifact);
//
// Any thread. The destructor breaks off what is under way, and waits for no file system.
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
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/artifact_feed.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

class ArtifactUploader {
 public:
  struct Options {
    // One call for each upload, as long as it lasts. Those that wait, wait for `patience` at most.
    MountCalls::Limits files = {
        .of_one_mount = 16, .waiting_for_one = 8, .in_all = 64, .waiting_for_thread = 8, .time = kLongestUpload};
    absl::Duration patience = kFilePatience;  // as OpenApart
  };
  ArtifactUploader(std::string output_root, std::function<std::shared_ptr<grpc::Channel>()> channel)
      : ArtifactUploader(std::move(output_root), std::move(channel), Options()) {}
  ArtifactUploader(std::string output_root, std::function<std::shared_ptr<grpc::Channel>()> channel,
                   const Options& options)
      : output_root_(std::move(output_root)),
        channel_(std::move(channel)),
        patience_(options.patience),
        files_({output_root_}, options.files) {}
  ~ArtifactUploader();
  ArtifactUploader(const ArtifactUploader&) = delete;
  ArtifactUploader& operator=(const ArtifactUploader&) = delete;

  // A file that is no artifact, too many uploads at once, and a file system that does not answer are answered with an
  // error.
  void Start(const SendArtifact& request);

 private:
  struct Upload {
    std::optional<grpc::ClientContext> context;  // the RPC under way; guarded by mutex_
    std::atomic<bool> over{false};
    std::thread thread;
  };
  // Tries again where the connection broke, since a user waits for the file.
  void Run(Upload& upload, const SendArtifact& request);
  // `unanswered`: set where the file system did not answer; it is not asked again then.
  grpc::Status TryOnce(Upload& upload, const SendArtifact& request, absl::Status& unanswered);
  bool Stopping();

  const std::string output_root_;
  const std::function<std::shared_ptr<grpc::Channel>()> channel_;
  const absl::Duration patience_;
  MountCalls files_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::list<Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ARTIFACT_UPLOADER_H_
