#include "worker/daemon/daemon_command.h"

#include <grpcpp/grpcpp.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/endpoint.h"
#include "base/file_limit.h"
#include "base/flags.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/security/start_server.h"
#include "base/security/tls.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/stop_signal.h"
#include "base/watchdog.h"
#include "proto/health_check_service.h"
#include "worker/daemon/calibration.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/data_check_child.h"
#include "worker/daemon/data_network.h"
#include "worker/daemon/gpu_finder.h"
#include "worker/daemon/joined_node.h"
#include "worker/daemon/machine_task.h"
#include "worker/daemon/node_id.h"
#include "worker/daemon/node_memory.h"
#include "worker/daemon/rank_binding.h"

namespace adjoin {
namespace {

struct Flags {
  std::string coordinator = "127.0.0.1:7411";
  std::string name;
  uint32_t slots = std::max(1u, std::thread::hardware_concurrency());
  uint64_t memory = 0;
  std::string gpus = "auto";
  std::vector<std::string> labels;
  std::string listen;
  std::string ready_file;
  std::string advertise;
  std::string data_root = ".";
  std::string output_root = ".";
  std::string cache_dir;
  int64_t cache_bytes = 0;
  std::string state_dir = "adjoin-worker-state";
  std::vector<std::string> machine_state_dirs;  // further folders with rates of this machine, the nearest one first
  std::string net_device;
  bool trusted_network = false;
  std::string data_port_range;
  std::string rank_binary;
  std::string rank_user;
  std::string bind_ranks = "auto";
  size_t data_checks = 4;
  double data_check_seconds = 30;
  double keep_failed_hours = 168;
  TlsFiles tls;
  std::string join;
  double drain_seconds = 20;
  std::string log_format = "text";
  bool calibrate = false;
  double calibrate_seconds = 30;
};

void AddOptions(CLI::App& app, Flags& flags) {
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT of the coordinator")
      ->capture_default_str()
      ->type_name("HOST:PORT")
      ->envname("ADJOIN_COORDINATOR");
  app.add_option("--name", flags.name, "Unique among the workers; absent: this host's name");
  app.add_option("--slots", flags.slots, "How many ranks may run here at once; absent: the number of cores")
      ->check(CLI::Range(1, 100000));
  app.add_option(
         "--memory", flags.memory,
         "What all ranks here together may take, such as 16GiB: jobs are given by it; absent: nine tenths of the "
         "memory of the machine, or of this program's control group")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false).description("SIZE"))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 50).description(""));
  app.add_option("--gpus", flags.gpus,
                 "GPUs that ranks may use: auto (those that work), all, none, or numbers as nvidia-smi's: 0,2 or 0-3")
      ->capture_default_str();
  app.add_option("--label", flags.labels, "KEY=VALUE, which jobs can ask for in resources.node_label; may be repeated")
      ->type_name("KEY=VALUE");
  app.add_option("--listen", flags.listen, "HOST:PORT for gRPC health checks; absent: none")->type_name("HOST:PORT");
  app.add_option("--ready-file", flags.ready_file,
                 "A file that is there while the daemon is connected to the coordinator, for probes; absent: none")
      ->type_name("FILE");
  app.add_option("--advertise", flags.advertise, "Address of this node, for people; absent: this host's name");
  app.add_option("--data-root", flags.data_root, "Folder below which jobs may read")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--output-root", flags.output_root, "Folder below which jobs may write")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--cache-dir", flags.cache_dir,
                 "Folder for inflated copies of .gz data files, which only ranks use; absent: one below --state-dir")
      ->type_name("DIR");
  app.add_option("--cache-bytes", flags.cache_bytes, "What that folder may have; 0: 80 % of its disk")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 62).description(""));
  app.add_option("--state-dir", flags.state_dir, "The daemon's own folder")->capture_default_str()->type_name("DIR");
  app.add_option("--net-device", flags.net_device,
                 "Network interface between ranks, such as eth0; absent: lo where the coordinator is on loopback");
  app.add_flag(
      "--trusted-network", flags.trusted_network,
      "Nobody else can reach that interface, though its address is a public one: data between ranks is not encrypted");
  app.add_option("--data-port-range", flags.data_port_range, "Ports between ranks, such as 20000-20100; absent: any");
  app.add_option("--rank-binary", flags.rank_binary, "The program of a rank; absent: adjoin-rank beside this program")
      ->type_name("FILE");
  app.add_option("--rank-user", flags.rank_user,
                 "Where this program is root: the user that ranks run as; absent: root, too");
  app.add_option(
         "--bind-ranks", flags.bind_ranks,
         "Which processors a rank runs on: auto (of one node of memory where the machine has several), none (any), "
         "numa (of one node of memory) or cores (a share for each slot, and its memory)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "none", "numa", "cores"}).description(""));
  app.add_option("--data-checks", flags.data_checks, "How many jobs' data files are checked here at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 64).description(""));
  app.add_option("--data-check-seconds", flags.data_check_seconds,
                 "A check that takes longer is ended, and another node tries it; at most 30")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 30.0).description(""));
  app.add_option("--keep-failed-hours", flags.keep_failed_hours,
                 "How long the folder of an attempt that failed or was cancelled stays below --output-root")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 876000.0).description(""));
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "On SIGTERM, how long jobs may take to stop after a step; what is left then is killed, or at a SIGINT")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  app.add_flag("--calibrate", flags.calibrate,
               "Measures how fast this node computes and sends, keeps that below --state-dir, prints it and ends");
  app.add_option("--calibrate-seconds", flags.calibrate_seconds, "How long --calibrate measures")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0).description(""));
  AddTlsOptions(app, flags.tls);
  app.add_option("--join", flags.join,
                 "File with a token of `adjoin token join` in its first line: the coordinator issues the certificate, "
                 "which is kept below --state-dir, and renews it; in place of --tls-cert and --tls-key")
      ->type_name("FILE");
  app.add_option("--log-format", flags.log_format, "text, or json: an object on each line")->capture_default_str();
  OneOf(app.get_option("--log-format"), {"text", "json"});
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && name[0] != '\0' ? name : "worker";
}

