#include "worker/rank/rank_process_link.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/boot_clock.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "proto/fit_message.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"
#include "worker/rank/lease_watch.h"
#include "worker/rank/rank_exit_codes.h"

namespace adjoin {
namespace {

// The lease until the daemon sends the first one.
constexpr absl::Duration kFirstLease = absl::Seconds(120);

[[noreturn]] void EndForWantOfLease() {
  std::fprintf(stderr,
               "the lease ran out: nothing heard from the daemon, or from the coordinator through it, in time\n");
  _exit(kExitLeaseOver);
}

class Link final : public RankProcessLink {
 public:
  explicit Link(const Settings& settings) : settings_(settings), lease_(EndForWantOfLease) {
    lease_.Renew(BootTimeNanos() + absl::ToInt64Nanoseconds(kFirstLease));
  }

  ~Link() override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
  }

  absl::Status Open(Deadline deadline) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxOrderBytes));
    std::shared_ptr<grpc::Channel> channel =
        grpc::CreateCustomChannel("unix:" + settings_.socket, grpc::InsecureChannelCredentials(), arguments);
    auto until = std::chrono::system_clock::now() + absl::ToChronoNanoseconds(deadline.Remaining());
    if (!channel->WaitForConnected(std::chrono::time_point_cast<std::chrono::system_clock::duration>(until))) {
      return absl::DeadlineExceededError(absl::StrCat("no daemon answers at the socket ", settings_.socket));
    }
    stub_ = adjoin::RankLink::NewStub(channel);
    stream_ = stub_->Connect(&context_);
    RankMessage hello;
    hello.mutable_hello()->set_job_id(settings_.job_id);
    hello.mutable_hello()->set_rank(settings_.rank);
    hello.mutable_hello()->set_pid(getpid());
    Send(std::move(hello));
    reader_ = std::thread([this] { ReadMessages(); });
    return absl::OkStatus();
  }

  absl::StatusOr<RankStart> WaitForStart(Deadline deadline) override {
    return WaitFor(&Link::start_, "its orders", deadline);
  }
  absl::StatusOr<RankConnect> WaitForConnect(Deadline deadline) override {
    return WaitFor(&Link::connect_, "the other ranks' addresses", deadline);
  }

  void OnAbort(std::function<void(const absl::Status&)> callback) override {
    absl::MutexLock lock(&mutex_);
    on_abort_ = std::move(callback);
    if (on_abort_ && !aborted_.ok()) on_abort_(aborted_);
  }

  void OnDrain(std::function<void()> callback) override {
    absl::MutexLock lock(&mutex_);
    on_drain_ = std::move(callback);
    if (on_drain_ && draining_) on_drain_();
  }

  void OnTrace(std::function<void(const RankTrace&)> callback) override {
    absl::MutexLock lock(&mutex_);
    on_trace_ = std::move(callback);
    if (on_trace_ && trace_.has_value()) on_trace_(*std::exchange(trace_, std::nullopt));
  }

  void SendTransportAddress(const std::string& address) override {
    RankMessage message;
    message.set_transport_address(address);
    Send(std::move(message));
  }
  void SendTransport(const std::string& lanes) override {
    RankMessage message;
    message.set_transport(lanes);
    Send(std::move(message));
  }
  void SendProgress(const JobProgress& progress) override {
    RankMessage message;
    *message.mutable_progress() = progress;
    Send(std::move(message));
  }
  void SendPulse(const RankPulse& pulse) override {
    RankMessage message;
    *message.mutable_pulse() = pulse;
    Send(std::move(message));
  }
  void SendResult(const RankResult& result, Deadline deadline) override {
    RankMessage message;
    *message.mutable_result() = result;
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    Send(std::move(message));
    absl::MutexLock write_lock(&write_mutex_);
    stream_->WritesDone();
    // The daemon ends the stream once it has read everything.
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
  }

 private:
  template <typename T>
  absl::StatusOr<T> WaitFor(std::optional<T> Link::*value, const std::string& what, Deadline deadline) {
    absl::MutexLock lock(&mutex_);
    auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return (this->*value).has_value() || !aborted_.ok(); };
    if (!changed_.Wait(mutex_, deadline, ready)) {
      return absl::DeadlineExceededError(absl::StrCat("waited too long for ", what));
    }
    if (!aborted_.ok()) return aborted_;
    return *(this->*value);
  }

  void Send(RankMessage message) {
    *message.mutable_header() = MakeHeader(settings_.epoch);
    // The daemon refuses an address that is too long, with a reason.
    if (message.kind_case() != RankMessage::kTransportAddress) Fit(&message);
    absl::MutexLock lock(&write_mutex_);
    stream_->Write(message);  // where it fails, the reader notices
  }

  void ReadMessages() {
    DaemonMessage message;
    while (stream_->Read(&message)) {
      TakeMessage(message);
      changed_.NotifyAll();
    }
    grpc::Status status = stream_->Finish();
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
    if (closing_) return;
    std::fprintf(stderr, "the daemon is gone: %s\n", status.error_message().c_str());
    _exit(kExitDaemonLost);  // at once: a rank never outlives its daemon
  }

  void TakeMessage(const DaemonMessage& message) {
    absl::Status protocol = CheckProtocol(message.header(), "the daemon", "this rank process");
    absl::MutexLock lock(&mutex_);
    if (!protocol.ok()) aborted_ = protocol;
    if (message.header().epoch() != settings_.epoch) return;
    if (message.has_start()) start_ = message.start();
    if (message.has_connect()) connect_ = message.connect();
    if (message.has_lease()) lease_.Renew(message.lease().until_boottime_ns());
    if (message.has_drain() && !draining_) {
      draining_ = true;
      if (on_drain_) on_drain_();
    }
    if (message.has_trace()) {
      on_trace_ ? on_trace_(message.trace()) : void(trace_ = message.trace());
    }
    if (!message.has_abort() || !aborted_.ok()) return;
    aborted_ = absl::AbortedError(message.abort().reason());
    if (on_abort_) on_abort_(aborted_);
  }

  const Settings settings_;
  grpc::ClientContext context_;
  std::unique_ptr<adjoin::RankLink::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<RankMessage, DaemonMessage>> stream_;
  absl::Mutex write_mutex_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::optional<RankStart> start_ ABSL_GUARDED_BY(mutex_);
  std::optional<RankConnect> connect_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const absl::Status&)> on_abort_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_drain_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const RankTrace&)> on_trace_ ABSL_GUARDED_BY(mutex_);
  std::optional<RankTrace> trace_ ABSL_GUARDED_BY(mutex_);  // that came before on_trace_
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  LeaseWatch lease_;
  std::thread reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcessLink>> RankProcessLink::Connect(const Settings& settings, Deadline deadline) {
  auto link = std::make_unique<Link>(settings);
  ADJOIN_RETURN_IF_ERROR(link->Open(deadline));
  return link;
}

}  // namespace adjoin
