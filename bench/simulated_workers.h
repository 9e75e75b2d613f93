// Worker daemons without processes, many in one program, for bench/control_plane: each has its own connection to the
// coordinator and speaks the whole protocol of proto/coordinator.proto. A job's ranks become ready at once, report a
// step once a second, and run until they are told to stop.
//
//   SimulatedWorkers workers({.coordinator = "127.0.0.1:7411", .first = 0, .count = 250});
//   ... WaitUntilConnected ... wait ...
//   SimulatedWorkers::Times times = workers.TakeTimes();
//
// Any thread.
#ifndef ADJOIN_BENCH_SIMULATED_WORKERS_H_
#define ADJOIN_BENCH_SIMULATED_WORKERS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class SimulatedWorkers {
 public:
  struct Settings {
    std::string coordinator;
    int first = 0;  // the number in the name of the first one
    int count = 1;
    uint32_t slots = 1;
    std::vector<std::string> builders;  // layer kinds
  };
  struct Time {
    absl::Time begin;
    double seconds = 0;
  };
  struct Times {
    std::vector<Time> heartbeat;  // from each heartbeat to its acknowledgement
    std::vector<Time> restart;    // from the end of a job on a worker to the start of the next one there
  };

  // None is connected yet.
  explicit SimulatedWorkers(Settings settings);
  ~SimulatedWorkers();
  SimulatedWorkers(const SimulatedWorkers&) = delete;
  SimulatedWorkers& operator=(const SimulatedWorkers&) = delete;

  // Connects them, some hundred at a time. Errors: kDeadlineExceeded; kCancelled (`stopped` returned true); what ended
  // a stream.
  absl::Status Connect(Deadline deadline, const std::function<bool()>& stopped);
  Times TakeTimes();
  // Streams that ended, for whatever reason; they are not made again.
  int lost();

 private:
  class Worker;
  void Beat();

  const Settings settings_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);  // each stays until the end
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread heart_;
};

}  // namespace adjoin

#endif  // ADJOIN_BENCH_SIMULATED_WORKERS_H_
