#include "coordinator/command.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/endpoint.h"
#include "base/flags.h"
#include "base/logging.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/stop_signal.h"
#include "coordinator/artifact_relay.h"
#include "coordinator/hub.h"
#include "coordinator/log_store.h"
#include "coordinator/user_service.h"
#include "coordinator/worker_service.h"

namespace adjoin {
namespace {

struct Settings {
  std::string listen = "127.0.0.1:7411";
  std::string advertise;
  std::string port_file;
  std::string state_dir = "adjoin-coordinator-state";
  double heartbeat_seconds = 1;
  double worker_timeout_seconds = 10;
  double start_timeout_seconds = 120;
  int64_t log_bytes = 16 << 20;
  size_t keep_jobs = 1000;
};

void AddOptions(CLI::App& app, Settings& settings) {
  app.add_option("--listen", settings.listen, "HOST:PORT to listen on; port 0 takes a free one")->capture_default_str();
  app.add_option("--advertise", settings.advertise, "HOST:PORT under which others reach it; absent: where it listens");
  app.add_option("--port-file", settings.port_file, "Write the address to this file once it listens");
  app.add_option("--state-dir", settings.state_dir, "Folder for the jobs' logs")->capture_default_str();
  app.add_option("--heartbeat-seconds", settings.heartbeat_seconds, "How often workers report that they live")
      ->capture_default_str()->check(CLI::Range(0.01, 3600.0));
  app.add_option("--worker-timeout-seconds", settings.worker_timeout_seconds, "Without a word for so long, a worker is lost")
      ->capture_default_str()->check(CLI::Range(0.1, 3600.0));
  app.add_option("--start-timeout-seconds", settings.start_timeout_seconds, "For all ranks of a job to start")
      ->capture_default_str()->check(CLI::Range(0.1, 3600.0));
  app.add_option("--log-bytes", settings.log_bytes, "Bytes of log kept per job; the oldest lines go first")
      ->capture_default_str()->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 40));
  app.add_option("--keep-jobs", settings.keep_jobs, "Ended jobs that it remembers, with their logs; the oldest go first")
      ->capture_default_str()->check(CLI::Range(1, 1000000));
}

// One more than the highest job of earlier runs. Their logs stay, for whoever looks into the folder, except the oldest.
uint64_t FirstJobNumber(const std::string& jobs_folder, size_t keep) {
  std::map<uint64_t, std::filesystem::path> jobs;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(jobs_folder, ignored)) {
    std::string name = entry.path().filename().string();
    uint64_t number = 0;
    if (absl::StartsWith(name, "job-") && absl::SimpleAtoi(name.substr(4), &number)) jobs[number] = entry.path();
  }
  for (; jobs.size() > keep; jobs.erase(jobs.begin())) std::filesystem::remove_all(jobs.begin()->second, ignored);
  return jobs.empty() ? 1 : jobs.rbegin()->first + 1;
}

CoordinationOptions MakeOptions(const Settings& settings, const std::string& jobs_folder) {
  CoordinationOptions options;
  options.wall_clock = [] { return absl::Now(); };
  options.monotonic_clock = [] { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); };
  options.heartbeat = absl::Seconds(settings.heartbeat_seconds);
  options.worker_timeout = absl::Seconds(settings.worker_timeout_seconds);
  options.start_timeout = absl::Seconds(settings.start_timeout_seconds);
  options.first_job_number = FirstJobNumber(jobs_folder, settings.keep_jobs);
  options.keep_jobs = settings.keep_jobs;
  return options;
}

absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(const Endpoint& listen, UserService& users,
                                                          WorkerService& workers, Endpoint* bound) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  *bound = listen;
  builder.AddListeningPort(listen.ToString(), grpc::InsecureServerCredentials(), &bound->port);
  builder.RegisterService(&users);
  builder.RegisterService(&workers);
  builder.SetMaxReceiveMessageSize(16 << 20);  // specs have a smaller limit of their own, with a message that says so
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two coordinators on one port would share its clients
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound->port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen.ToString(), ": is the port in use?"));
  }
  return server;
}

absl::Status Run(const Settings& settings, const LayerRules& rules, StopSignal& stop) {
  ADJOIN_ASSIGN_OR_RETURN(Endpoint listen, ParseEndpoint(settings.listen));
  if (!listen.IsLoopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", settings.listen, " can be reached from other machines, which needs mutual TLS, and that "
                     "is not supported yet: listen on loopback, such as 127.0.0.1:7411"));
  }
  if (settings.worker_timeout_seconds < 2 * settings.heartbeat_seconds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--worker-timeout-seconds ", settings.worker_timeout_seconds, " would lose workers that are well: it has to be at "
        "least twice --heartbeat-seconds, which is ", settings.heartbeat_seconds));
  }
  ADJOIN_ASSIGN_OR_RETURN(StateFolder state, StateFolder::Lock(settings.state_dir));
  std::string jobs_folder = state.path() + "/jobs";
  ADJOIN_RETURN_IF_ERROR(MakeFolders(jobs_folder));

  LogStore logs(jobs_folder, settings.log_bytes);
  Hub hub(MakeOptions(settings, jobs_folder), [&logs](const std::string& job_id) {
    if (absl::Status status = logs.Remove(job_id); !status.ok()) LogError(std::string(status.message()));
  });
  ArtifactRelay relay;
  UserService users(hub, logs, relay, rules);
  WorkerService workers(hub, logs, relay, absl::Seconds(settings.worker_timeout_seconds));
  Endpoint bound;
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<grpc::Server> server, StartServer(listen, users, workers, &bound));
  std::string address = settings.advertise.empty() ? bound.ToString() : settings.advertise;
  if (!settings.port_file.empty()) ADJOIN_RETURN_IF_ERROR(WriteFileAtomically(settings.port_file, address + "\n"));
  LogInfo(absl::StrCat("listening on ", bound.ToString(), ", state in ", state.path()));

  stop.Wait();
  LogInfo("stopping");
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return absl::OkStatus();
}

}  // namespace

int RunCoordinatorCommand(int argc, char** argv, const LayerRules& rules) {
  StopSignal stop;
  Settings settings;
  CLI::App app("Admits jobs, places their ranks on worker daemons and answers `adjoin`", "adjoin-coordinator");
  AddOptions(app, settings);
  AddConfigSources(app, "ADJOIN_COORDINATOR_");
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  InitLogging("adjoin-coordinator");
  absl::Status status = Run(settings, rules, stop);
  if (status.ok()) return 0;
  std::cerr << "adjoin-coordinator: error: " << status.message() << "\n";
  return 1;
}

}  // namespace adjoin
