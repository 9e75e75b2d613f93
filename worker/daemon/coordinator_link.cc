#include "worker/daemon/coordinator_link.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/boot_clock.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/security/server_watch.h"
#include "base/security/tls.h"
#include "base/watchdog.h"
#include "proto/fit_message.h"
#include "proto/grpc_status.h"
#include "proto/keepalive.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr double kDefaultLeaseSeconds = 120;

// Returns true where connecting again may succeed.
bool IsPermanent(grpc::StatusCode code) {
  return code == grpc::StatusCode::FAILED_PRECONDITION || code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::UNIMPLEMENTED;
}

// Between heartbeats, and between reports of progress, whatever the coordinator says.
absl::Duration HeartbeatOf(double seconds) { return absl::Seconds(std::min(3600.0, std::max(0.01, seconds))); }
absl::Duration PaceOf(double seconds) {
  return seconds > 0 ? absl::Seconds(std::min(60.0, seconds)) : absl::Duration();
}

void LogLeftOut(const std::string& left_out) {
  if (!left_out.empty())
    LogWarning(absl::StrCat("a message was too long for the coordinator, and left out: ", left_out));
}

}  // namespace

CoordinatorLink::CoordinatorLink(Settings settings, Callbacks callbacks)
    : settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      outbox_({.log_messages = settings_.max_log_messages, .bytes = kMaxOutboxBytes}) {}

std::shared_ptr<grpc::Channel> CoordinatorLink::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxOrderBytes));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Despite its name the least time that gRPC gives an attempt to connect, unless the pause to the next is longer.
  const absl::Duration connect = settings_.connect_timeout;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(absl::ToInt64Milliseconds(connect)));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(std::min(connect, absl::Seconds(1)))));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // http_proxy in the environment is for elsewhere
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new try is not held up by the last one's backoff
  ClientInterceptors interceptors;
  if (settings_.interceptors) interceptors = settings_.interceptors();
  return grpc::experimental::CreateCustomChannelWithInterceptors(settings_.coordinator, settings_.credentials,
                                                                 arguments, std::move(interceptors));
}

void CoordinatorLink::Send(WorkerMessage message) {
  LogLeftOut(Fit(&message));
  {
    absl::MutexLock lock(&mutex_);
    if (!open_ && !message.has_log()) return;
    if (!outbox_.Add(std::move(message))) {
      LogWarning("the coordinator reads too slowly: connecting again, with a report of the whole state");
      open_ = false;
      if (context_ != nullptr) context_->TryCancel();
    }
  }
  changed_.NotifyAll();
}

void CoordinatorLink::BeatNow() {
  {
    absl::MutexLock lock(&mutex_);
    beat_now_ = true;
  }
  changed_.NotifyAll();
}

void CoordinatorLink::ConnectAgain() {
  absl::MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

std::optional<WorkerMessage> CoordinatorLink::NextMessage() {
  absl::MutexLock lock(&mutex_);
  while (streaming_) {
    const Deadline::Clock::time_point now = Deadline::Clock::now();
    if (beat_now_ || NextBeat() <= now) {  // a flood of messages does not hold heartbeats up
      beat_now_ = false;
      last_beat_ = now;
      WorkerMessage message;
      *message.mutable_header() = MakeHeader();
      message.mutable_heartbeat();
      return message;
    }
    if (std::optional<WorkerMessage> message = outbox_.Take(now)) return message;
    // An acknowledgement may tell other times.
    const Deadline::Clock::time_point until = std::min(NextBeat(), outbox_.DueAt());
    changed_.Wait(mutex_, Deadline::At(until), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !streaming_ || beat_now_ || std::min(NextBeat(), outbox_.DueAt()) < until;
    });
  }
  return std::nullopt;
}

Deadline::Clock::time_point CoordinatorLink::NextBeat() const {
  if (!last_beat_.has_value()) return Deadline::Clock::time_point::min();
  return *last_beat_ + absl::ToChronoNanoseconds(heartbeat_);
}

