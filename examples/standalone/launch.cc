#include "examples/standalone/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_memory.h"
#include "primitives/transport/rank_processes.h"
#include "primitives/transport/rendezvous.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_options.h"

namespace adjoin {
namespace {

struct Flags {
  std::string folder;
  std::string run_id;
  std::string net_devices = "lo";
  std::string transport = TransportOptions().name;
  double timeout = 120;  // seconds
};

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// What the launchers call a run. Open MPI's and PMIx's names are those of the job, Slurm's of the srun within it.
// MPICH's launcher Hydra gives no name.
std::string RunIdFromEnvironment() {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "TORCHELASTIC_RUN_ID"}) {
    if (std::string value = Variable(name); !value.empty()) return value;
  }
  const std::string job = Variable("SLURM_JOB_ID");
  return job.empty() ? "" : absl::StrCat(job, ".", Variable("SLURM_STEP_ID"));
}

absl::Status RunRank(const Seat& seat, const Flags& flags, const std::function<absl::Status(Communicator&)>& body) {
  const std::string run_id = flags.run_id.empty() ? RunIdFromEnvironment() : flags.run_id;
  if (flags.folder.empty() || run_id.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "what started this rank gives no ", flags.folder.empty()
                                                ? "folder to meet the others in: --folder FOLDER, which all ranks see"
                                                : "name of the run: --run_id NAME, another one for every run, such as "
                                                  "--run_id \"$(date +%s%N)\" under MPICH's mpirun"));
  }
  TransportOptions options;
  options.rank = seat.rank;
  options.size = seat.size;
  options.net_devices = flags.net_devices;
  options.name = flags.transport;
  const absl::Duration timeout = absl::Seconds(flags.timeout);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> transport,
                          ConnectThroughFolder({flags.folder, run_id}, options, Deadline::After(timeout)));
  ReuseTensorMemory();
  HostMemory memory;
  Communicator communicator(transport.get(), &memory, {0, timeout});
  try {
    ADJOIN_RETURN_IF_ERROR(body(communicator));
  } catch (...) {
    return StatusFromCurrentException();
  }
  return transport->Close(Deadline::After(timeout));
}

absl::StatusOr<int> RunAllRanks(char** argv, int ranks, Flags flags) {
  std::string made;
  if (flags.folder.empty()) {
    made = (std::filesystem::temp_directory_path() / "adjoin.XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("folder ", made, " cannot be made: ", strerror(errno)));
    }
    flags.folder = made;
  }
  if (flags.run_id.empty()) flags.run_id = absl::StrCat(getpid(), "-", absl::GetCurrentTimeNanos());
  std::vector<std::vector<std::string>> environments;
  for (int r = 0; r < ranks; ++r) {
    environments.push_back({absl::StrCat("RANK=", r), absl::StrCat("WORLD_SIZE=", ranks),
                            "ADJOIN_FOLDER=" + flags.folder, "ADJOIN_RUN_ID=" + flags.run_id});
  }
  absl::StatusOr<int> code = RunRankProcesses(argv, environments, Deadline::After(absl::Seconds(flags.timeout)));
  std::error_code ignored;
  if (!made.empty()) std::filesystem::remove_all(made, ignored);
  return code;
}

// The exit code of what ends with `status`.
int Report(const std::string& who, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", who.c_str(), status.ToString().c_str());
  return 1;
}

}  // namespace

absl::StatusOr<std::optional<Seat>> SeatFromEnvironment() {
  constexpr const char* kPairs[][2] = {{"RANK", "WORLD_SIZE"},
                                       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                       {"PMI_RANK", "PMI_SIZE"},
                                       {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [rank_name, size_name] : kPairs) {
    const std::string rank = Variable(rank_name), size = Variable(size_name);
    if (rank.empty() && size.empty()) continue;
    Seat seat;
    if (!absl::SimpleAtoi(rank, &seat.rank) || !absl::SimpleAtoi(size, &seat.size) || seat.rank < 0 ||
        seat.rank >= seat.size) {
      return absl::InvalidArgumentError(absl::StrCat("the environment has ", rank_name, "='", rank, "' and ", size_name,
                                                     "='", size, "': these must be a rank and the number of ranks"));
    }
    return seat;
  }
  return std::nullopt;
}

int Launch(int argc, char** argv, int ranks, const std::function<absl::Status(Communicator&)>& body) {
  Flags flags;
  CLI::App app("One program, several ranks", std::filesystem::path(argv[0]).filename().string());
  app.add_option("--folder", flags.folder, "Where the ranks meet; all see it. Needed under mpirun and the like");
  app.add_option("--run_id", flags.run_id, "Another name for every run; by default that of Open MPI's mpirun, or srun");
  app.add_option("--net_devices", flags.net_devices, "Network interfaces between nodes, e.g. eth0")
      ->capture_default_str();
  app.add_option("--transport", flags.transport, "Carries the messages: a name in transport_factory.cc")
      ->capture_default_str();
  app.add_option("--timeout", flags.timeout, "Seconds that one wait, or a whole run of ranks started here, may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddConfigSources(app, "ADJOIN_");
  if (const std::optional<int> code = ParseFlags(app, argc, argv)) return *code;

  const absl::StatusOr<std::optional<Seat>> seat = SeatFromEnvironment();
  if (!seat.ok()) return Report(app.get_name(), seat.status());
  if (seat->has_value()) {
    const absl::Status status = RunRank(**seat, flags, body);
    return status.ok() ? 0 : Report(absl::StrCat("rank ", (*seat)->rank), status);
  }
  const absl::StatusOr<int> code = RunAllRanks(argv, ranks, flags);
  return code.ok() ? *code : Report(app.get_name(), code.status());
}

}  // namespace adjoin