absl::StatusOr<std::string> ExistingFolder(const std::string& flag, const std::string& path) {
  std::error_code error;
  std::string absolute = std::filesystem::canonical(path, error).string();
  if (error || !std::filesystem::is_directory(absolute, error)) {
    return absl::NotFoundError(absl::StrCat(flag, " ", path, ": no such folder"));
  }
  // Ranks are told of it in a message, which holds text only.
  if (!IsPrintableText(absolute)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", absolute, ": its name has to be UTF-8 without control characters"));
  }
  return absolute;
}

absl::StatusOr<std::string> RankBinary(const Flags& flags) {
  std::error_code error;
  std::filesystem::path path = flags.rank_binary;
  if (path.empty()) path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "adjoin-rank";
  std::string absolute = std::filesystem::canonical(path, error).string();
  if (error || access(absolute.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(path.string(), " is no program: name it with --rank-binary"));
  }
  return absolute;
}

absl::StatusOr<std::optional<User>> RankUser(const std::string& name) {
  const bool root = geteuid() == 0;
  if (name.empty()) {
    if (root) LogWarning("ranks run as root: name an unprivileged user with --rank-user");
    return std::nullopt;
  }
  if (!root) return absl::InvalidArgumentError("--rank-user needs the daemon to run as root");
  absl::StatusOr<User> user = FindUser(name);
  if (!user.ok())
    return absl::Status(user.status().code(), absl::StrCat("--rank-user: ", std::string(user.status().message())));
  return std::optional<User>(*std::move(user));
}

absl::StatusOr<std::vector<RankPlace>> PlacesOf(const Flags& flags) {
  ADJOIN_ASSIGN_OR_RETURN(const RankBinding binding, ParseRankBinding(flags.bind_ranks));
  RankNode node;
  node.slots = static_cast<int>(flags.slots);
  const char* threads = std::getenv("OMP_NUM_THREADS");  // ranks inherit it
  if (threads == nullptr || !absl::SimpleAtoi(threads, &node.threads)) node.threads = 1;
  ADJOIN_ASSIGN_OR_RETURN(std::vector<RankPlace> places, RankPlaces(binding, node));
  if (!places.empty()) LogInfo(absl::StrCat("ranks are bound: the first one to ", places.front().text));
  return places;
}

absl::StatusOr<std::map<std::string, std::string>> Labels(const std::vector<std::string>& flags) {
  std::map<std::string, std::string> labels;
  for (const std::string& label : flags) {
    const size_t equals = label.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--label '", label, "' is not KEY=VALUE, such as zone=a"));
    }
    if (!labels.emplace(label.substr(0, equals), label.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--label '", label, "': its key has a value already"));
    }
  }
  return labels;
}

