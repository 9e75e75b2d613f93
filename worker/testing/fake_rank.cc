// A rank process for tests of the control plane. It trains nothing; the name of the job's spec sets what it does:
//
//   succeed                 reports progress once and succeeds, with the result "result.bin" of 3,000,000 bytes
//   model                   the same, and with a "model.safetensors" of one tensor, "w" with two elements
//   model-torn              the same, but the last byte of that file is missing
//   lines-30000             succeeds, but first it writes so many lines of about 400 bytes
//   files-75000             succeeds with so many results, "file-0-..." and so on with names of 240 bytes, of which it
//                           writes the last one
//   attempt                 succeeds like a real rank: its result "result.bin" comes from the folder of its attempt
//   attempt-fails           makes that folder, and then rank 0 reports an error
//   hang                    runs until it is told to stop, to drain, or for 60 s
//   stubborn                the same, but ignores all orders
//   silent                  never becomes ready
//   fail-rank-1             rank 1 reports an error; the others hang
//   exit-rank-1             rank 1 exits with code 3 without a result
//   peer-rank-1             the others report that a peer died, then rank 1 dies by SIGSEGV
//   steps-200x10ms          200 steps of 10 ms each, then it succeeds, with the result "result.bin"
//   steps-200x10ms-WHAT-1-at-50        the same, but at step 50 rank 1 does WHAT:
//        fail               reports an error (RANK_ERROR)
//        nan                reports a loss that is not finite (RANK_HOPELESS)
//        exit, kill         exits with code 3, or dies by SIGKILL, without a result
//        stall              computes without an end; the pulses of the others report that they wait for it in "fc.sum"
//   steps-200x10ms-WHAT-1-at-50-once   only in the first attempt of the job
//
// Any other words may follow: "steps-200x10ms-of-alice". Steps are reported as progress (with the loss 1 / (1 + step))
// and in pulses, at most ten times a second and at least once. A rank that is asked to drain names a step in the file
// "drain-JOB-EPOCH" of the output root, where ranks of other daemons see it, and all ranks of the attempt end with
// RANK_DRAINED after it (or at once, where they are further); one that has done all its steps notes that there: then no
// rank drains.
//
// Each rank of any kind appends lines to "runs.log" in the output root:
//   JOB EPOCH RANK start PID BOOTTIME_NS     once it has its orders
//   JOB EPOCH RANK end PID BOOTTIME_NS       before it reports its result; a killed one writes none
//   JOB EPOCH RANK overlap PID BOOTTIME_NS   at its start a process of another attempt of the job lived, without an
//   "end"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/boot_clock.h"
#include "base/flags.h"
#include "proto/plan.pb.h"
#include "worker/rank/rank_process_link.h"
#include "worker/session/attempt_output.h"

namespace adjoin {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr absl::Duration kBetweenReports = absl::Milliseconds(100);
constexpr int kStepsToDrain = 10;
constexpr size_t kLineBytes = 400;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "fail-rank-1" with "fail-rank-" is 1; -1 where the name is another.
int RankIn(absl::string_view name, absl::string_view prefix) {
  int rank = -1;
  return absl::ConsumePrefix(&name, prefix) && absl::SimpleAtoi(name, &rank) ? rank : -1;
}

struct Steps {
  int steps = 0;
  absl::Duration length;
  std::string what;  // empty: nothing
  int rank = -1, at = -1;
  bool once = false;
};

std::optional<Steps> ParseSteps(const std::string& name) {
  static const std::regex kName("steps-(\\d+)x(\\d+)ms(-(fail|nan|exit|kill|stall)-(\\d+)-at-(\\d+)(-once)?)?(-.*)?");
  std::smatch match;
  if (!std::regex_match(name, match, kName)) return std::nullopt;
  Steps steps;
  steps.steps = std::stoi(match[1]);
  steps.length = absl::Milliseconds(std::stoi(match[2]));
  if (!match[3].matched) return steps;
  steps.what = match[4];
  steps.rank = std::stoi(match[5]);
  steps.at = std::stoi(match[6]);
  steps.once = match[7].matched;
  return steps;
}

class FakeRank {
 public:
  FakeRank(const RankProcessLink::Settings& settings, RankProcessLink& link, const RankStart& start, const Plan& plan)
      : settings_(settings),
        link_(link),
        root_(start.output_root()),
        name_(plan.spec().name()),
        output_dir_(plan.spec().output_dir()),
        store_id_(start.store_id()),
        folder_(std::filesystem::path(root_) / plan.spec().output_dir()),
        rank_(static_cast<int>(settings.rank)) {
    const bool stubborn = name_ == "stubborn";
    link_.OnAbort([this, stubborn](const absl::Status&) {
      if (!stubborn) stop_.Notify();
    });
    link_.OnDrain([this] { drain_ = true; });
  }

