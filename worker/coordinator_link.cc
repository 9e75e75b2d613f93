#include "worker/coordinator_link.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "base/watchdog.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr int kMaxLinesPerMessage = 1000;
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(30);

// Whether connecting again can mend it.
bool IsPermanent(grpc::StatusCode code) {
  return code == grpc::StatusCode::FAILED_PRECONDITION || code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::UNIMPLEMENTED;
}

}  // namespace

CoordinatorLink::CoordinatorLink(Settings settings, Callbacks callbacks)
    : settings_(std::move(settings)), callbacks_(std::move(callbacks)) {}

std::shared_ptr<grpc::Channel> CoordinatorLink::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // plans grow with the number of ranks
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // http_proxy in the environment is for elsewhere
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new try is not held up by the last one's backoff
  return grpc::CreateCustomChannel(settings_.coordinator, grpc::InsecureChannelCredentials(), arguments);
}

void CoordinatorLink::Send(WorkerMessage message) {
  absl::MutexLock lock(&mutex_);
  if (!streaming_) return;
  if (message.has_log()) {
    WorkerMessage* last = outbox_.empty() ? nullptr : &outbox_.back();
    if (last != nullptr && last->has_log() && last->header().epoch() == message.header().epoch() &&
        last->log().line_size() + message.log().line_size() <= kMaxLinesPerMessage) {
      last->mutable_log()->mutable_line()->MergeFrom(message.log().line());
      return;
    }
    if (logs_waiting_ >= settings_.max_log_messages) {
      auto oldest = std::find_if(outbox_.begin(), outbox_.end(), [](const WorkerMessage& m) { return m.has_log(); });
      outbox_.erase(oldest);
      --logs_waiting_;
    }
    ++logs_waiting_;
  }
  outbox_.push_back(std::move(message));
}

std::optional<WorkerMessage> CoordinatorLink::NextMessage(absl::Time next_heartbeat) {
  absl::MutexLock lock(&mutex_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !streaming_ || !outbox_.empty(); };
  bool in_time = mutex_.AwaitWithDeadline(absl::Condition(&ready), next_heartbeat);
  if (!streaming_) return std::nullopt;
  WorkerMessage message;
  if (!in_time || outbox_.empty()) {
    *message.mutable_header() = MakeHeader();
    message.mutable_heartbeat();
    return message;
  }
  message = std::move(outbox_.front());
  outbox_.pop_front();
  if (message.has_log()) --logs_waiting_;
  return message;
}

void CoordinatorLink::WriteMessages(Stream& stream) {
  int64_t beats = 0;
  absl::Time next = absl::Now();
  while (std::optional<WorkerMessage> message = NextMessage(next)) {
    if (message->has_heartbeat()) {
      message->mutable_heartbeat()->set_sequence(++beats);
      absl::MutexLock lock(&mutex_);
      next = absl::Now() + heartbeat_;
    }
    if (!stream.Write(*message)) return;
  }
}

grpc::Status CoordinatorLink::RunStream(bool* welcomed) {
  grpc::ClientContext context;
  std::unique_ptr<WorkerLink::Stub> stub = WorkerLink::NewStub(NewChannel());
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return grpc::Status::CANCELLED;
    context_ = &context;
  }
  absl::Cleanup forget = [&] {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  };
  std::unique_ptr<Stream> stream = stub->Connect(&context);
  WorkerMessage hello;
  *hello.mutable_header() = MakeHeader();
  *hello.mutable_hello() = settings_.hello;
  CoordinatorMessage message;
  {
    Watchdog late(kWelcomeTimeout, [&] { context.TryCancel(); });
    if (!stream->Write(hello) || !stream->Read(&message)) return stream->Finish();
  }
  absl::Status protocol = CheckProtocol(message.header(), "the coordinator", "this worker");
  if (!protocol.ok() || !message.has_welcome()) {
    context.TryCancel();
    stream->Finish();
    return protocol.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no welcome came") : ToGrpc(protocol);
  }
  *welcomed = true;
  LogInfo(absl::StrCat("connected to the coordinator at ", settings_.coordinator));
  {
    absl::MutexLock lock(&mutex_);
    heartbeat_ = absl::Seconds(std::max(0.01, message.welcome().heartbeat_seconds()));
    streaming_ = true;
  }
  std::thread writer([&] { WriteMessages(*stream); });
  while (stream->Read(&message)) callbacks_.on_message(message);
  {
    absl::MutexLock lock(&mutex_);
    streaming_ = false;
    outbox_.clear();
    logs_waiting_ = 0;
  }
  context.TryCancel();  // so that a write in progress ends
  writer.join();
  return stream->Finish();
}

bool CoordinatorLink::WaitBeforeRetry(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stopping_), time);
}

absl::Status CoordinatorLink::Run() {
  absl::Duration backoff = settings_.first_backoff;
  std::string last_error;
  while (true) {
    bool welcomed = false;
    grpc::Status status = RunStream(&welcomed);
    if (welcomed) {
      if (WaitBeforeRetry(absl::ZeroDuration())) LogWarning("the connection to the coordinator ended");
      ADJOIN_RETURN_IF_ERROR(callbacks_.on_lost());
      backoff = settings_.first_backoff;
    }
    if (IsPermanent(status.error_code())) return FromGrpc(status);
    if (!welcomed && status.error_message() != last_error) {
      last_error = status.error_message();
      LogWarning(absl::StrCat("not connected to the coordinator at ", settings_.coordinator, " yet: ", last_error));
    }
    if (!WaitBeforeRetry(backoff)) return absl::OkStatus();
    backoff = std::min(2 * backoff, settings_.longest_backoff);
  }
}

void CoordinatorLink::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

}  // namespace adjoin