absl::StatusOr<DaemonSettings> MakeSettings(const Flags& flags) {
  ADJOIN_ASSIGN_OR_RETURN(Endpoint coordinator, ParseEndpoint(flags.coordinator));
  DaemonSettings settings;
  if (flags.join.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(settings.credentials,
                            MakeChannelCredentials(coordinator, flags.tls, /*token_file=*/"", &settings.check_server));
  } else if (!flags.tls.cert.empty() || !flags.tls.key.empty()) {
    return absl::InvalidArgumentError("--join gets a certificate: leave out --tls-cert and --tls-key, or --join");
  }
  if (!coordinator.IsLoopback() && flags.net_device.empty()) {
    return absl::InvalidArgumentError(
        "--net-device is missing: the interface on which ranks of several nodes exchange data, "
        "such as eth0");
  }
  settings.coordinator = coordinator.ToString();
  settings.name = flags.name.empty() ? HostName() : flags.name;
  settings.address = flags.advertise.empty() ? HostName() : flags.advertise;
  settings.slots = flags.slots;
  if (!flags.ready_file.empty())
    settings.ready_file = std::filesystem::absolute(flags.ready_file).lexically_normal().string();
  settings.memory_bytes = flags.memory > 0 ? flags.memory : MemoryForRanks();
  ADJOIN_ASSIGN_OR_RETURN(settings.gpus, ParseGpuChoice(flags.gpus));
  ADJOIN_ASSIGN_OR_RETURN(settings.labels, Labels(flags.labels));
  settings.net_device = flags.net_device.empty() ? "lo" : flags.net_device;
  ADJOIN_RETURN_IF_ERROR(CheckDataNetwork(settings.net_device, flags.trusted_network));
  // UCX's own variables win, and ranks inherit them.
  if (const char* own = std::getenv("UCX_NET_DEVICES"); own != nullptr && *own != '\0') {
    const absl::Status status = CheckDataNetwork(own, flags.trusted_network);
    if (!status.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("UCX_NET_DEVICES in the place of ", std::string(status.message())));
  }
  settings.data_port_range = flags.data_port_range;
  if (absl::Status status = CheckPortRange(flags.data_port_range); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--data-port-range ", std::string(status.message())));
  }
  ADJOIN_ASSIGN_OR_RETURN(settings.data_root, ExistingFolder("--data-root", flags.data_root));
  ADJOIN_RETURN_IF_ERROR(MakeFolders(flags.output_root));
  ADJOIN_ASSIGN_OR_RETURN(settings.output_root, ExistingFolder("--output-root", flags.output_root));
  if (!flags.cache_dir.empty())
    settings.cache_dir = std::filesystem::absolute(flags.cache_dir).lexically_normal().string();
  settings.cache_bytes = flags.cache_bytes;
  settings.keep_failed = absl::Hours(flags.keep_failed_hours);
  ADJOIN_ASSIGN_OR_RETURN(settings.rank_binary, RankBinary(flags));
  ADJOIN_ASSIGN_OR_RETURN(settings.rank_user, RankUser(flags.rank_user));
  ADJOIN_ASSIGN_OR_RETURN(settings.places, PlacesOf(flags));
  settings.data_checks = flags.data_checks;
  settings.data_check_limit = absl::Seconds(flags.data_check_seconds);
  std::random_device device;
  settings.incarnation = (uint64_t{device()} << 32) | device();
  return settings;
}

// Gets the daemon a certificate for its token. Errors: as JoinedNode::Join.
absl::StatusOr<std::unique_ptr<JoinedNode>> JoinCluster(const Flags& flags, const std::string& state_dir,
                                                        const StopSignal& stop, DaemonSettings& settings) {
  const auto absolute = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
  };
  JoinedNode::Options options;
  ADJOIN_ASSIGN_OR_RETURN(options.coordinator, ParseEndpoint(flags.coordinator));
  options.name = settings.name;
  options.token_file = absolute(flags.join);
  options.authorities_file = absolute(flags.tls.ca);
  options.folder = state_dir + "/certificate";
  const Endpoint coordinator = options.coordinator;
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<JoinedNode> joined,
                          JoinedNode::Join(std::move(options), [&stop] { return stop.Came(); }));
  ADJOIN_ASSIGN_OR_RETURN(settings.credentials, MakeChannelCredentials(coordinator, joined->files(), /*token_file=*/"",
                                                                       &settings.check_server));
  return joined;
}

