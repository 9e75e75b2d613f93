// The daemon's stream to the coordinator: connects, says hello, connects again when the stream ends.
//
//   CoordinatorLink link(settings, {.on_message = ..., .on_lost = ...});
//   link.Send(message);                       // dropped while there is no stream
//   absl::Status why = link.Run();            // until Stop, or an error that another try does not mend
//
// Run is one thread's; it calls back from there. Send and Stop may be called from any thread.
#ifndef ADJOIN_WORKER_COORDINATOR_LINK_H_
#define ADJOIN_WORKER_COORDINATOR_LINK_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

class CoordinatorLink {
 public:
  struct Settings {
    std::string coordinator;  // HOST:PORT
    WorkerHello hello;
    absl::Duration first_backoff = absl::Milliseconds(200);  // doubles up to longest_backoff
    absl::Duration longest_backoff = absl::Seconds(5);
    size_t max_log_messages = 256;  // waiting to be sent; beyond that the oldest log lines are dropped
  };
  struct Callbacks {
    std::function<void(const CoordinatorMessage&)> on_message;
    // The stream has ended. No message of the next one is sent or delivered before this returns. An error ends Run.
    std::function<absl::Status()> on_lost;
  };

  CoordinatorLink(Settings settings, Callbacks callbacks);

  void Send(WorkerMessage message);
  // Errors: what on_lost returned; kFailedPrecondition, kInvalidArgument, kUnimplemented as the coordinator refused.
  absl::Status Run();
  void Stop();

  // The channel of the stream, for other RPCs to the same coordinator.
  std::shared_ptr<grpc::Channel> NewChannel() const;

 private:
  using Stream = grpc::ClientReaderWriter<WorkerMessage, CoordinatorMessage>;

  grpc::Status RunStream(bool* welcomed);
  void WriteMessages(Stream& stream);
  // The next message to send, a heartbeat when it is due; nothing when the stream is over.
  std::optional<WorkerMessage> NextMessage(absl::Time next_heartbeat);
  bool WaitBeforeRetry(absl::Duration time);

  const Settings settings_;
  const Callbacks callbacks_;
  absl::Mutex mutex_;
  std::deque<WorkerMessage> outbox_ ABSL_GUARDED_BY(mutex_);
  size_t logs_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_COORDINATOR_LINK_H_
