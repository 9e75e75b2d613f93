// A coordinator for tests of daemons, in the test's own process: it says welcome, acknowledges heartbeats if it is to, sends what
// the test says and remembers what it heard.
//
//   FakeCoordinator coordinator;
//   ... a daemon with --coordinator coordinator.address() ...
//   EXPECT_TRUE(coordinator.Await([](const auto& streams) { return streams.back().heartbeats.size() > 3; }));
//
// Any thread.
#ifndef ADJOIN_WORKER_TESTING_FAKE_COORDINATOR_H_
#define ADJOIN_WORKER_TESTING_FAKE_COORDINATOR_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/protocol.h"

namespace adjoin {

class FakeCoordinator final : public WorkerLink::Service {
 public:
  struct Stream {
    WorkerHello hello;
    std::vector<WorkerMessage> messages;  // after the hello, but heartbeats
    std::vector<Heartbeat> heartbeats;
  };

  FakeCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // How it answers from now on; what is sent at a stream's begin, streams from now on.
  struct Manner {
    bool welcomes = true;
    bool acknowledges = true;       // heartbeats
    bool acknowledges_ends = true;  // attempts without processes
    double heartbeat_seconds = 0.02;
    double lease_seconds = 50;
    grpc::Status refusal;
  };
  void SetManner(const Manner& manner) {
    absl::MutexLock lock(&mutex_);
    manner_ = manner;
  }
  void DropStream() {
    absl::MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  // On the stream that there is. False: there is none.
  bool Send(const CoordinatorMessage& message) {
    absl::MutexLock lock(&mutex_);
    return stream_ != nullptr && stream_->Write(message);
  }
  // Until `holds`, of all streams so far; false after 20 s.
  bool Await(const std::function<bool(const std::vector<Stream>&)>& holds) {
    absl::MutexLock lock(&mutex_);
    return changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return holds(streams_); });
  }
  std::vector<Stream> Streams() {
    absl::MutexLock lock(&mutex_);
    return streams_;
  }

 private:
  using Calls = grpc::ServerReaderWriter<CoordinatorMessage, WorkerMessage>;

  grpc::Status Connect(grpc::ServerContext* context, Calls* stream) override {
    WorkerMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    Manner manner;
    size_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      manner = manner_;
      number = streams_.size();
      streams_.emplace_back();
      streams_.back().hello = message.hello();
      if (manner.refusal.ok()) {
        context_ = context;
        stream_ = stream;
        if (manner.welcomes) Welcome(manner);
        for (const AttemptReport& report : message.hello().attempt()) {
          if (report.cleared() && manner.acknowledges_ends) Acknowledge(report.job_id(), report.epoch());
        }
      }
    }
    changed_.NotifyAll();
    if (!manner.refusal.ok()) return manner.refusal;
    while (stream->Read(&message)) Take(number, message);
    absl::MutexLock lock(&mutex_);
    if (context_ == context) {
      context_ = nullptr;
      stream_ = nullptr;
    }
    return grpc::Status::OK;
  }

  void Welcome(const Manner& manner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    CoordinatorMessage answer;
    *answer.mutable_header() = MakeHeader();
    answer.mutable_welcome()->set_heartbeat_seconds(manner.heartbeat_seconds);
    answer.mutable_welcome()->set_lease_seconds(manner.lease_seconds);
    stream_->Write(answer);
  }

  void Acknowledge(const std::string& job_id, uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    CoordinatorMessage answer;
    *answer.mutable_header() = MakeHeader(epoch);
    answer.mutable_attempt_ack()->set_job_id(job_id);
    stream_->Write(answer);
  }

  void Take(size_t number, const WorkerMessage& message) {
    {
      absl::MutexLock lock(&mutex_);
      if (message.has_heartbeat()) {
        streams_[number].heartbeats.push_back(message.heartbeat());
      } else {
        streams_[number].messages.push_back(message);
      }
      // Of a stream that another one has replaced, nobody is told anything.
      const bool current = stream_ != nullptr && number + 1 == streams_.size();
      if (current && message.has_heartbeat() && manner_.acknowledges) {
        CoordinatorMessage answer;
        *answer.mutable_header() = MakeHeader();
        answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
        stream_->Write(answer);
      }
      if (current && message.has_attempt_cleared() && manner_.acknowledges_ends) {
        Acknowledge(message.attempt_cleared().job_id(), message.header().epoch());
      }
    }
    changed_.NotifyAll();
  }

  int port_ = 0;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  Manner manner_ ABSL_GUARDED_BY(mutex_);
  std::vector<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Calls* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TESTING_FAKE_COORDINATOR_H_