// A worker that a launcher starts keeps its state in a folder with its name, since machines may share --state-dir.
// Where a launcher starts several of these programs on one machine, each is a worker of its own, with one slot unless
// told otherwise: the launcher's task stands for a rank. They share what the machine has. A program with a name of its
// own is no such task, whatever else the launcher starts.
absl::Status ShareMachine(bool slots_given, Flags& flags) {
  if (!flags.name.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const MachineTask task, MachineTaskOf([](const char* name) { return std::getenv(name); }));
  const std::string host = HostName(), shared_dir = flags.state_dir;
  flags.state_dir = StateDirOf(task, host, shared_dir);
  if (task.launched) flags.machine_state_dirs = {shared_dir};
  if (task.tasks == 1) return absl::OkStatus();
  const std::string several = absl::StrCat("a launcher has started ", task.tasks, " of these programs on this machine");
  const std::string unshared = flags.calibrate                                                ? "--calibrate"
                               : !flags.ready_file.empty()                                    ? "--ready-file"
                               : !flags.listen.empty() && !absl::EndsWith(flags.listen, ":0") ? "a port of --listen"
                               : flags.bind_ranks == "numa" || flags.bind_ranks == "cores"    ? "--bind-ranks"
                               : flags.gpus != "none" && flags.gpus != "auto"                 ? "--gpus"
                                                                                              : "";
  if (!unshared.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        several, ", which cannot share ", unshared,
        ": leave it out, start one task on each machine, or give --name, where this is the only adjoin-worker here"));
  }
  if (!slots_given) flags.slots = 1;
  if (flags.memory == 0) flags.memory = MemoryForRanks() / static_cast<uint64_t>(task.tasks);
  flags.gpus = "none";  // all of them would offer the same ones
  flags.name = WorkerNameOf(task, host);
  // Where one task of this machine keeps its state: a calibration is one task.
  flags.machine_state_dirs.insert(flags.machine_state_dirs.begin(),
                                  (std::filesystem::path(shared_dir) / host).string());
  if (flags.cache_dir.empty()) flags.cache_dir = (std::filesystem::path(shared_dir) / "cache" / host).string();
  LogInfo(absl::StrCat(several, ": this is worker ", flags.name, ", with ", flags.slots,
                       flags.slots == 1 ? " slot" : " slots"));
  return absl::OkStatus();
}

// Answers grpc.health.v1.Health and nothing else; the coordinator needs no connection to the daemon.
class HealthServer {
 public:
  absl::Status Start(const std::string& listen, const TlsFiles& tls) {
    ADJOIN_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(listen));
    ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials, MakeServerCredentials(endpoint, tls));
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    ADJOIN_ASSIGN_OR_RETURN(server_, StartServer(builder, std::move(credentials), &endpoint));
    LogInfo(absl::StrCat("health checks on ", endpoint.ToString()));
    return absl::OkStatus();
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

 private:
  static constexpr int kMaxRequestBytes = 64 << 10;  // the name of a service

  HealthCheckService service_{{}};
  std::unique_ptr<grpc::Server> server_;
};

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << "adjoin-worker: error: " << PrintableText(status.message()) << std::endl;
  return 1;
}

// Runs until the daemon ends by itself or a signal comes. Then a SIGINT, a person's second Ctrl-C, cuts the drain
// short. Another SIGTERM does not: Slurm sends several to one process within a moment.
absl::Status RunUntilSignal(Daemon& daemon, absl::Duration drain_limit, StopSignal& stop) {
  absl::Status status;
  std::atomic<bool> over{false};
  std::thread runner([&] {
    status = daemon.Run();
    over = true;
    kill(getpid(), SIGTERM);  // ends the waits below
  });
  stop.Wait();
  LogInfo("stopping");
  std::thread drainer([&] {
    daemon.Drain(drain_limit);
    daemon.Stop();
  });
  while (!over && stop.Wait() != SIGINT) {
  }
  daemon.Stop();
  drainer.join();
  runner.join();
  return status;
}

