// Checks data files in a thread of its own, one request after another, so that slow files hold nothing else up.
//
//   DataChecker checker("/srv/data", "/srv/output", [&](WorkerMessage message) { link.Send(std::move(message)); });
//   checker.Check(probe_data);
//
// Any thread. The destructor tells the request in progress to stop, and forgets the others.
#ifndef ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
#define ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/coordinator.pb.h"
#include "proto/protocol.h"
#include "worker/daemon/model_probe.h"
#include "worker/daemon/probe.h"

namespace adjoin {

class DataChecker {
 public:
  DataChecker(std::string data_root, std::string output_root, std::function<void(WorkerMessage)> send)
      : data_root_(std::move(data_root)), output_root_(std::move(output_root)), send_(std::move(send)), thread_([this] { Loop(); }) {}
  ~DataChecker() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      stop_.store(true);
    }
    thread_.join();
  }
  DataChecker(const DataChecker&) = delete;
  DataChecker& operator=(const DataChecker&) = delete;

  void Check(const ProbeData& request) {
    absl::MutexLock lock(&mutex_);
    requests_.push_back({request, Limits()});
  }

 private:
  struct Request {
    ProbeData data;
    ProbeLimits limits;  // of which the time runs from when it came
  };

  ProbeLimits Limits() const {
    ProbeLimits limits;
    limits.stop = &stop_;
    return limits;
  }

  void Loop() {
    while (true) {
      Request request;
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
      try {
        result = Probe(data_root_, request.data, request.limits);
        if (result.error().empty() && request.data.has_model()) {
          ProbeModel(data_root_, output_root_, request.data.model(), result);
        }
      } catch (const std::exception& thrown) {
        // Of libraries, and for want of memory: no job's files may end the daemon, which has the ranks of others.
        result.Clear();
        result.set_request_id(request.data.request_id());
        result.set_error(absl::StrCat("the data files cannot be checked: ", thrown.what()));
      }
      send_(std::move(message));
    }
  }

  const std::string data_root_;
  const std::string output_root_;
  const std::function<void(WorkerMessage)> send_;
  absl::Mutex mutex_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
