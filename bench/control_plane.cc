// The control plane under load: simulated workers with the real protocol, and a long queue. Prints a table.
//
//   bazel build //bench:control_plane && bazel-bin/bench/control_plane --workers 1000 --jobs 10000
//
// A coordinator is started on a folder of its own. Every worker has one slot; the first jobs take all of them and never
// end, the others wait. For some seconds nobody asks for anything; then users list the jobs again and again, and follow
// some, while others submit. Then running jobs are cancelled one by one, and each makes room for the next. At the end
// all of this happens once more while browsers have the page open.
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
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
#include "bench/control_plane_programs.h"
#include "bench/decision_time.h"
#include "bench/job_watchers.h"
#include "bench/open_pages.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/child_process.h"

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
absl::Status MeasureBeside(ControlPlane& plane, const Flags& flags, const std::function<void()>& submitted,
                           Beside& beside) {
  ADJOIN_RETURN_IF_ERROR(plane.Pause(flags.seconds));
  beside.submitting = absl::Now();
  ADJOIN_ASSIGN_OR_RETURN(beside.submits, plane.Submit(flags.jobs / 10, &beside.seconds));
  submitted();
  beside.cancelling = absl::Now();
  ADJOIN_RETURN_IF_ERROR(plane.CancelRunning(flags.decisions));
  ADJOIN_RETURN_IF_ERROR(plane.Pause(2));  // for the last of them to start
  beside.end = absl::Now();
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags, const StopSignal& stop) {
  std::cout << flags.workers << " workers in " << flags.processes << " processes, " << flags.jobs
            << " jobs in the queue, " << flags.users << " users\n\n";
  ControlPlane plane({.coordinator_binary = flags.coordinator_binary,
                      .folder = flags.folder,
                      .workers = flags.workers,
                      .processes = flags.processes,
                      .users = flags.users,
                      .synthetic = flags.synthetic},
                     stop);
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
  ADJOIN_RETURN_IF_ERROR(plane.Pause(flags.seconds));
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
      {[&] { return plane.NewStub(); }, [&] { return plane.List().status(); }, flags.listers, flags.followers}, jobs);
  const auto stop_watching = [&watchers] { watchers.Stop(); };  // the cancellations are measured alone
  ADJOIN_RETURN_IF_ERROR(MeasureBeside(plane, flags, stop_watching, watched));

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
    ADJOIN_RETURN_IF_ERROR(plane.Pause(1));
    one.Stop();
    opened_alone = one.TakeTimes().opened;
  }
  Beside seen;
  OpenPages pages({plane.page_port(), flags.pages, shown});
  std::cerr << "pages are open at http://127.0.0.1:" << plane.page_port() << "/ for " << flags.seconds << " s\n";
  const auto stay_open = [] {};
  ADJOIN_RETURN_IF_ERROR(MeasureBeside(plane, flags, stay_open, seen));
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
  if (!flags.simulate.empty()) return adjoin::SimulateWorkers(flags.simulate, flags.first, flags.workers, stop);
  const absl::Status status = adjoin::Run(flags, stop);
  if (status.ok()) return 0;
  std::cerr << "control_plane: " << status << "\n";
  return 1;
}