void CoordinatorLink::WriteMessages(Stream& stream) {
  int64_t beats = 0;
  while (std::optional<WorkerMessage> message = NextMessage()) {
    if (message->has_heartbeat()) {
      // The time is taken before the heartbeat is filled, so the lease counts from a moment before its content, never
      // after.
      const int64_t now = BootTimeNanos();
      callbacks_.on_heartbeat(*message->mutable_heartbeat());
      message->mutable_heartbeat()->set_sequence(++beats);
      LogLeftOut(Fit(&*message));
      absl::MutexLock lock(&mutex_);
      sent_.push_back({beats, now});
    }
    if (!stream.Write(*message)) return;
  }
}

void CoordinatorLink::OnAck(const HeartbeatAck& ack) {
  int64_t until = 0;
  absl::Duration length;
  {
    absl::MutexLock lock(&mutex_);
    while (!sent_.empty() && sent_.front().sequence < ack.sequence()) sent_.pop_front();
    if (sent_.empty() || sent_.front().sequence != ack.sequence()) return;
    if (ack.heartbeat_seconds() > 0) heartbeat_ = HeartbeatOf(ack.heartbeat_seconds());
    outbox_.SetPace(PaceOf(ack.progress_seconds()));
    length = lease_;
    until = sent_.front().boottime_ns + absl::ToInt64Nanoseconds(length);
    sent_.pop_front();
    silent_at_ = Deadline::After(std::max(settings_.answer_timeout, 3 * heartbeat_));
  }
  changed_.NotifyAll();
  callbacks_.on_lease(until, length);
}

void CoordinatorLink::BreakWhenSilent(grpc::ClientContext& context) {
  absl::MutexLock lock(&mutex_);
  while (!silent_at_.Expired()) {
    if (changed_.Wait(mutex_, silent_at_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !streaming_; }))
      return;
  }
  LogWarning("the coordinator acknowledges no heartbeats: connecting again");
  context.TryCancel();
}

WorkerMessage CoordinatorLink::MakeHello() {
  WorkerMessage hello;
  *hello.mutable_header() = MakeHeader();
  callbacks_.on_connecting(*hello.mutable_hello(), [this] {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  });
  LogLeftOut(Fit(&hello, hello_limit_));
  hello_bytes_ = hello.ByteSizeLong();
  return hello;
}

// Called where a stream ended before a welcome: with one of gRPC's codes for a message that the coordinator does not
// take, with the coordinator's word for a hello that it could not read, or with none.
void CoordinatorLink::NoteRefusedHello(const grpc::Status& status) {
  const bool unread = status.error_code() == grpc::StatusCode::CANCELLED && IsAnswer(status);
  if (!unread && !status.ok() && status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED &&
      status.error_code() != grpc::StatusCode::INTERNAL) {
    return;
  }
  LogWarning(absl::StrCat("the coordinator did not take a hello of ", hello_bytes_,
                          " bytes; the next one has half as many, if that is possible"));
  hello_limit_ = hello_bytes_ / 2;
}

void CoordinatorLink::KeepLogsOnly() {
  absl::MutexLock lock(&mutex_);
  open_ = false;
  outbox_.KeepLogsOnly();
}

void CoordinatorLink::DropAll() {
  absl::MutexLock lock(&mutex_);
  open_ = false;
  outbox_.Clear();
}

