// adjoin run: a job on this machine without daemons that run already.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "cli/color.h"
#include "cli/commands.h"
#include "cli/job_display.h"
#include "cli/launch.h"
#include "cli/own_cluster.h"
#include "cli/rates.h"
#include "cli/text.h"
#include "planner/spec/spec_include.h"
#include "planner/spec/spec_parser.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr absl::Duration kCancel = absl::Seconds(30);  // until a cancelled job has ended
constexpr absl::Duration kRetry = absl::Seconds(5);    // on loopback
constexpr absl::Duration kWorker = absl::Seconds(60);  // until the worker has connected
constexpr absl::Duration kAgain = absl::Milliseconds(20);
constexpr absl::Duration kUnfit = absl::Seconds(30);  // until the worker can run ranks
constexpr absl::Duration kLookAgain = absl::Milliseconds(200);
constexpr uint32_t kMostSlots = 100000;  // as of adjoin-worker --slots
constexpr size_t kLogLines = 20;
constexpr absl::Duration kRefusal = absl::Seconds(2);  // for the other tasks to hear of it

std::atomic<int> interrupt_fd{-1};

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGPIPE make fd() readable instead of ending the process. Handlers,
// because gRPC's threads would take a blocked signal.
class Interrupts {
 public:
  Interrupts() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    interrupt_fd = fd_.get();
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int error = errno;
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(interrupt_fd, &one, sizeof(one));
      errno = error;
    };
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Interrupts() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    interrupt_fd = -1;
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return fd_.get(); }

 private:
  // SIGPIPE: whoever read the progress has gone.
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

  const UniqueFd fd_;
  std::array<struct sigaction, kSignals.size()> before_;
};

