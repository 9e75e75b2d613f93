// Checks data files in a thread of its own, one request after another, so that slow files hold nothing else up.
//
//   DataChecker checker("/srv/data", "/srv/output", [&](WorkerMessage message) { link.Send(std::move(message)); });
//   checker.Check(probe_data);
//
// Any thread. The destructor waits for the request in progress (reading large files takes long) and forgets the others.
#ifndef ADJOIN_WORKER_DATA_CHECKER_H_
#define ADJOIN_WORKER_DATA_CHECKER_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/coordinator.pb.h"
#include "proto/protocol.h"
#include "worker/model_probe.h"
#include "worker/probe.h"

namespace adjoin {

class DataChecker {
 public:
  DataChecker(std::string data_root, std::string output_root, std::function<void(WorkerMessage)> send)
      : data_root_(std::move(data_root)), output_root_(std::move(output_root)), send_(std::move(send)), thread_([this] { Loop(); }) {}
  ~DataChecker() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }
  DataChecker(const DataChecker&) = delete;
  DataChecker& operator=(const DataChecker&) = delete;

  void Check(const ProbeData& request) {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
  }

 private:
  void Loop() {
    while (true) {
      ProbeData request;
      {
        absl::MutexLock lock(&mutex_);
        auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !requests_.empty(); };
        mutex_.Await(absl::Condition(&ready));
        if (stopping_) return;
        request = std::move(requests_.front());
        requests_.pop_front();
      }
      WorkerMessage message;
      *message.mutable_header() = MakeHeader();
      ProbeResult& result = *message.mutable_probe_result();
      result = Probe(data_root_, request);
      if (result.error().empty() && request.has_model()) {
        ProbeModel(data_root_, output_root_, request.model(), result);
      }
      send_(std::move(message));
    }
  }

  const std::string data_root_;
  const std::string output_root_;
  const std::function<void(WorkerMessage)> send_;
  absl::Mutex mutex_;
  std::deque<ProbeData> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_CHECKER_H_
