// The daemon's stream to the coordinator: connects, says hello, sends heartbeats, connects again when the stream ends.
//
//   CoordinatorLink link(settings, {.on_connecting = ..., .on_heartbeat = ..., .on_lease = ..., .on_message = ...});
//   link.Send(message);
//   absl::Status why = link.Run();            // until Stop, or an error that another try does not mend
//
// The hello of a stream reports the whole state, so messages that report a change are dropped while there is no stream;
// after Callbacks::on_connecting has called `open` they are kept, and sent after that hello. Log lines are kept across
// an outage. A coordinator that does not acknowledge heartbeats is left, as one that went away; so is one whose
// certificate was revoked. What is sent is made fit for its way (proto/fit_message.h), and the next hello after a
// refused one is smaller. Run is one thread's; but for on_heartbeat it calls back from there. Send, BeatNow and Stop
// may be called from any thread.
#ifndef ADJOIN_WORKER_DAEMON_COORDINATOR_LINK_H_
#define ADJOIN_WORKER_DAEMON_COORDINATOR_LINK_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/security/server_watch.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/message_limits.h"
#include "worker/daemon/worker_outbox.h"

namespace adjoin {

using ClientInterceptors = std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

class CoordinatorLink {
 public:
  struct Settings {
    std::string coordinator;  // HOST:PORT
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    ServerCheck check_server;  // a stream ends where it fails, and the next one is on a new connection; empty: none
    absl::Duration first_backoff = absl::Milliseconds(200);  // doubles up to longest_backoff
    absl::Duration longest_backoff = absl::Seconds(5);
    absl::Duration answer_timeout = absl::Seconds(15);  // for the welcome, and without an acknowledged heartbeat
    // For a connection. gRPC's own 20 s, at an address where nobody answers any more, would take most of the time after
    // which a coordinator that has moved gives the daemon up.
    absl::Duration connect_timeout = absl::Seconds(5);
    size_t max_log_messages = 256;  // waiting to be sent; beyond that the oldest log lines are dropped
    std::function<ClientInterceptors()> interceptors;  // for each channel; empty: none
  };
  struct Callbacks {
    // Fills the hello and calls `open`. Messages given to Send after that are sent after the hello, so the callback
    // holds the lock under which the state changes during both.
    std::function<void(WorkerHello& hello, const std::function<void()>& open)> on_connecting;
    // The coordinator has answered. Returns false where it is not the one that the messages so far were for: they are
    // dropped, log lines too, and the next stream begins at once.
    std::function<bool(const Welcome& welcome)> on_connected;
    // Fills a heartbeat but for its sequence. Runs on the stream's writing thread.
    std::function<void(Heartbeat& heartbeat)> on_heartbeat;
    // Ranks may run until then: `length` after what the coordinator last acknowledged was sent.
    std::function<void(int64_t until_boottime_ns, absl::Duration length)> on_lease;
    std::function<void(const CoordinatorMessage&)> on_message;
    // The stream has ended, also where on_connected had not come.
    std::function<void()> on_lost;
  };

  CoordinatorLink(Settings settings, Callbacks callbacks);

  void Send(WorkerMessage message);
  // The next heartbeat is due at once.
  void BeatNow();
  // Ends the stream, if there is one: the next one begins with another hello.
  void ConnectAgain();
  // Errors: kFailedPrecondition, kInvalidArgument, kUnimplemented as the coordinator refused.
  absl::Status Run();
  void Stop();

  // A channel as the stream's, for other RPCs to the same coordinator.
  std::shared_ptr<grpc::Channel> NewChannel() const;

 private:
  using Stream = grpc::ClientReaderWriter<WorkerMessage, CoordinatorMessage>;
  struct SentBeat {
    int64_t sequence = 0;
    int64_t boottime_ns = 0;
  };

  grpc::Status RunStream(bool* welcomed);
  grpc::Status Exchange(grpc::ClientContext& context, bool* welcomed);
  // `begun`: before the connection.
  void Serve(grpc::ClientContext& context, Stream& stream, Deadline::Clock::time_point begun);
  WorkerMessage MakeHello();
  void NoteRefusedHello(const grpc::Status& status);
  void KeepLogsOnly();
  void DropAll();
  void WriteMessages(Stream& stream);
  // The next message to send, a heartbeat when it is due; nothing when the stream is over.
  std::optional<WorkerMessage> NextMessage();
  Deadline::Clock::time_point NextBeat() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAck(const HeartbeatAck& ack);
  // Cancels when no heartbeat was acknowledged for too long.
  void BreakWhenSilent(grpc::ClientContext& context);
  bool WaitBeforeRetry(absl::Duration time);

  const Settings settings_;
  const Callbacks callbacks_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  WorkerOutbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;       // messages are kept: the hello has the state before them
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;  // the coordinator has welcomed it
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool beat_now_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  std::optional<Deadline::Clock::time_point> last_beat_ ABSL_GUARDED_BY(mutex_);  // on this stream
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(120);
  std::deque<SentBeat> sent_ ABSL_GUARDED_BY(mutex_);  // not acknowledged yet
  Deadline silent_at_ ABSL_GUARDED_BY(mutex_) = Deadline::After(absl::ZeroDuration());
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Used by Run's thread alone: how large a hello may be, and how large the last one was.
  size_t hello_limit_ = kMaxSentBytes;
  size_t hello_bytes_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_COORDINATOR_LINK_H_
