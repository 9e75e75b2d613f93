#include "tests/attack/attacked_cluster.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"

namespace adjoin {
namespace {

constexpr absl::Duration kJobTimeout = absl::Seconds(120);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

// Returns 0 where the process has ended.
pid_t ParentOf(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string key;
  pid_t parent = 0;
  while (status >> key) {
    if (key == "PPid:") status >> parent;
  }
  return parent;
}

}  // namespace

ProcessUse UseOf(pid_t pid) {
  ProcessUse use;
  use.process = pid;
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(status, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    words >> key >> value;
    if (key == "VmRSS:") use.memory_bytes = value << 10;
    if (key == "Threads:") use.threads = static_cast<int>(value);
  }
  std::error_code gone;
  const std::filesystem::directory_iterator files(absl::StrCat("/proc/", pid, "/fd"), gone);
  if (!gone) use.descriptors = static_cast<int>(std::distance(files, {}));
  return use;
}

std::map<std::string, ProcessUse> UseOfPrograms(const LocalCluster& cluster) {
  std::map<std::string, ProcessUse> use;
  const std::map<pid_t, std::string> processes = ProcessesIn(cluster.folder());
  for (const auto& [pid, command] : processes) {
    // A rank that the daemon has just forked has the daemon's command line until it executes its own program.
    const auto parent = processes.find(ParentOf(pid));
    if (parent != processes.end() && parent->second == command) continue;
    if (absl::StrContains(command, "adjoin-coordinator")) use["coordinator"] = UseOf(pid);
    const size_t name = command.find("--name");
    if (absl::StrContains(command, "adjoin-worker") && name != std::string::npos) {
      const std::string rest = command.substr(name + 7);
      use[rest.substr(0, rest.find_first_of(std::string(" \0", 2)))] = UseOf(pid);
    }
  }
  return use;
}

absl::StatusOr<std::string> AttackedCluster::Train() {
  ADJOIN_ASSIGN_OR_RETURN(const std::string job, cluster_.Submit(spec_));
  ADJOIN_ASSIGN_OR_RETURN(const JobSummary end, cluster_.WaitFor(job, Deadline::After(kJobTimeout)));
  if (end.state() != SUCCEEDED) return absl::InternalError(absl::StrCat(job, " did not succeed: ", end.reason()));
  ADJOIN_RETURN_IF_ERROR(cluster_.WaitUntilIdle(Deadline::After(kJobTimeout)));
  return ReadFile(absl::StrCat(cluster_.output_root(), "/", output_dir_, "/model.safetensors"));
}

absl::Status AttackedCluster::Begin() {
  ADJOIN_ASSIGN_OR_RETURN(model_, Train());
  if (model_.empty()) return absl::InternalError("the job writes no model");
  before_ = UseOfPrograms(cluster_);
  return absl::OkStatus();
}

absl::Status AttackedCluster::CheckListing() {
  const absl::Time begin = absl::Now();
  ADJOIN_ASSIGN_OR_RETURN(const ListJobsResponse list, cluster_.ListJobs());
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  if (seconds > limits_.list_seconds) return absl::DeadlineExceededError(absl::StrCat("ps takes ", seconds, " s"));
  int ready = 0;
  for (const WorkerSummary& worker : list.worker()) {
    const auto is_ours = before_.find(worker.name());
    if (is_ours == before_.end()) continue;
    if (worker.state() != "ready") {
      return absl::InternalError(absl::StrCat(worker.name(), " is ", worker.state(), " ", worker.condition()));
    }
    ++ready;
  }
  if (ready + 1 != static_cast<int>(before_.size())) {
    return absl::InternalError(absl::StrCat(ready, " daemons are connected, of ", before_.size() - 1));
  }
  return absl::OkStatus();
}

absl::Status AttackedCluster::CheckUse() {
  const std::map<std::string, ProcessUse> now = UseOfPrograms(cluster_);
  for (const auto& [name, before] : before_) {
    const auto found = now.find(name);
    if (found == now.end()) return absl::InternalError(absl::StrCat(name, " has ended"));
    const ProcessUse& use = found->second;
    if (use.process != before.process) return absl::InternalError(absl::StrCat(name, " has begun anew"));
    if (use.memory_bytes > before.memory_bytes + limits_.memory_bytes ||
        use.descriptors > before.descriptors + limits_.descriptors || use.threads > before.threads + limits_.threads) {
      return absl::ResourceExhaustedError(absl::StrCat(
          name, " has ", use.memory_bytes >> 20, " MiB, ", use.descriptors, " descriptors, ", use.threads,
          " threads; before: ", before.memory_bytes >> 20, " MiB, ", before.descriptors, ", ", before.threads));
    }
  }
  return absl::OkStatus();
}

absl::Status AttackedCluster::Check() {
  const Deadline deadline = Deadline::After(absl::Seconds(limits_.settle_seconds));
  absl::Status status;
  do {
    status = CheckListing();
    if (status.ok()) status = CheckUse();
    if (status.ok()) break;
    absl::SleepFor(kPoll);
  } while (!deadline.Expired());
  for (const auto& [name, use] : UseOfPrograms(cluster_)) {
    std::cout << name << ": " << (use.memory_bytes >> 20) << " MiB, " << use.descriptors << " descriptors, "
              << use.threads << " threads" << std::endl;
  }
  return status;
}

absl::Status AttackedCluster::CheckBits() {
  ADJOIN_RETURN_IF_ERROR(Check());
  ADJOIN_ASSIGN_OR_RETURN(const std::string model, Train());
  return model == model_ ? absl::OkStatus() : absl::InternalError("the job trains to other bits than before");
}

}  // namespace adjoin
