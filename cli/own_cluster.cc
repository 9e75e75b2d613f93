#include "cli/own_cluster.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kStart = absl::Seconds(60);  // until the coordinator listens
constexpr absl::Duration kStop = absl::Seconds(15);   // until a daemon ends by itself
// Whatever a job takes is tried: nobody else's is there to be harmed, and no larger worker will come.
constexpr int64_t kAnyMemory = int64_t{1} << 49;
constexpr int kPollMs = 20;  // between looks at the file with the address

// `package`: where Bazel builds it. Errors: kNotFound.
absl::StatusOr<std::string> ProgramPath(const std::string& package, const std::string& name) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {folder / name, folder.parent_path() / package / name}) {
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return absl::NotFoundError(absl::StrCat(name, " is not beside this program, in ", folder.string(),
                                          ": `adjoin run` needs adjoin-coordinator, adjoin-worker and adjoin-rank"));
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

absl::Status HasEnded(const DaemonProcess& daemon) {
  return absl::UnavailableError(
      absl::StrCat("the ", daemon.name(), " has ended; its last lines:\n", daemon.LastLines()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnCluster>> OwnCluster::Start(const OwnClusterOptions& options, int stop_fd) {
  std::error_code error;
  if (!fs::is_directory(options.data_root, error)) {
    return absl::NotFoundError(absl::StrCat("--data-root ", options.data_root, ": no such folder"));
  }
  fs::create_directories(options.output_root, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat("--output-root ", options.output_root, ": ", error.message()));
  }
  std::string folder = (fs::temp_directory_path(error) / "adjoin-run-XXXXXX").string();
  if (error || mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("no folder for the state below ",
                                               fs::temp_directory_path(error).string(), ": ",
                                               error ? error.message() : strerror(errno)));
  }
  std::unique_ptr<OwnCluster> cluster(new OwnCluster());
  cluster->folder_ = folder;
  ADJOIN_RETURN_IF_ERROR(cluster->StartCoordinator(stop_fd));
  ADJOIN_RETURN_IF_ERROR(cluster->StartWorker(options));
  return cluster;
}

OwnCluster::~OwnCluster() { Stop(); }

absl::Status OwnCluster::StartCoordinator(int stop_fd) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string program, ProgramPath("coordinator", "adjoin-coordinator"));
  const std::string port_file = folder_ + "/coordinator.port";
  ADJOIN_ASSIGN_OR_RETURN(coordinator_, DaemonProcess::Start("coordinator",
                                                             {program, "--listen", "127.0.0.1:0", "--port-file",
                                                              port_file, "--state-dir", folder_ + "/coordinator"},
                                                             folder_ + "/coordinator.log"));
  const Deadline deadline = Deadline::After(kStart);
  while (address_.empty()) {
    pollfd fds[] = {{stop_fd, POLLIN, 0}, {coordinator_->fd(), POLLIN, 0}};
    if (poll(fds, 2, kPollMs) > 0) {
      if (fds[0].revents != 0) return absl::CancelledError("interrupted");
      if (fds[1].revents != 0) return HasEnded(*coordinator_);
    }
    address_ = FirstLine(port_file);
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(absl::StrCat("the coordinator does not listen after ",
                                                      absl::FormatDuration(kStart), "; its last lines:\n",
                                                      coordinator_->LastLines()));
    }
  }
  return absl::OkStatus();
}

absl::Status OwnCluster::StartWorker(const OwnClusterOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string program, ProgramPath("worker", "adjoin-worker"));
  ADJOIN_ASSIGN_OR_RETURN(
      worker_, DaemonProcess::Start("worker",
                                    {program, "--coordinator", address_, "--slots", absl::StrCat(options.slots),
                                     "--data-root", options.data_root, "--output-root", options.output_root, "--listen",
                                     "127.0.0.1:0", "--state-dir", folder_ + "/worker", "--drain-seconds", "5",
                                     "--memory", absl::StrCat(kAnyMemory), "--gpus", options.gpus ? "all" : "none"},
                                    folder_ + "/worker.log"));
  return absl::OkStatus();
}

absl::Status OwnCluster::Alive() const {
  if (coordinator_->Ended()) return HasEnded(*coordinator_);
  if (worker_->Ended()) return HasEnded(*worker_);
  return absl::OkStatus();
}

void OwnCluster::Kill() const {
  worker_->Kill();
  coordinator_->Kill();
}

void OwnCluster::Stop() {
  if (worker_ != nullptr) worker_->Stop(Deadline::After(kStop));
  if (coordinator_ != nullptr) coordinator_->Stop(Deadline::After(kStop));
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace adjoin
