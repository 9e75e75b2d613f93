// Checks a job's data files on a thread of its own, one request after another, so that slow files hold nothing else up.
//
//   DataChecker checker("/srv/data", "/srv/output", [&](WorkerMessage message) { link.Send(std::move(message)); });
//   checker.Check(probe_data);
//
// Any thread. The destructor stops the request in progress and forgets the others.
#ifndef ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
#define ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/probe.h"

namespace adjoin {

class DataChecker {
 public:
  // `send` is called on the checker's thread.
  DataChecker(std::string data_root, std::string output_root, std::function<void(WorkerMessage)> send);
  ~DataChecker();
  DataChecker(const DataChecker&) = delete;
  DataChecker& operator=(const DataChecker&) = delete;

  // Returns at once; the answer is sent later. The time that the request may take counts from now.
  void Check(const ProbeData& request);

 private:
  struct Request {
    ProbeData data;
    ProbeLimits limits;
  };

  void Loop();
  WorkerMessage Answer(const Request& request) const;

  const std::string data_root_;
  const std::string output_root_;
  const std::function<void(WorkerMessage)> send_;
  absl::Mutex mutex_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DATA_CHECKER_H_