  int Run() {
    std::cout << "rank " << rank_ << " does " << name_ << std::endl;
    NoteStart();
    if (name_ == "silent") return stop_.WaitForNotificationWithTimeout(kTimeout) ? 1 : 2;
    link_.SendTransportAddress("nowhere");
    auto connect = link_.WaitForConnect(Deadline::After(kTimeout));
    if (!connect.ok()) return 1;
    link_.SendTransport("none");
    if (std::optional<Steps> steps = ParseSteps(name_)) return RunSteps(*steps);
    if (name_ == "succeed" || WritesModel()) return Succeed();
    if (RankIn(name_, "lines-") > 0) return SucceedWithLines(RankIn(name_, "lines-"));
    if (RankIn(name_, "files-") > 0) return SucceedWithFiles(RankIn(name_, "files-"));
    if (name_ == "attempt" || name_ == "attempt-fails") return WriteAsAttempt();
    if (RankIn(name_, "fail-rank-") == rank_) return Report(RANK_ERROR, "the disk is full");
    if (RankIn(name_, "exit-rank-") == rank_) return 3;
    int dying = RankIn(name_, "peer-rank-");
    if (dying >= 0 && dying != rank_) return Report(RANK_PEER_FAILED, "a peer died");
    if (dying == rank_) {
      absl::SleepFor(absl::Milliseconds(300));  // the peers' reports are to be first; part of what is simulated
      signal(SIGSEGV, SIG_DFL);                 // a sanitizer would make another death of it
      kill(getpid(), SIGSEGV);
    }
    return Hang();
  }