// A thread that cancels the job when the user interrupts the command, and ends the client's calls when the job does not
// end then, at the second interrupt, or when a daemon has ended.
class Watch {
 public:
  Watch(int stop_fd, const OwnCluster& cluster, const ClientOptions& options, CoordinatorClient& client)
      : stop_fd_(stop_fd), cluster_(cluster), options_(options), client_(client), over_(eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Watch() {
    const uint64_t one = 1;
    while (write(over_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Returns false where the user has interrupted the command already.
  bool SetJob(const std::string& job) {
    absl::MutexLock lock(&mutex_);
    job_ = job;
    return !interrupted_;
  }
  bool interrupted() const { return interrupted_; }

 private:
  void Run() {
    Deadline deadline = Deadline::After(absl::Hours(24));
    while (true) {
      pollfd fds[] = {{over_.get(), POLLIN, 0},
                      {stop_fd_, POLLIN, 0},
                      {cluster_.coordinator().fd(), POLLIN, 0},
                      {cluster_.worker().fd(), POLLIN, 0}};
      const int ready = poll(fds, 4, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining())));
      if (fds[0].revents != 0) return;
      if (ready > 0 && (fds[2].revents != 0 || fds[3].revents != 0)) return client_.Cancel();
      if (ready > 0 && fds[1].revents != 0) {
        uint64_t count = 0;
        if (read(stop_fd_, &count, sizeof(count)) < 0) continue;
        if (!Interrupt()) return End();
        deadline = Deadline::After(kCancel);
      } else if (deadline.Expired()) {
        if (interrupted_) return End();
        deadline = Deadline::After(absl::Hours(24));
      }
    }
  }

  // Ends the client's calls, also the one that is under way.
  void End() {
    client_.Cancel();
    cluster_.Kill();
  }

  // Returns false where nothing is to be waited for.
  bool Interrupt() {
    std::string job;
    {
      absl::MutexLock lock(&mutex_);
      if (interrupted_.exchange(true) || job_.empty()) return false;
      job = job_;
    }
    std::cerr << "adjoin: cancels " << job << "; interrupt again to end it by force" << std::endl;
    return CoordinatorClient(options_).CancelJob(job).ok();
  }

  const int stop_fd_;
  const OwnCluster& cluster_;
  const ClientOptions options_;
  CoordinatorClient& client_;
  const UniqueFd over_;
  std::atomic<bool> interrupted_{false};
  absl::Mutex mutex_;
  std::string job_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// What the ranks wrote goes with the coordinator's state.
void ShowLastLog(CoordinatorClient& client, const std::string& job) {
  std::deque<std::string> lines;
  LogQuery query;
  query.job = job;
  const absl::Status status = client.ReadLogs(query, [&](const LogLine& line) {
    lines.push_back(absl::StrCat("rank ", line.rank(), ": ", line.text()));
    if (lines.size() > kLogLines) lines.pop_front();
  });
  for (const std::string& line : lines) std::cerr << PrintableText(line) << "\n";
  if (!status.ok()) std::cerr << "adjoin: " << PrintableText(status.message()) << "\n";
}

// Waits until the cluster's worker has connected; nothing where it has not in time, or the user interrupts.
// Errors: as of Alive and the client.
absl::StatusOr<std::optional<WorkerSummary>> ConnectedWorker(const OwnCluster& cluster, CoordinatorClient& client,
                                                             const Watch& watch) {
  const Deadline deadline = Deadline::After(kWorker);
  while (!deadline.Expired() && !watch.interrupted()) {
    ADJOIN_RETURN_IF_ERROR(cluster.Alive());
    ADJOIN_ASSIGN_OR_RETURN(const ListJobsResponse list, client.ListJobs());
    if (list.worker_size() > 0) return std::optional<WorkerSummary>(list.worker(0));
    absl::SleepFor(kAgain);
  }
  return std::optional<WorkerSummary>();
}

// Compares the worker's GPUs with what the job needs: no other worker will come.
// Errors: kFailedPrecondition (they are too few); as of ConnectedWorker.
absl::Status CheckGpus(const OwnCluster& cluster, CoordinatorClient& client, const Watch& watch, const JobSpec& spec) {
  const uint64_t needed = uint64_t{spec.ranks()} * spec.resources().gpus();
  if (needed == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<WorkerSummary> worker, ConnectedWorker(cluster, client, watch));
  if (!worker.has_value() || worker->gpus() >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the job's ", spec.ranks(), " ranks need ", needed,
                                                    " GPUs, resources.gpus of each, and this machine has ",
                                                    worker->gpus(), " that work: -n N takes fewer ranks"));
}

// Waits until the worker can run ranks, as on a disk with space: no other worker will come, so that the job would wait
// for ever. Returns early where the user interrupts.
// Errors: kFailedPrecondition (it still cannot after kUnfit, and why); as of ConnectedWorker.
absl::Status AwaitFitWorker(const OwnCluster& cluster, CoordinatorClient& client, const Watch& watch) {
  Deadline deadline = Deadline::After(kUnfit);
  for (bool told = false; !watch.interrupted(); told = true) {
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<WorkerSummary> worker, ConnectedWorker(cluster, client, watch));
    if (!worker.has_value() || worker->state() != "unfit") return absl::OkStatus();
    const std::string reason = absl::StrCat("this machine can run no ranks: ", PrintableText(worker->condition()));
    if (!told) {
      std::cerr << "adjoin: waits for at most " << absl::FormatDuration(kUnfit) << ": " << reason << std::endl;
      deadline = Deadline::After(kUnfit);
    }
    if (deadline.Expired()) return absl::FailedPreconditionError(reason);
    absl::SleepFor(kLookAgain);
  }
  return absl::OkStatus();
}

// Runs the job on the cluster until it ends. `redraws`: as of JobDisplay.
absl::StatusOr<int> RunOn(const OwnCluster& cluster, const CommandOptions& options, const Submission& submission,
                          int stop_fd, const LoadedSpec& loaded, const std::string& output_root, bool redraws) {
  CoordinatorClient client(options.client);
  Watch watch(stop_fd, cluster, options.client, client);
  if (const absl::Status gpus = CheckGpus(cluster, client, watch, loaded.parsed.spec); !gpus.ok()) {
    if (watch.interrupted()) return kExitCancelled;
    return gpus;
  }
  const absl::StatusOr<SubmitResponse> submitted = client.Submit(submission);
  if (watch.interrupted()) return kExitCancelled;
  ADJOIN_RETURN_IF_ERROR(cluster.Alive());
  if (!submitted.ok()) return AtIncludedFile(submitted.status(), loaded);
  if (!watch.SetJob(submitted->job_id())) return kExitCancelled;
  if (const absl::Status fit = AwaitFitWorker(cluster, client, watch); !fit.ok()) {
    if (watch.interrupted()) return kExitCancelled;
    ADJOIN_RETURN_IF_ERROR(cluster.Alive());
    return fit;
  }
  JobDisplay display(redraws, options.color);
  const absl::StatusOr<JobSummary> end = ShowUntilEnd(options, client, submitted->job_id(), display);
  if (!end.ok()) {
    if (watch.interrupted()) return kExitCancelled;
    ADJOIN_RETURN_IF_ERROR(cluster.Alive());
    return end.status();
  }
  if (end->state() == FAILED) ShowLastLog(client, submitted->job_id());
  const std::string results =
      (std::filesystem::absolute(output_root) / loaded.parsed.spec.output_dir()).lexically_normal();
  if (options.format == Format::kTable) {
    const std::string line = EndLine(*end);
    std::cout << (options.color ? PaintStateAfter(end->job_id(), line) : line) << std::endl;
    if (end->state() == SUCCEEDED) std::cout << "results in " << PrintableText(results) << std::endl;
  }
  return end->state() == SUCCEEDED ? 0 : end->state() == CANCELLED ? kExitCancelled : kExitFailed;
}

// Every run has a store of its own, which knows nothing of earlier ones: what they have left is seen in the folders.
bool HoldsResults(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / kModelFile, ignored) ||
         std::filesystem::exists(folder / kMetricsFile, ignored);
}