void CoordinatorLink::Serve(grpc::ClientContext& context, Stream& stream, Deadline::Clock::time_point begun) {
  std::thread writer([&] { WriteMessages(stream); });
  std::thread guard([&] { BreakWhenSilent(context); });
  const ServerWatch watch(settings_.check_server, begun, [&](const absl::Status& why) {
    LogWarning(absl::StrCat("connecting again: ", std::string(why.message())));
    context.TryCancel();
  });
  CoordinatorMessage message;
  while (stream.Read(&message)) {
    if (message.has_heartbeat_ack()) {
      OnAck(message.heartbeat_ack());
    } else {
      callbacks_.on_message(message);
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    streaming_ = false;
  }
  changed_.NotifyAll();
  context.TryCancel();  // so that a write in progress ends
  writer.join();
  guard.join();
}

grpc::Status CoordinatorLink::Exchange(grpc::ClientContext& context, bool* welcomed) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  std::unique_ptr<WorkerLink::Stub> stub = WorkerLink::NewStub(NewChannel());
  std::unique_ptr<Stream> stream;
  CoordinatorMessage message;
  int64_t hello_sent = 0;
  {
    Watchdog late(settings_.answer_timeout, [&] { context.TryCancel(); });
    stream = stub->Connect(&context);
    hello_sent = BootTimeNanos();
    if (!stream->Write(MakeHello()) || !stream->Read(&message)) {
      const grpc::Status status = stream->Finish();
      NoteRefusedHello(status);
      return status;
    }
  }
  absl::Status protocol = CheckProtocol(message.header(), "the coordinator", "this worker");
  if (!protocol.ok() || !message.has_welcome()) {
    context.TryCancel();
    stream->Finish();
    return protocol.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no welcome came") : ToGrpc(protocol);
  }
  *welcomed = true;
  hello_limit_ = kMaxSentBytes;
  LogInfo(absl::StrCat("connected to the coordinator at ", settings_.coordinator));
  const Welcome& welcome = message.welcome();
  if (!callbacks_.on_connected(welcome)) {
    DropAll();
    context.TryCancel();
    return stream->Finish();
  }
  const absl::Duration lease =
      absl::Seconds(welcome.lease_seconds() > 0 ? welcome.lease_seconds() : kDefaultLeaseSeconds);
  callbacks_.on_lease(hello_sent + absl::ToInt64Nanoseconds(lease), lease);
  {
    absl::MutexLock lock(&mutex_);
    heartbeat_ = HeartbeatOf(welcome.heartbeat_seconds());
    outbox_.SetPace(absl::ZeroDuration());
    lease_ = lease;
    last_beat_.reset();
    sent_.clear();
    silent_at_ = Deadline::After(std::max(settings_.answer_timeout, 3 * heartbeat_));
    streaming_ = true;
  }
  Serve(context, *stream, begun);
  return stream->Finish();
}

grpc::Status CoordinatorLink::RunStream(bool* welcomed) {
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return grpc::Status::CANCELLED;
    context_ = &context;
  }
  absl::Cleanup forget = [&] {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  };
  grpc::Status status = Exchange(context, welcomed);
  KeepLogsOnly();
  callbacks_.on_lost();
  return status;
}

bool CoordinatorLink::WaitBeforeRetry(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  return !changed_.Wait(mutex_, Deadline::After(time),
                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

absl::Status CoordinatorLink::Run() {
  absl::Duration backoff = settings_.first_backoff;
  std::string last_error;
  while (true) {
    bool welcomed = false;
    grpc::Status status = RunStream(&welcomed);
    if (welcomed) {
      if (WaitBeforeRetry(absl::ZeroDuration())) {
        LogWarning(absl::StrCat("the connection to the coordinator ended", status.error_message().empty() ? "" : ": ",
                                PrintableText(status.error_message(), kMaxErrorBytes)));
      }
      backoff = settings_.first_backoff;
      last_error.clear();
    }
    if (IsPermanent(status.error_code())) return FromGrpc(status);
    if (!welcomed && status.error_message() != last_error) {
      last_error = status.error_message();
      const std::string refused = WhyRefused(last_error);
      LogWarning(absl::StrCat("not connected to the coordinator at ", settings_.coordinator,
                              " yet: ", refused.empty() ? last_error : refused));
    }
    if (!WaitBeforeRetry(backoff)) return absl::OkStatus();
    backoff = std::min(2 * backoff, settings_.longest_backoff);
  }
}

void CoordinatorLink::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.NotifyAll();
}

}  // namespace adjoin