 private:
  void Note(const std::string& what, pid_t pid) {
    std::string line = absl::StrCat(settings_.job_id, " ", settings_.epoch, " ", rank_, " ", what, " ", pid, " ",
                                    BootTimeNanos(), "\n");
    int fd = open((root_ + "/runs.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::perror("runs.log cannot be written");
      _exit(9);
    }
    close(fd);
  }

  void NoteStart() {
    Note("start", getpid());
    std::map<pid_t, uint64_t> running;  // the other attempts' processes without an end
    std::ifstream file(root_ + "/runs.log");
    std::string job, what;
    uint64_t epoch = 0;
    int rank = 0;
    pid_t pid = 0;
    int64_t when = 0;
    while (file >> job >> epoch >> rank >> what >> pid >> when) {
      if (job != settings_.job_id || epoch == settings_.epoch) continue;
      if (what == "start") running[pid] = epoch;
      if (what == "end") running.erase(pid);
      first_attempt_ = false;
    }
    for (const auto& [other, its_epoch] : running) {
      std::string command = ReadAll(absl::StrCat("/proc/", other, "/cmdline"));  // empty for one that is dead
      const std::string job_words = absl::StrCat("--job", std::string(1, '\0'), settings_.job_id, std::string(1, '\0'));
      const std::string epoch_words = absl::StrCat("--epoch", std::string(1, '\0'), its_epoch, std::string(1, '\0'));
      if (absl::StrContains(command, job_words) && absl::StrContains(command, epoch_words)) Note("overlap", other);
    }
  }

  int Report(RankEnd end, const std::string& error, uint64_t drained_step = 0) {
    Note("end", getpid());
    RankResult result;
    result.set_end(end);
    result.set_error(error);
    result.set_drained_step(drained_step);
    if (end == RANK_SUCCEEDED) result.add_artifact("result.bin");
    if (end == RANK_SUCCEEDED && WritesModel()) result.add_artifact("model.safetensors");
    link_.SendResult(result, Deadline::After(kTimeout));
    return end == RANK_SUCCEEDED || end == RANK_DRAINED ? 0 : 1;
  }

  int Succeed() {
    JobProgress progress;
    progress.set_step(10);
    progress.set_total_steps(10);
    progress.set_loss(0.25);
    (*progress.mutable_metric())["accuracy"] = 0.5;
    link_.SendProgress(progress);
    WriteResult();
    return Report(RANK_SUCCEEDED, "");
  }

  int SucceedWithLines(int count) {
    for (int i = 0; i < count; ++i) std::cout << "line " << i << " " << std::string(kLineBytes, 'l') << '\n';
    std::cout.flush();
    return Succeed();
  }

  int SucceedWithFiles(int count) {
    Note("end", getpid());
    RankResult result;
    result.set_end(RANK_SUCCEEDED);
    for (int i = 0; i < count; ++i) {
      std::string name = absl::StrCat("file-", i, "-");
      name.resize(240, 'f');
      result.add_artifact(name);
    }
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / result.artifact(count - 1), std::ios::binary) << "the last one";
    link_.SendResult(result, Deadline::After(kTimeout));
    return 0;
  }

  bool WritesModel() const { return name_ == "model" || name_ == "model-torn"; }

  void WriteResult() {
    if (rank_ != 0) return;
    std::filesystem::create_directories(folder_);
    if (WritesModel()) {
      const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
      const uint64_t length = header.size();
      std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
      absl::StrAppend(&bytes, header, std::string(name_ == "model" ? 8 : 7, 'w'));
      std::ofstream(folder_ / "model.safetensors", std::ios::binary) << bytes;
    }
    std::ofstream(folder_ / "result.bin", std::ios::binary) << std::string(3000000, 'r');
  }

  int WriteAsAttempt() {
    if (rank_ != 0) return Report(RANK_SUCCEEDED, "");
    const Deadline deadline = Deadline::After(kTimeout);
    auto output = AttemptOutput::Begin({.root = root_,
                                        .output_dir = output_dir_,
                                        .epoch = settings_.epoch,
                                        .job_id = settings_.job_id,
                                        .store_id = store_id_},
                                       deadline);
    if (!output.ok()) return Report(RANK_ERROR, std::string(output.status().message()));
    std::ofstream((*output)->folder() + "/result.bin", std::ios::binary) << std::string(3000000, 'r');
    if (name_ == "attempt-fails") return Report(RANK_ERROR, "the disk is full");
    const absl::Status published = (*output)->Publish({"result.bin"}, deadline);
    return published.ok() ? Report(RANK_SUCCEEDED, "") : Report(RANK_ERROR, std::string(published.message()));
  }

  int Hang() {
    const Deadline deadline = Deadline::After(kTimeout);
    while (!stop_.WaitForNotificationWithTimeout(absl::Milliseconds(20)) && !deadline.Expired()) {
      if (drain_ && name_ != "stubborn") return Report(RANK_DRAINED, "");
    }
    return 1;
  }

  void Pulse(const Steps& steps, int step, Activity activity) {
    RankPulse pulse;
    pulse.set_rank(settings_.rank);
    pulse.set_phase("training");
    pulse.set_step(step);
    pulse.set_activity(activity);
    if (activity == WAITING) {
      pulse.set_operator_("fc.sum");
      pulse.set_generation(step + 1);
    }
    if (step > 0) pulse.set_step_seconds(absl::ToDoubleSeconds(steps.length));
    link_.SendPulse(pulse);
  }