// Measures with as many ranks at once as there may be, but for those that would share a core.
absl::Status RunCalibration(const Flags& flags, const StopSignal& stop) {
  CalibrationOptions options;
  ADJOIN_ASSIGN_OR_RETURN(options.rank_binary, RankBinary(flags));
  ADJOIN_ASSIGN_OR_RETURN(options.user, RankUser(flags.rank_user));
  constexpr uint32_t kMost = 256;
  // Two at least, for the movements between them.
  options.ranks =
      static_cast<int>(std::clamp(std::min(flags.slots, std::max(1u, std::thread::hardware_concurrency())), 2u, kMost));
  options.seconds = absl::Seconds(flags.calibrate_seconds);
  options.stops = [&stop] { return stop.Came(); };
  ADJOIN_ASSIGN_OR_RETURN(const StateFolder state, StateFolder::Lock(flags.state_dir));
  LogInfo(absl::StrCat("measures for about ", flags.calibrate_seconds, " s with ", options.ranks,
                       " ranks at once; nothing else should run on this node"));
  ADJOIN_ASSIGN_OR_RETURN(const RateTable rates, MeasureRates(options));
  ADJOIN_RETURN_IF_ERROR(SaveRates(state.path(), rates));
  std::cout << RatesForPeople(rates) << "rates of " << rates.machine() << ", in " << state.path() << "/" << kRatesFile
            << std::endl;
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags, const WorkerCommandOptions& options, StopSignal& stop) {
  if (flags.calibrate) return RunCalibration(flags, stop);
  ADJOIN_ASSIGN_OR_RETURN(DaemonSettings settings, MakeSettings(flags));
  settings.interceptors = options.interceptors;
  ADJOIN_ASSIGN_OR_RETURN(StateFolder state, StateFolder::Lock(flags.state_dir));
  ADJOIN_ASSIGN_OR_RETURN(settings.node_id, NodeId(state.path()));
  settings.state_dir = state.path();
  ADJOIN_ASSIGN_OR_RETURN(settings.rates, LoadRates(state.path()));
  for (const std::string& folder : flags.machine_state_dirs) {
    if (settings.rates.has_value()) break;
    ADJOIN_ASSIGN_OR_RETURN(settings.rates, LoadRates(folder));
  }
  std::unique_ptr<JoinedNode> joined;
  if (!flags.join.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(joined, JoinCluster(flags, state.path(), stop, settings));
  }
  // The path of a Unix socket has at most 107 bytes, so daemon and ranks name it from within the folder.
  if (chdir(state.path().c_str()) != 0) return absl::UnavailableError(absl::StrCat("cannot enter ", state.path()));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Create(std::move(settings)));
  HealthServer health;
  if (!flags.listen.empty())
    ADJOIN_RETURN_IF_ERROR(health.Start(flags.listen, flags.join.empty() ? flags.tls : TlsFiles()));
  absl::Status status = RunUntilSignal(*daemon, absl::Seconds(flags.drain_seconds), stop);
  // No rank is left. An upload may still be under way, for which no coordinator waits any more.
  static constexpr absl::Duration kEndTimeout = absl::Seconds(5);
  Watchdog late(kEndTimeout, [&] { _exit(ExitCode(status)); });
  health.Stop();
  daemon.reset();
  joined.reset();
  return status;
}

}  // namespace

int RunWorkerCommand(int argc, char** argv, const WorkerCommandOptions& options) {
  if (IsDataCheckCommand(argc, argv)) return RunDataCheckCommand(argc, argv);
  StopSignal stop;
  RaiseFileLimit();
  Flags flags;
  CLI::App app("Runs ranks of jobs on this node for a coordinator", "adjoin-worker");
  AddOptions(app, flags);
  AddConfigSources(app, "ADJOIN_WORKER_");
  const ManPageOptions page = {.section = 8, .see_also = {"adjoin(1)", "adjoin-coordinator(8)"}};
  if (std::optional<int> code = ParseFlags(app, argc, argv, page)) return *code;
  InitLogging("adjoin-worker", ReadLogFormat(flags.log_format).value_or(LogFormat::kText));
  // absl looks for cycles of locks in builds that are not NDEBUG: the tests' business.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const absl::Status shared = ShareMachine(/*slots_given=*/app.count("--slots") > 0, flags);
  return ExitCode(shared.ok() ? Run(flags, options, stop) : shared);
}

}  // namespace adjoin
