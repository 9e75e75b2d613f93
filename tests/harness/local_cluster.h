// A real coordinator and real daemons as child processes of a test, on free ports, in folders of the test's own.
//
//   auto cluster = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/2);
//   ASSERT_TRUE(cluster.ok()) << cluster.status();
//   absl::StatusOr<std::string> job = (*cluster)->Submit(spec_text);
//   absl::StatusOr<JobSummary> end = (*cluster)->WaitFor(*job, Deadline::After(absl::Seconds(60)));
//   EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
//
// Build such a test with cluster_test of cluster_test.bzl, which brings the programs. Everything started is killed and
// reaped with the cluster; where the test has failed, the programs' and the jobs' logs are shown then. One thread, the
// one that called Start, which has to live as long as the cluster.
#ifndef ADJOIN_TESTS_HARNESS_LOCAL_CLUSTER_H_
#define ADJOIN_TESTS_HARNESS_LOCAL_CLUSTER_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "proto/coordinator.grpc.pb.h"
#include "tests/harness/child_process.h"

namespace adjoin {

// What one program of a cluster gets in addition to the others.
struct ProgramOptions {
  std::vector<std::string> flags;
  std::vector<std::string> environment;
  std::vector<std::string> prefix;  // before its command line: {"/usr/sbin/ip", "netns", "exec", "left"}
};

struct LocalClusterOptions {
  std::string rank_binary;         // among the runfiles; empty: //worker:adjoin-rank
  std::string coordinator_binary;  // likewise; empty: //coordinator:adjoin-coordinator
  std::vector<std::string> coordinator_flags;
  std::vector<std::string> worker_flags;
  std::vector<std::string> environment;                   // for all programs: "UCX_TLS=tcp,self"
  ProgramOptions coordinator;                             // for the coordinator only
  std::map<int, ProgramOptions> worker;                   // by daemon
  std::map<int, std::string> data_root;                   // by daemon: an existing folder instead of the cluster's
  std::map<int, std::string> output_root;                 // likewise
  std::string worker_binary;                              // among the runfiles; empty: //worker:adjoin-worker
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // for stub() and all methods that use it; null: plain text
  std::vector<std::string> cli_flags;                     // for Cli(), after its arguments
  std::string listen = "127.0.0.1:0";                     // the coordinator's
  std::map<int, uint64_t> memory_bytes;  // by daemon: for ranks; others offer 1 TiB, so that no machine refuses a job
  std::string coordinator_state;         // an existing folder for its state; empty: in the cluster's own
};

class LocalCluster {
 public:
  // Returns when the daemons, "worker-0" and so on, are connected. Errors: the reason why a program did not start.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(int nodes, int slots_per_node,
                                                             LocalClusterOptions options = {});
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  // Jobs. They may replace the results of earlier ones. Errors: the coordinator's; kDeadlineExceeded.
  absl::StatusOr<std::string> Submit(const std::string& spec_text, const std::string& idempotency_key = "");
  absl::StatusOr<JobSummary> WaitFor(const std::string& job, Deadline deadline);  // a final state
  // The first summary of which `holds` is true. A coordinator that is down is waited for. Errors also:
  // kFailedPrecondition (the job ended before).
  absl::StatusOr<JobSummary> WaitUntil(const std::string& job, const std::function<bool(const JobSummary&)>& holds,
                                       Deadline deadline);
  absl::StatusOr<DescribeJobResponse> Describe(const std::string& job);
  absl::StatusOr<ListJobsResponse> ListJobs();
  // Waits until all slots are free: no process of any job is left.
  absl::Status WaitUntilIdle(Deadline deadline);

  // Processes of a job's ranks, in order; 0 for one that is not ready yet.
  absl::StatusOr<std::vector<pid_t>> RankPids(const std::string& job);
  absl::Status KillRank(const std::string& job, int rank, int signal);
  absl::Status KillWorker(int node);
  absl::Status StartWorker(int node);
  // Sends SIGSTOP, SIGCONT or SIGTERM to a daemon only, not to its ranks.
  void SignalWorker(int node, int signal) { workers_[node]->Signal(signal); }
  // Waits for a daemon that was told to stop. Errors: kDeadlineExceeded; kInternal (an exit code other than 0).
  absl::Status WaitForWorkerEnd(int node, Deadline deadline);
  // StartCoordinator starts a coordinator that was killed again, at the same address and on the same state.
  absl::Status KillCoordinator();
  // Sends SIGTERM to it and waits. Errors: kDeadlineExceeded; kInternal (an exit code other than 0).
  absl::Status StopCoordinator();
  absl::Status StartCoordinator(const std::vector<std::string>& more_flags = {});
  // Waits for a coordinator that ends by itself, and returns its exit code. Errors: kDeadlineExceeded.
  absl::StatusOr<int> WaitForCoordinatorEnd(Deadline deadline) { return coordinator_->Wait(deadline); }
  // Starts it, and returns when all daemons are connected.
  absl::Status RestartCoordinator();
  absl::Status WaitForWorkers(Deadline deadline);

  // The adjoin command.
  struct CliResult {
    int exit_code = -1;
    std::string out, err;
  };
  CliResult Cli(const std::vector<std::string>& arguments);

  Adjoin::Stub& stub() { return *stub_; }
  const std::string& address() const { return address_; }
  std::string coordinator_state() const {
    return options_.coordinator_state.empty() ? folder_ + "/coordinator" : options_.coordinator_state;
  }
  // Below it the data files of examples/mnist are at "mnist/..."; a test may add files.
  const std::string& data_root() const { return data_root_; }
  // The output root of all daemons; a job's results are in its output_dir below it.
  const std::string& output_root() const { return output_root_; }
  // All that the programs of this cluster write is below it, and each of its processes has it on its command line or
  // works in it (leftovers.h).
  const std::string& folder() const { return folder_; }

  // Stops all programs in order. Errors: a program that did not end by itself or not with exit code 0.
  absl::Status Stop();

 private:
  LocalCluster(int nodes, int slots, LocalClusterOptions options);
  absl::Status StartAll();
  absl::StatusOr<std::unique_ptr<ChildProgram>> StartProgram(std::vector<std::string> command,
                                                             const ProgramOptions& options, const std::string& output);
  // Calls until it does not end in kUnavailable.
  absl::Status Insist(const std::function<grpc::Status(grpc::ClientContext&)>& call, Deadline deadline);
  void ShowLogs();

  const int nodes_;
  const int slots_;
  const LocalClusterOptions options_;
  std::string folder_, data_root_, output_root_, address_;
  std::unique_ptr<ChildProgram> coordinator_;
  std::vector<std::unique_ptr<ChildProgram>> workers_;
  std::unique_ptr<Adjoin::Stub> stub_;
  int commands_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_HARNESS_LOCAL_CLUSTER_H_