  void Progress(const Steps& steps, int step) {
    JobProgress progress;
    progress.set_step(step);
    progress.set_total_steps(steps.steps);
    progress.set_loss(1.0 / (1 + step));
    progress.set_phase("training");
    link_.SendProgress(progress);
  }

  // The step after which all ranks of the attempt drain: what the first of them has named.
  int AgreeOnLast(int step) {
    const std::string path = absl::StrCat(root_, "/drain-", settings_.job_id, "-", settings_.epoch);
    const std::string mine = absl::StrCat(path, ".", rank_);
    std::ofstream(mine) << step;
    const bool first = ::link(mine.c_str(), path.c_str()) == 0;  // whole or not at all
    unlink(mine.c_str());
    return first ? step : ReadLast().value_or(step);
  }
  std::optional<int> ReadLast() {
    int last = 0;
    const std::string text = ReadAll(absl::StrCat(root_, "/drain-", settings_.job_id, "-", settings_.epoch));
    return absl::SimpleAtoi(text, &last) ? std::optional<int>(last) : std::nullopt;
  }

  int RunSteps(const Steps& steps) {
    absl::Duration since_report = kBetweenReports;
    for (int step = 0; step < steps.steps; ++step) {
      const bool happens = !steps.what.empty() && step == steps.at && (!steps.once || first_attempt_);
      if (happens && steps.what == "stall") {
        Pulse(steps, step, rank_ == steps.rank ? COMPUTING : WAITING);
        return Hang();
      }
      if (happens && rank_ == steps.rank) return Do(steps.what, step);
      if (since_report >= kBetweenReports) {
        Progress(steps, step);
        Pulse(steps, step, COMPUTING);
        since_report = absl::ZeroDuration();
      }
      if (stop_.WaitForNotificationWithTimeout(steps.length)) return 1;
      since_report += steps.length;
      std::optional<int> last = ReadLast();
      if (!last.has_value() && drain_) last = AgreeOnLast(step + kStepsToDrain);
      if (last.has_value() && step >= *last) return Report(RANK_DRAINED, "", *last);
    }
    const int last = AgreeOnLast(steps.steps);
    if (last < steps.steps) return Report(RANK_DRAINED, "", last);
    Progress(steps, steps.steps);
    WriteResult();
    return Report(RANK_SUCCEEDED, "");
  }

  int Do(const std::string& what, int step) {
    if (what == "fail") return Report(RANK_ERROR, absl::StrCat("the disk is full at step ", step));
    if (what == "nan")
      return Report(RANK_HOPELESS, absl::StrCat("the loss is nan at step ", step, ", first in layer 'fc'"));
    if (what == "kill") kill(getpid(), SIGKILL);
    return 3;
  }

  const RankProcessLink::Settings settings_;
  RankProcessLink& link_;
  const std::string root_, name_;
  const std::string output_dir_;
  const uint64_t store_id_;
  const std::filesystem::path folder_;
  const int rank_;
  bool first_attempt_ = true;
  std::atomic<bool> drain_{false};
  absl::Notification stop_;
};

int Run(const RankProcessLink::Settings& settings) {
  auto link = RankProcessLink::Connect(settings, Deadline::After(kTimeout));
  if (!link.ok()) return 1;
  auto start = (*link)->WaitForStart(Deadline::After(kTimeout));
  Plan plan;
  if (!start.ok() || !plan.ParseFromString(start->plan())) return 1;
  FakeRank rank(settings, **link, *start, plan);
  int code = rank.Run();
  _exit(code);  // its link calls it back to the end
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  adjoin::RankProcessLink::Settings settings;
  CLI::App app("A rank process for tests", "fake-rank");
  app.add_option("--socket", settings.socket)->required();
  app.add_option("--job", settings.job_id)->required();
  app.add_option("--rank", settings.rank)->required();
  app.add_option("--epoch", settings.epoch)->required();
  if (std::optional<int> code = adjoin::ParseFlags(app, argc, argv)) return *code;
  _exit(adjoin::Run(settings));
}
