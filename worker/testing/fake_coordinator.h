// A coordinator for tests of daemons, in the test's own process: it welcomes daemons, acknowledges heartbeats where the
// test wants that, sends the test's messages and remembers all messages that came.
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
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {

class FakeCoordinator final : public WorkerLink::Service {
 public:
  struct Stream {
    WorkerHello hello;
    std::vector<WorkerMessage> messages;  // all others
    std::vector<Heartbeat> heartbeats;
  };

  FakeCoordinator();
  ~FakeCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // How the coordinator answers from now on; the fields of the welcome count for streams that begin later.
  struct Manner {
    bool welcomes = true;
    bool acknowledges = true;       // heartbeats
    bool acknowledges_ends = true;  // attempts without processes
    double heartbeat_seconds = 0.02;
    double acknowledged_seconds = 0;  // between heartbeats, told with each acknowledgement
    double progress_seconds = 0;      // likewise, between reports of progress
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
  // Sends on the latest stream. Returns false where there is none.
  bool Send(const CoordinatorMessage& message) {
    absl::MutexLock lock(&mutex_);
    return stream_ != nullptr && stream_->Write(message);
  }
  // Waits until `holds` of all streams so far. Returns false after 20 s.
  bool Await(const std::function<bool(const std::vector<Stream>&)>& holds);
  std::vector<Stream> Streams() {
    absl::MutexLock lock(&mutex_);
    return streams_;
  }

 private:
  using Calls = grpc::ServerReaderWriter<CoordinatorMessage, WorkerMessage>;

  grpc::Status Connect(grpc::ServerContext* context, Calls* stream) override;
  void Welcome(const Manner& manner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Acknowledge(const std::string& job_id, uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(size_t number, const WorkerMessage& message);

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
