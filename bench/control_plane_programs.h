// The programs that bench/control_plane measures, a coordinator and simulated workers, and what users ask of them.
//
//   ControlPlane plane({.coordinator_binary = "bazel-bin/coordinator/adjoin-coordinator", .workers = 1000}, stop);
//   ADJOIN_RETURN_IF_ERROR(plane.Start());
//   ADJOIN_RETURN_IF_ERROR(plane.StartWorkers());    // this program again, where main calls SimulateWorkers
//   double seconds = 0;
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<double> times, plane.Submit(/*count=*/10000, &seconds));
//   const ControlPlane::WorkersSaw saw = plane.StopWorkers();
#ifndef ADJOIN_BENCH_CONTROL_PLANE_PROGRAMS_H_
#define ADJOIN_BENCH_CONTROL_PLANE_PROGRAMS_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/stop_signal.h"
#include "proto/coordinator.grpc.pb.h"
#include "tests/harness/child_process.h"

namespace adjoin {

// NewStub and List: any thread. All others: one thread.
class ControlPlane {
 public:
  struct Options {
    std::string coordinator_binary;
    std::string folder = "/tmp";  // where a folder for the programs is made
    int workers = 1;              // with one slot each
    int processes = 1;            // that the workers are in
    int users = 1;                // who submit at once
    bool synthetic = false;       // jobs read no files
  };
  // `stop` outlives it. All methods that take long return kCancelled soon after a signal.
  ControlPlane(Options options, const StopSignal& stop);
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Starts the coordinator. Errors: kUnavailable.
  absl::Status Start();
  // Starts the workers, and waits until they are connected. Errors: kUnavailable.
  absl::Status StartWorkers();
  // Errors: kCancelled (a signal came first).
  absl::Status Pause(double seconds) const;

  std::unique_ptr<Adjoin::Stub> NewStub() const;
  // Submits `count` jobs by many users at once. Returns the seconds of single submissions; `seconds`: of all together.
  absl::StatusOr<std::vector<double>> Submit(int count, double* seconds);
  // All pages, as `adjoin ps --all` reads them.
  absl::StatusOr<ListJobsResponse> List() const;
  // Cancels jobs that run, one after the other; the workers measure how soon the next ones start.
  absl::Status CancelRunning(int count);

  // What the workers saw, of one kind.
  struct Seen {
    std::vector<std::pair<absl::Time, double>> time;  // when it began, and its seconds
    std::vector<double> Between(absl::Time begin, absl::Time end) const;
  };
  struct WorkersSaw {
    Seen heartbeat, restart;
    int lost = 0;
  };
  WorkersSaw StopWorkers();

  pid_t coordinator() const { return coordinator_->pid(); }
  int page_port() const { return page_port_; }

 private:
  const Options options_;
  const StopSignal& stop_;
  std::atomic<int> submitted_{0};
  std::string folder_, address_;
  int page_port_ = 0;
  std::unique_ptr<ChildProgram> coordinator_;
  std::vector<std::unique_ptr<ChildProgram>> programs_;
};

// The main function of the processes that StartWorkers starts, with --simulate COORDINATOR --first FIRST --workers
// COUNT. Connects the workers and, when this process is stopped, prints what StopWorkers reads. Returns the exit code,
// or ends the process.
int SimulateWorkers(const std::string& coordinator, int first, int count, StopSignal& stop);

}  // namespace adjoin

#endif  // ADJOIN_BENCH_CONTROL_PLANE_PROGRAMS_H_