// Returns the first of "run-1", "run-2", ... that is not below the output root.
std::string UnusedFolder(const std::filesystem::path& output_root) {
  std::error_code ignored;
  int number = 1;
  while (std::filesystem::exists(output_root / absl::StrCat("run-", number), ignored)) ++number;
  return absl::StrCat("run-", number);
}

// The job, with a folder for its results in which there are none.
absl::StatusOr<LoadedSpec> LoadWithFolder(const RunOptions& run) {
  SpecChanges changes = run.changes;
  if (run.ranks > 0) changes.set.push_back(absl::StrCat("ranks=", run.ranks));
  ADJOIN_ASSIGN_OR_RETURN(LoadedSpec loaded, LoadSpec(run.spec_file, changes));
  const std::string& chosen = loaded.parsed.spec.output_dir();
  if (chosen.empty()) {
    if (run.spec_file == "-") {
      return absl::InvalidArgumentError(
          "a job from standard input needs a folder for its results: --set output_dir=...");
    }
    const std::string unused = UnusedFolder(run.output_root);
    if (IsJsonSpec(loaded.source.text)) {
      changes.set.push_back(absl::StrCat("output_dir=", unused));
      return LoadSpec(run.spec_file, changes);
    }
    // Behind the user's own text, so that messages name the user's own lines.
    absl::StrAppend(&loaded.source.text, "\noutput_dir: \"", unused, "\"\n");
    loaded.parsed.spec.set_output_dir(unused);
    return loaded;
  }
  const std::filesystem::path folder = std::filesystem::path(run.output_root) / chosen;
  if (!run.replace && HoldsResults(folder)) {
    return absl::AlreadyExistsError(
        absl::StrCat(PrintableText(folder.lexically_normal().string()),
                     " has the results of an earlier job: --replace replaces them, or choose"
                     " another folder with --set output_dir=..."));
  }
  return loaded;
}

