// The control plane under load: simulated workers with the real protocol, and a long queue. Prints a table.
//
//   bazel build //bench:control_plane && bazel-bin/bench/control_plane --workers 1000 --jobs 10000
//
// A coordinator is started on a folder of its own. Every worker has one slot; the first jobs take all of them and never
// end, the others wait. For some seconds nobody asks for anything; then users list the jobs again and again, and follow
// some, while others submit. Then running jobs are cancelled one by one, and each makes room for the next. At the end
// all of this happens once more while browsers have the page open.
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "base/stop_signal.h"
#include "bench/decision_time.h"
#include "bench/job_watchers.h"
#include "bench/open_pages.h"
#include "bench/simulated_workers.h"
#include "layers/builtin/builtin_rules.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"
#include "tests/harness/child_process.h"
#include "tests/page/page_client.h"

namespace adjoin {
namespace {

struct Flags {
  int workers = 1000;
  int jobs = 10000;
  int processes = 4;
  int users = 16;
  int decisions = 200;
  int followers = 50;
  int listers = 2;
  int pages = 50;
  double seconds = 5;
  std::string coordinator_binary;
  std::string folder = "/tmp";
  bool synthetic = false;
  bool only_decisions = false;
  // Flags of the programs that this one starts.
  std::string simulate;
  int first = 0;
};

constexpr char kSpec[] = R"(name: "queued" kind: TRAIN ranks: 1 seed: 1
  layer { name: "flat" input: "image" flatten { arg: 1 } }
  layer { name: "fc" linear { out_features: 10 } }
  loss { kind: "cross_entropy" input: "fc" target: "label" }
  dataset { name: "train"
    field { name: "image" idx { path: "images.idx.gz" } shape: [1, 28, 28] }
    field { name: "label" idx { path: "labels.idx.gz" } dtype: "int64" } }
  train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

constexpr char kSyntheticSpec[] = R"(name: "queued" kind: TRAIN ranks: 1 seed: 1
  layer { name: "flat" input: "image" flatten { arg: 1 } }
  layer { name: "fc" linear { out_features: 10 } }
  loss { kind: "cross_entropy" input: "fc" target: "label" }
  dataset { name: "train"
    field { name: "image" synthetic { kind: "normal" samples: 100 } shape: [1, 28, 28] }
    field { name: "label" synthetic { kind: "index" high: 10 samples: 100 } dtype: "int64" } }
  train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

void PrintTimes(const std::string& what, const std::vector<double>& seconds) {
  std::cout << absl::StrFormat("| %-58s | %6d | %9.3f | %9.3f | %9.3f |\n", what, seconds.size(),
                               1e3 * Quantile(seconds, 0.5), 1e3 * Quantile(seconds, 0.99), 1e3 * Quantile(seconds, 1));
}

// "VmRSS" or "VmHWM", in MiB.
double Memory(pid_t pid, const std::string& field) {
  std::istringstream status(ReadFile(absl::StrCat("/proc/", pid, "/status")));
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, field)) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

std::unique_ptr<Adjoin::Stub> NewStub(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  return Adjoin::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

absl::Status Stopped() { return absl::CancelledError("stopped by a signal"); }

// Errors: kCancelled (a signal came first).
absl::Status Pause(const StopSignal& stop, double seconds) {
  for (const absl::Time end = absl::Now() + absl::Seconds(seconds); absl::Now() < end;) {
    if (stop.Came()) return Stopped();
    absl::SleepFor(std::min(absl::Milliseconds(50), end - absl::Now()));
  }
  return absl::OkStatus();
}

// Connects `workers` daemons and, when this program is stopped, prints the times that they saw.
int Simulate(const Flags& flags, StopSignal& stop) {
  SimulatedWorkers workers({.coordinator = flags.simulate,
                            .first = flags.first,
                            .count = flags.workers,
                            .slots = 1,
                            .builders = BuiltinLayerRules().Kinds()});
  const absl::Status connected = workers.Connect(Deadline::After(absl::Seconds(120)), [&] { return stop.Came(); });
  if (stop.Came()) _exit(1);  // as below
  if (!connected.ok()) {
    std::cerr << connected << std::endl;
    return 1;
  }
  std::cout << "connected" << std::endl;
  stop.Wait();
  const int lost = workers.lost();
  const SimulatedWorkers::Times times = workers.TakeTimes();
  const auto print = [](const char* what, const SimulatedWorkers::Time& time) {
    std::cout << what << " " << absl::StrFormat("%.6f", absl::ToUnixMicros(time.begin) * 1e-6) << " " << time.seconds
              << "\n";
  };
  for (const SimulatedWorkers::Time& time : times.heartbeat) print("heartbeat", time);
  for (const SimulatedWorkers::Time& time : times.restart) print("restart", time);
  std::cout << "lost " << lost << std::endl;
  _exit(0);  // a thousand streams need not be taken down one by one
}

class ControlPlane {
 public:
  // `stop` outlives it. All methods that take long return kCancelled soon after a signal.
  ControlPlane(const Flags& flags, const StopSignal& stop) : flags_(flags), stop_(stop) {}
  ~ControlPlane() {
    programs_.clear();
    coordinator_.reset();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  absl::Status Start() {
    folder_ = flags_.folder + "/control-plane-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) return absl::UnavailableError(absl::StrCat(folder_, " cannot be made"));
    ADJOIN_ASSIGN_OR_RETURN(
        coordinator_, ChildProgram::Start(
                          {flags_.coordinator_binary, "--listen", "127.0.0.1:0", "--port-file", folder_ + "/address",
                           "--state-dir", folder_ + "/state", "--keep-jobs", "1000000", "--page-listen", "127.0.0.1:0"},
                          {}, folder_ + "/coordinator"));
    const Deadline deadline = Deadline::After(absl::Seconds(30));
    while (address_.empty()) {
      address_ = ReadFile(folder_ + "/address");
      if (stop_.Came()) return Stopped();
      if (deadline.Expired() || coordinator_->Wait(Deadline::After(absl::Milliseconds(10))).ok()) {
        return absl::UnavailableError(absl::StrCat("no coordinator: ", coordinator_->Errors()));
      }
    }
    address_.pop_back();
    while ((page_port_ = PagePortIn(coordinator_->Errors())) == 0) {
      if (stop_.Came()) return Stopped();
      if (deadline.Expired()) return absl::UnavailableError(absl::StrCat("no page: ", coordinator_->Errors()));
      absl::SleepFor(absl::Milliseconds(10));
    }
    return absl::OkStatus();
  }

  absl::Status StartWorkers() {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    int first = 0;
    for (int p = 0; p < flags_.processes; ++p) {
      const int count = (flags_.workers - first) / (flags_.processes - p);
      ADJOIN_ASSIGN_OR_RETURN(auto program, ChildProgram::Start({self, "--simulate", address_, "--workers",
                                                                 absl::StrCat(count), "--first", absl::StrCat(first)},
                                                                {}, absl::StrCat(folder_, "/workers-", p)));
      programs_.push_back(std::move(program));
      first += count;
    }
    for (auto& program : programs_) {
      for (Deadline deadline = Deadline::After(absl::Seconds(120)); program->Output().empty();) {
        if (stop_.Came()) return Stopped();
        if (deadline.Expired() || program->Wait(Deadline::After(absl::Milliseconds(20))).ok()) {
          return absl::UnavailableError(absl::StrCat("the simulated workers do not connect: ", program->Errors()));
        }
      }
    }
    return absl::OkStatus();
  }

  // `count` jobs by many users at once. The times of single submissions.
  absl::StatusOr<std::vector<double>> Submit(int count, double* seconds) {
    std::atomic<int> left{count};
    std::vector<std::vector<double>> times(flags_.users);
    std::vector<absl::Status> failed(flags_.users);
    std::vector<std::thread> users;
    const absl::Time begin = absl::Now();
    for (int user = 0; user < flags_.users; ++user) {
      users.emplace_back([&, user] {
        std::unique_ptr<Adjoin::Stub> stub = NewStub(address_);
        while (failed[user].ok() && left.fetch_sub(1) > 0) {
          if (stop_.Came()) {
            failed[user] = Stopped();
            break;
          }
          const absl::Time start = absl::Now();
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
          SubmitRequest request;
          *request.mutable_header() = MakeHeader();
          request.set_spec_source(
              flags_.synthetic ? absl::StrCat(kSyntheticSpec, "output_dir: \"out/", ++submitted_, "\"") : kSpec);
          SubmitResponse response;
          failed[user] = FromGrpc(stub->Submit(&context, request, &response));
          times[user].push_back(absl::ToDoubleSeconds(absl::Now() - start));
        }
      });
    }
    for (std::thread& user : users) user.join();
    *seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    std::vector<double> all;
    for (int user = 0; user < flags_.users; ++user) {
      ADJOIN_RETURN_IF_ERROR(failed[user]);
      all.insert(all.end(), times[user].begin(), times[user].end());
    }
    return all;
  }

  // All pages, as `adjoin ps --all` reads them.
  absl::StatusOr<ListJobsResponse> List() {
    ListJobsRequest request;
    *request.mutable_header() = MakeHeader();
    ListJobsResponse all;
    std::unique_ptr<Adjoin::Stub> stub = NewStub(address_);
    do {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      ListJobsResponse page;
      ADJOIN_RETURN_IF_ERROR(FromGrpc(stub->ListJobs(&context, request, &page)));
      request.set_page_token(page.next_page_token());
      all.MergeFrom(page);
    } while (!request.page_token().empty());
    return all;
  }

  // Cancels jobs that run, one after the other; the workers measure how soon the next ones start.
  absl::Status CancelRunning(int count) {
    ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, List());
    std::unique_ptr<Adjoin::Stub> stub = NewStub(address_);
    for (const JobSummary& job : list.job()) {
      if (job.state() != RUNNING) continue;
      if (count-- == 0) break;
      if (stop_.Came()) return Stopped();
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      CancelJobRequest request;
      *request.mutable_header() = MakeHeader();
      request.set_job_id(job.job_id());
      CancelJobResponse response;
      ADJOIN_RETURN_IF_ERROR(FromGrpc(stub->CancelJob(&context, request, &response)));
    }
    return absl::OkStatus();
  }

  // What the workers saw, of one kind: "heartbeat" or "restart".
  struct Seen {
    std::vector<std::pair<absl::Time, double>> time;  // when it began, and its seconds
    std::vector<double> Between(absl::Time begin, absl::Time end) const {
      std::vector<double> seconds;
      for (const auto& [at, value] : time) {
        if (at >= begin && at < end) seconds.push_back(value);
      }
      return seconds;
    }
  };
  struct WorkersSaw {
    Seen heartbeat, restart;
    int lost = 0;
  };
  WorkersSaw StopWorkers() {
    WorkersSaw saw;
    for (auto& program : programs_) program->Stop(Deadline::After(absl::Seconds(30))).IgnoreError();
    for (auto& program : programs_) {
      std::istringstream output(program->Output());
      std::string word;
      while (output >> word) {
        double at = 0, seconds = 0;
        if (word == "lost" && output >> seconds) saw.lost += static_cast<int>(seconds);
        if (word != "heartbeat" && word != "restart") continue;
        output >> at >> seconds;
        (word == "restart" ? saw.restart : saw.heartbeat)
            .time.emplace_back(absl::UnixEpoch() + absl::Seconds(at), seconds);
      }
    }
    return saw;
  }

  pid_t coordinator() const { return coordinator_->pid(); }
  const std::string& address() const { return address_; }
  int page_port() const { return page_port_; }

 private:
  const Flags flags_;
  const StopSignal& stop_;
  std::atomic<int> submitted_{0};
  std::string folder_, address_;
  int page_port_ = 0;
  std::unique_ptr<ChildProgram> coordinator_;
  std::vector<std::unique_ptr<ChildProgram>> programs_;
};

void PrintDecisions(const Flags& flags) {
  const DecisionTimes decisions = MeasureDecisions(flags.workers, flags.jobs, flags.decisions);
  PrintTimes("deciding on a submission that waits (no network, no disk)", decisions.submit);
  PrintTimes("deciding on one that starts, workers are free (likewise)", decisions.start);
  PrintTimes("deciding on one behind a job that waits for more of them", decisions.behind);
  PrintTimes("deciding which job starts next (likewise)", decisions.next_job);
  PrintTimes("deciding on a heartbeat (likewise)", decisions.heartbeat);
  PrintTimes("deciding whether deadlines have passed (likewise)", decisions.tick);
}

// What was measured beside some who watch. First they only do that, then users submit, then jobs are cancelled.
struct Beside {
  absl::Time begin = absl::Now(), submitting, cancelling, end;
  std::vector<double> submits;
  double seconds = 0;  // of all submissions together
};

// `submitted` is called between the submissions and the cancellations. Errors: kCancelled (a signal came first).
absl::Status MeasureBeside(ControlPlane& plane, const Flags& flags, const StopSignal& stop,
                           const std::function<void()>& submitted, Beside& beside) {
  ADJOIN_RETURN_IF_ERROR(Pause(stop, flags.seconds));
  beside.submitting = absl::Now();
  ADJOIN_ASSIGN_OR_RETURN(beside.submits, plane.Submit(flags.jobs / 10, &beside.seconds));
  submitted();
  beside.cancelling = absl::Now();
  ADJOIN_RETURN_IF_ERROR(plane.CancelRunning(flags.decisions));
  ADJOIN_RETURN_IF_ERROR(Pause(stop, 2));  // for the last of them to start
  beside.end = absl::Now();
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags, const StopSignal& stop) {
  std::cout << flags.workers << " workers in " << flags.processes << " processes, " << flags.jobs
            << " jobs in the queue, " << flags.users << " users\n\n";
  ControlPlane plane(flags, stop);
  ADJOIN_RETURN_IF_ERROR(plane.Start());
  const double empty = Memory(plane.coordinator(), "VmRSS:");
  ADJOIN_RETURN_IF_ERROR(plane.StartWorkers());
  const double connected = Memory(plane.coordinator(), "VmRSS:");
  double seconds = 0;
  ADJOIN_RETURN_IF_ERROR(plane.Submit(flags.workers, &seconds).status());
  const absl::Time submitting = absl::Now();
  ADJOIN_ASSIGN_OR_RETURN(std::vector<double> submits, plane.Submit(flags.jobs, &seconds));
  const double queued = Memory(plane.coordinator(), "VmRSS:");
  const absl::Time quiet = absl::Now();
  ADJOIN_RETURN_IF_ERROR(Pause(stop, flags.seconds));
  const absl::Time listing = absl::Now();
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, plane.List());
  const double list_seconds = absl::ToDoubleSeconds(absl::Now() - listing);
  int running = 0, waiting = 0;
  for (const JobSummary& job : list.job()) {
    running += job.state() == RUNNING ? 1 : 0;
    waiting += job.state() == PENDING ? 1 : 0;
  }
  Beside watched;
  std::vector<std::string> jobs;
  for (const JobSummary& job : list.job()) jobs.push_back(job.job_id());
  JobWatchers watchers(
      {[&] { return NewStub(plane.address()); }, [&] { return plane.List().status(); }, flags.listers, flags.followers},
      jobs);
  const auto stop_watching = [&watchers] { watchers.Stop(); };  // the cancellations are measured alone
  ADJOIN_RETURN_IF_ERROR(MeasureBeside(plane, flags, stop, stop_watching, watched));

  // Once more with pages: first one page alone, then all of them.
  std::vector<std::string> shown;
  ADJOIN_ASSIGN_OR_RETURN(list, plane.List());
  for (const JobSummary& job : list.job()) {
    if (job.state() == RUNNING) shown.push_back(job.job_id());
  }
  if (shown.empty()) return absl::InternalError("no job runs");
  std::vector<double> opened_alone;
  {
    OpenPages one({plane.page_port(), 1, shown});
    ADJOIN_RETURN_IF_ERROR(Pause(stop, 1));
    one.Stop();
    opened_alone = one.TakeTimes().opened;
  }
  Beside seen;
  OpenPages pages({plane.page_port(), flags.pages, shown});
  std::cerr << "pages are open at http://127.0.0.1:" << plane.page_port() << "/ for " << flags.seconds << " s\n";
  const auto stay_open = [] {};
  ADJOIN_RETURN_IF_ERROR(MeasureBeside(plane, flags, stop, stay_open, seen));
  pages.Stop();
  const OpenPages::Times times = pages.TakeTimes();
  const double most = Memory(plane.coordinator(), "VmHWM:");
  const ControlPlane::WorkersSaw saw = plane.StopWorkers();

  std::cout << absl::StrFormat("jobs submitted: %.0f a second over %.1f s; %d run, %d wait; connections lost: %d\n",
                               flags.jobs / seconds, seconds, running, waiting, saw.lost);
  std::cout << absl::StrFormat(
      "beside %d who list and %d who follow: %.0f a second; %d updates came, %d listings failed\n", flags.listers,
      flags.followers, flags.jobs / 10 / watched.seconds, watchers.updates(), watchers.failed());
  std::cout << absl::StrFormat("beside %d open pages: %.0f a second; %d views came, %d requests failed %s\n",
                               flags.pages, flags.jobs / 10 / seen.seconds,
                               times.opened.size() + times.refreshed.size(), times.failed, times.failure);
  std::cout << absl::StrFormat(
      "memory of the coordinator, MiB: %.0f empty, %.0f with workers, %.0f with the queue, %.0f at most\n\n", empty,
      connected, queued, most);
  std::cout << "| ms | count | median | 99% | most |\n|---|--:|--:|--:|--:|\n";
  PrintTimes("submit, until it is acknowledged", submits);
  PrintTimes("the same beside those who list and follow", watched.submits);
  PrintTimes("the same beside open pages", seen.submits);
  PrintTimes("heartbeat, until it is acknowledged: nobody asks", saw.heartbeat.Between(quiet, listing));
  PrintTimes("the same while users submit", saw.heartbeat.Between(submitting, quiet));
  PrintTimes("the same while others list and follow", saw.heartbeat.Between(watched.begin, watched.submitting));
  PrintTimes("the same while users submit, list and follow",
             saw.heartbeat.Between(watched.submitting, watched.cancelling));
  PrintTimes("the same while pages are open", saw.heartbeat.Between(seen.begin, seen.submitting));
  PrintTimes("the same while pages are open and users submit", saw.heartbeat.Between(seen.submitting, seen.cancelling));
  PrintTimes("a job's end on a worker to the next one's start there",
             saw.restart.Between(watched.cancelling, watched.end));
  PrintTimes("the same beside open pages", saw.restart.Between(seen.cancelling, seen.end));
  PrintTimes("all jobs listed, alone", {list_seconds});
  PrintTimes("the same beside those who list and follow", watchers.listings());
  PrintTimes("the page opened, files and jobs, alone", opened_alone);
  PrintTimes("pages opened, all at once", times.opened);
  PrintTimes("a view of theirs loaded again", times.refreshed);
  PrintDecisions(flags);
  return absl::OkStatus();
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as in the daemons
  adjoin::Flags flags;
  flags.coordinator_binary =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "coordinator/adjoin-coordinator";
  CLI::App app("The control plane under load", "control_plane");
  app.add_option("--workers", flags.workers, "Simulated daemons, with one slot each")->capture_default_str();
  app.add_option("--jobs", flags.jobs, "Jobs that wait")->capture_default_str();
  app.add_option("--processes", flags.processes, "Programs that the workers are in")->capture_default_str();
  app.add_option("--users", flags.users, "Who submit at once")->capture_default_str();
  const CLI::Option* decisions =
      app.add_option("--decisions", flags.decisions, "How many to measure; at most half of the workers, and the jobs")
          ->capture_default_str();
  app.add_option("--followers", flags.followers, "Who follow a job each")->capture_default_str();
  app.add_option("--listers", flags.listers, "Who list all jobs again and again")->capture_default_str();
  app.add_option("--pages", flags.pages, "Browsers that have the page open")->capture_default_str();
  app.add_option("--seconds", flags.seconds, "How long nobody asks, and how long they list and follow")
      ->capture_default_str();
  app.add_option("--coordinator-binary", flags.coordinator_binary, "The program under load")->capture_default_str();
  app.add_option("--folder", flags.folder, "Where its store lies")->capture_default_str();
  app.add_flag("--synthetic", flags.synthetic,
               "Jobs that read no files: no worker checks them, and each is planned once");
  app.add_flag("--only-decisions", flags.only_decisions, "Without a coordinator and workers of their own");
  app.add_option("--simulate", flags.simulate, "Only simulate workers of this coordinator, until stopped");
  app.add_option("--first", flags.first, "The number of the first of them")->capture_default_str();
  if (std::optional<int> code = adjoin::ParseFlags(app, argc, argv)) return *code;
  if (flags.simulate.empty()) {
    if (decisions->count() == 0) {
      flags.decisions = std::min(flags.decisions, adjoin::MostDecisions(flags.workers, flags.jobs));
    }
    const absl::Status measurable = adjoin::CheckDecisions(flags.workers, flags.jobs, flags.decisions);
    if (!measurable.ok()) {
      std::cerr << "control_plane: " << measurable.message() << "\n";
      return 1;
    }
  }
  if (flags.only_decisions) {
    adjoin::PrintDecisions(flags);
    return 0;
  }
  adjoin::StopSignal stop;
  if (!flags.simulate.empty()) return adjoin::Simulate(flags, stop);
  const absl::Status status = adjoin::Run(flags, stop);
  if (status.ok()) return 0;
  std::cerr << "control_plane: " << status << "\n";
  return 1;
}
