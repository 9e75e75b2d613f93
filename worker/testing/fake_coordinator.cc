#include "worker/testing/fake_coordinator.h"

#include "base/deadline.h"
#include "proto/protocol.h"

namespace adjoin {

FakeCoordinator::FakeCoordinator() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

bool FakeCoordinator::Await(const std::function<bool(const std::vector<Stream>&)>& holds) {
  absl::MutexLock lock(&mutex_);
  return changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)),
                       [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return holds(streams_); });
}

grpc::Status FakeCoordinator::Connect(grpc::ServerContext* context, Calls* stream) {
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

void FakeCoordinator::Welcome(const Manner& manner) {
  CoordinatorMessage answer;
  *answer.mutable_header() = MakeHeader();
  answer.mutable_welcome()->set_heartbeat_seconds(manner.heartbeat_seconds);
  answer.mutable_welcome()->set_lease_seconds(manner.lease_seconds);
  stream_->Write(answer);
}

void FakeCoordinator::Acknowledge(const std::string& job_id, uint64_t epoch) {
  CoordinatorMessage answer;
  *answer.mutable_header() = MakeHeader(epoch);
  answer.mutable_attempt_ack()->set_job_id(job_id);
  stream_->Write(answer);
}

void FakeCoordinator::Take(size_t number, const WorkerMessage& message) {
  {
    absl::MutexLock lock(&mutex_);
    if (message.has_heartbeat()) {
      streams_[number].heartbeats.push_back(message.heartbeat());
    } else {
      streams_[number].messages.push_back(message);
    }
    // A stream that another one has replaced gets no answers.
    const bool current = stream_ != nullptr && number + 1 == streams_.size();
    if (current && message.has_heartbeat() && manner_.acknowledges) {
      CoordinatorMessage answer;
      *answer.mutable_header() = MakeHeader();
      answer.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
      answer.mutable_heartbeat_ack()->set_heartbeat_seconds(manner_.acknowledged_seconds);
      answer.mutable_heartbeat_ack()->set_progress_seconds(manner_.progress_seconds);
      stream_->Write(answer);
    }
    if (current && message.has_attempt_cleared() && manner_.acknowledges_ends) {
      Acknowledge(message.attempt_cleared().job_id(), message.header().epoch());
    }
  }
  changed_.NotifyAll();
}

}  // namespace adjoin