// What no other worker will come for.
absl::Status CheckOneNode(const Resources& resources, uint32_t ranks) {
  if (!resources.node_label().empty()) {
    return absl::InvalidArgumentError(
        "resources.node_label: the worker of `adjoin run` has no labels; leave them out with"
        " --unset resources.node_label");
  }
  if (resources.max_ranks_per_node() > 0 && resources.max_ranks_per_node() < ranks) {
    return absl::InvalidArgumentError(absl::StrCat("resources.max_ranks_per_node is ", resources.max_ranks_per_node(),
                                                   ", but `adjoin run` has one node for all ", ranks, " ranks"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunHere(CommandOptions options, const RunOptions& run, const LayerRules& rules, bool redraws) {
  ADJOIN_ASSIGN_OR_RETURN(LoadedSpec loaded, LoadWithFolder(run));
  ADJOIN_RETURN_IF_ERROR(ChooseLayoutsBy(run.rates, options.client, run.layouts, run.data_root, rules, &loaded));
  Submission submission;
  submission.spec_source = loaded.source.text;
  submission.spec_file = PrintableText(loaded.source.name, kMaxPathBytes);
  Interrupts interrupts;
  OwnClusterOptions own;
  own.slots = std::clamp<uint32_t>(loaded.parsed.spec.ranks(), 1, kMostSlots);
  own.data_root = run.data_root;
  own.output_root = run.output_root;
  const Resources& resources = loaded.parsed.spec.resources();
  own.gpus = resources.gpus() > 0;
  ADJOIN_RETURN_IF_ERROR(CheckOneNode(resources, own.slots));
  const absl::StatusOr<std::unique_ptr<OwnCluster>> cluster = OwnCluster::Start(own, interrupts.fd());
  if (absl::IsCancelled(cluster.status())) return kExitCancelled;
  ADJOIN_RETURN_IF_ERROR(cluster.status());
  options.client.address = (*cluster)->address();
  options.client.retry = kRetry;
  options.client.credentials = grpc::InsecureChannelCredentials();
  options.client.check_server = nullptr;
  absl::StatusOr<int> code = RunOn(**cluster, options, submission, interrupts.fd(), loaded, run.output_root, redraws);
  (*cluster)->Stop();
  return code;
}

}  // namespace

absl::StatusOr<int> RunRun(CommandOptions options, const RunOptions& run, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const Launch launch, LaunchOf([](const char* name) { return getenv(name); }));
  const bool fits = launch.tasks == 1 || run.ranks == 0 || run.ranks == launch.tasks;
  if (launch.task > 0) {
    // What does not fit is told by the first task, which does not stay for it.
    return fits ? WaitForFirstTask(launch) : WaitForFirstTask(launch, 2 * kRefusal).value_or(1);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FirstTask> first, FirstTask::Start(launch));
  // Open MPI gives its tasks a terminal of its own, whatever their output goes to.
  const bool redraws = launch.variable.empty();
  if (first == nullptr) {
    LeaveLauncher(launch);
    return RunHere(std::move(options), run, rules, redraws);
  }
  if (!fits) {
    first->Finish(1, kRefusal);
    return absl::InvalidArgumentError(
        absl::StrCat("-n ", run.ranks, ", but ", launch.tasks,
                     " tasks were started, and each stands for a rank: leave -n out, or unset ", launch.variable,
                     " where `adjoin run` is started once, from a shell that the launcher has started"));
  }
  RunOptions of_tasks = run;
  of_tasks.ranks = launch.tasks;
  LeaveLauncher(launch);
  const absl::StatusOr<int> code = RunHere(std::move(options), of_tasks, rules, redraws);
  first->Finish(code.value_or(1));
  return code;
}

}  // namespace adjoin
