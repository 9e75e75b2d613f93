#include "coordinator/command.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/endpoint.h"
#include "base/file_limit.h"
#include "base/flags.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/security/certificate.h"
#include "base/security/certificate_issuer.h"
#include "base/security/certificate_request.h"
#include "base/security/malformed_requests.h"
#include "base/security/start_server.h"
#include "base/security/tls.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/stop_signal.h"
#include "base/watchdog.h"
#include "coordinator/decisions/user_limits.h"
#include "coordinator/logs/log_store.h"
#include "coordinator/logs/log_writer.h"
#include "coordinator/page/http_server.h"
#include "coordinator/page/page_answers.h"
#include "coordinator/page/page_service.h"
#include "coordinator/planning/planner_pool.h"
#include "coordinator/planning/planner_process.h"
#include "coordinator/services/access.h"
#include "coordinator/services/artifact_relay.h"
#include "coordinator/services/hub.h"
#include "coordinator/services/metrics.h"
#include "coordinator/services/node_certificates.h"
#include "coordinator/services/self_check.h"
#include "coordinator/services/served_call.h"
#include "coordinator/services/spec_planning.h"
#include "coordinator/services/stored_tokens.h"
#include "coordinator/services/token_book.h"
#include "coordinator/services/user_calls.h"
#include "coordinator/services/user_service.h"
#include "coordinator/services/worker_service.h"
#include "coordinator/store/store.h"
#include "proto/health_check_service.h"
#include "proto/keepalive.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

struct Settings {
  std::string listen = "127.0.0.1:7411";
  std::string advertise;
  std::string port_file;
  std::string state_dir = "adjoin-coordinator-state";
  double heartbeat_seconds = 1;
  double heartbeats_per_second = 1000;
  double suspect_seconds = 3;
  double worker_timeout_seconds = 10;
  double reattach_seconds = 30;
  double lease_seconds = 120;
  double progress_seconds = 60;
  double first_step_seconds = 600;
  uint32_t restarts_without_progress = 3;
  double start_timeout_seconds = 120;
  double self_check_seconds = 5;
  int64_t log_bytes = 16 << 20;
  int planners = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2u, 8u));
  double plan_seconds = 60;
  uint64_t plan_memory_mb = 4096;
  size_t max_queued_jobs = 100000;
  int64_t max_queued_mb = 2048;
  size_t keep_jobs = 1000;
  size_t keep_jobs_total = 10000;
  int64_t keep_mb_total = 1024;
  int32_t max_user_priority = 0;
  std::string user_slots, user_queued_jobs;
  std::string metrics_listen;
  bool metrics_public = false;
  std::string page_listen;
  bool accept_loss = false;
  std::string log_format = "text";
  TlsFiles tls;
  std::string issue_cert, issue_key;
  double certificate_hours = 24;
};

void AddSeconds(CLI::App& app, const std::string& flag, double& value, const std::string& help) {
  app.add_option(flag, value, help)->capture_default_str()->check(CLI::Range(0.1, 86400.0));
}

void AddOptions(CLI::App& app, Settings& settings) {
  app.add_option("--listen", settings.listen, "HOST:PORT to listen on; port 0 takes a free one")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--advertise", settings.advertise, "HOST:PORT under which others reach it; absent: where it listens")
      ->type_name("HOST:PORT");
  app.add_option("--port-file", settings.port_file, "Write the address to this file once it listens")
      ->type_name("FILE");
  app.add_option("--state-dir", settings.state_dir, "Folder for the store and the jobs' logs")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_flag(
      "--accept-loss", settings.accept_loss,
      "Go on where the store is found to be older than it was or to lack rows: once, after a refusal to start");
  app.add_option("--heartbeat-seconds", settings.heartbeat_seconds, "How often workers report that they live")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--heartbeats-per-second", settings.heartbeats_per_second,
                 "Of all workers together: beyond that, each reports further apart, and is waited for longer; ranks "
                 "report their progress no more often, either")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  AddSeconds(app, "--suspect-seconds", settings.suspect_seconds,
             "Without a word for so long, a worker gets nothing new");
  AddSeconds(app, "--worker-timeout-seconds", settings.worker_timeout_seconds,
             "Without a word for so long, a worker is lost, and what ran there is restarted");
  AddSeconds(app, "--reattach-seconds", settings.reattach_seconds,
             "The same after a start of the coordinator, for workers that ran jobs before");
  AddSeconds(app, "--lease-seconds", settings.lease_seconds,
             "So long ranks run on without the coordinator; then they are killed");
  AddSeconds(app, "--progress-seconds", settings.progress_seconds,
             "A job that finishes no step in so long, or in ten times the median of its steps, is stuck");
  AddSeconds(app, "--first-step-seconds", settings.first_step_seconds, "The same for its first step");
  app.add_option("--restarts-without-progress", settings.restarts_without_progress,
                 "So many restarts in a row that come no further than before end a job")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  AddSeconds(app, "--start-timeout-seconds", settings.start_timeout_seconds, "For all ranks of a job to start");
  AddSeconds(
      app, "--self-check-seconds", settings.self_check_seconds,
      "How often it connects to itself and calls itself; when that failed three times, it ends, to be started again");
  app.add_option("--log-bytes", settings.log_bytes, "Bytes of log kept per job; the oldest lines go first")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 40));
  app.add_option("--planners", settings.planners,
                 "So many plans are made at once, each in a process of its own; absent: as many as cores, but 2 to 8")
      ->check(CLI::Range(2, 64));
  AddSeconds(app, "--plan-seconds", settings.plan_seconds, "The plan of a job may take so long; else it is refused");
  app.add_option("--plan-memory-mb", settings.plan_memory_mb, "A process that makes plans may use so many MiB")
      ->capture_default_str()
      ->check(CLI::Range(256, 1 << 20));
  app.add_option("--max-queued-jobs", settings.max_queued_jobs, "So many jobs may wait; more are refused")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000000));
  app.add_option("--max-queued-mb", settings.max_queued_mb,
                 "The specs of jobs that wait and run may take so many MiB of memory; more are refused")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--keep-jobs", settings.keep_jobs,
                 "Ended jobs of one owner that it remembers, with their logs; the oldest go first")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--keep-jobs-total", settings.keep_jobs_total,
                 "The same for all owners together; the owner with the most loses the oldest")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--keep-mb-total", settings.keep_mb_total,
                 "MiB of memory for the specs of ended jobs; the owner with the most loses the oldest")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-user-priority", settings.max_user_priority,
                 "The highest priority that users may give their jobs; admins may give any")
      ->capture_default_str();
  app.add_option(
      "--user-slots", settings.user_slots,
      "Slots that the jobs of a user may have at a time: N for all, NAME=N for one, separated by commas, as in "
      "16,alice=32,bob=unlimited; absent: no limit");
  app.add_option("--user-queued-jobs", settings.user_queued_jobs, "Jobs of a user that may wait, likewise");
  app.add_option("--metrics-listen", settings.metrics_listen,
                 "HOST:PORT of Prometheus' /metrics, in plain HTTP; port 0 takes a free one; absent: none")
      ->type_name("HOST:PORT");
  app.add_flag("--metrics-public", settings.metrics_public, "Let --metrics-listen be reached from other machines");
  app.add_option(
         "--page-listen", settings.page_listen,
         "HOST:PORT of the page for browsers, over TLS where the --tls flags are given; port 0 takes a free one; "
         "absent: none")
      ->type_name("HOST:PORT");
  app.add_option("--log-format", settings.log_format, "text, or json: an object on each line")->capture_default_str();
  OneOf(app.get_option("--log-format"), {"text", "json"});
  AddTlsOptions(app, settings.tls);
  app.add_option("--issue-cert", settings.issue_cert,
                 "PEM file with the certificate of an authority in --tls-ca, with which workers that join get theirs; "
                 "absent: none can join")
      ->type_name("FILE");
  app.add_option("--issue-key", settings.issue_key, "PEM file with its private key")->type_name("FILE");
  app.add_option("--certificate-hours", settings.certificate_hours,
                 "So long a worker's certificate is valid; it is renewed after two thirds of that")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 8784.0).description(""));
}

// Null where no authority is given. Errors: as CertificateIssuer::Open; kInvalidArgument.
absl::StatusOr<std::unique_ptr<CertificateIssuer>> OpenIssuer(const Settings& settings) {
  if (settings.issue_cert.empty() && settings.issue_key.empty()) return nullptr;
  if (settings.issue_cert.empty() || settings.issue_key.empty()) {
    return absl::InvalidArgumentError("certificates are issued with both of --issue-cert and --issue-key");
  }
  if (!settings.tls.Given()) {
    return absl::InvalidArgumentError(
        "--issue-cert is for a coordinator that speaks TLS: give --tls-ca, --tls-cert and --tls-key, too");
  }
  absl::StatusOr<std::unique_ptr<CertificateIssuer>> issuer =
      CertificateIssuer::Open(settings.issue_cert, settings.issue_key);
  if (!issuer.ok()) {
    return absl::Status(issuer.status().code(),
                        absl::StrCat("--issue-cert and --issue-key: ", std::string(issuer.status().message())));
  }
  if (const absl::Status sendable = CheckHasNoPrivateKey(settings.tls.ca); !sendable.ok()) {
    return absl::Status(sendable.code(), absl::StrCat("--tls-ca: ", std::string(sendable.message())));
  }
  // What it issues has to be trusted here: a try.
  ADJOIN_ASSIGN_OR_RETURN(const KeyAndRequest own, MakeKeyAndRequest());
  ADJOIN_ASSIGN_OR_RETURN(const RequestedKey key, RequestedKey::Read(own.request_der));
  ADJOIN_ASSIGN_OR_RETURN(const IssuedCertificate tried, (*issuer)->Issue(key, "try", absl::Now(), absl::Hours(1)));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Authorities> authorities, Authorities::Open(settings.tls.ca));
  absl::Status trusted = authorities->Check(tried.pem, tried.pem, CertificatePurpose::kClient, absl::Now()).status();
  if (trusted.ok()) return issuer;
  return absl::InvalidArgumentError(absl::StrCat("--issue-cert ", settings.issue_cert,
                                                 ": what it signs is not trusted ", "by --tls-ca ", settings.tls.ca,
                                                 ": ", std::string(trusted.message())));
}

absl::StatusOr<UserLimits> LimitsOf(const Settings& settings) {
  UserLimits limits;
  for (const auto& [flag, text, limit] :
       {std::tuple("--user-slots", &settings.user_slots, &limits.slots),
        std::tuple("--user-queued-jobs", &settings.user_queued_jobs, &limits.queued_jobs)}) {
    absl::StatusOr<UserLimit> parsed = UserLimit::Parse(*text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": ", std::string(parsed.status().message())));
    }
    *limit = *std::move(parsed);
  }
  return limits;
}

CoordinationOptions MakeOptions(const Settings& settings, UserLimits limits, const AssignmentPolicy& assignment) {
  CoordinationOptions options;
  options.wall_clock = [] { return absl::Now(); };
  options.monotonic_clock = [] { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); };
  options.heartbeat = absl::Seconds(settings.heartbeat_seconds);
  options.heartbeats_per_second = settings.heartbeats_per_second;
  options.suspect_after = absl::Seconds(settings.suspect_seconds);
  options.dead_after = absl::Seconds(settings.worker_timeout_seconds);
  options.reattach = absl::Seconds(settings.reattach_seconds);
  options.lease = absl::Seconds(settings.lease_seconds);
  options.start_timeout = absl::Seconds(settings.start_timeout_seconds);
  options.progress.shortest = absl::Seconds(settings.progress_seconds);
  options.progress.first_step = absl::Seconds(settings.first_step_seconds);
  options.restarts_without_progress = settings.restarts_without_progress;
  options.max_queued_jobs = settings.max_queued_jobs;
  options.max_queued_bytes = static_cast<size_t>(settings.max_queued_mb) << 20;
  options.user_limits = std::move(limits);
  options.keep_jobs = settings.keep_jobs;
  options.keep_jobs_total = settings.keep_jobs_total;
  options.keep_bytes_total = static_cast<size_t>(settings.keep_mb_total) << 20;
  options.assignment = assignment;
  return options;
}

struct Services {
  HealthCheckService& health;
  UserService& users;
  WorkerService& workers;
};

absl::StatusOr<std::unique_ptr<grpc::Server>> Serve(const Endpoint& listen, const TlsFiles& tls, Services services,
                                                    Endpoint* bound) {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials, MakeServerCredentials(listen, tls));
  grpc::ServerBuilder builder;
  builder.RegisterService(&services.health);
  builder.RegisterService(&services.users);
  builder.RegisterService(&services.workers);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingAfterMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<MalformedRequestFactory>());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  *bound = listen;
  return StartServer(builder, std::move(credentials), bound);
}

// Starts the page, where one is asked for.
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(const Settings& settings, PageService& page) {
  if (settings.page_listen.empty()) return nullptr;
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(settings.page_listen);
  absl::StatusOr<std::unique_ptr<HttpServer>> server =
      endpoint.ok() ? HttpServer::Start(*endpoint, settings.tls, {},
                                        [&page](const HttpRequest& request) { return page.Answer(request); })
                    : endpoint.status();
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("--page-listen: ", std::string(server.status().message())));
  }
  endpoint->port = (*server)->port();
  LogInfo(absl::StrCat("the page is at http", settings.tls.Given() ? "s" : "", "://", endpoint->ToString(), "/"));
  return server;
}

absl::Status CheckSettings(const Settings& settings) {
  auto too_short = [](const std::string& flag, double value, const std::string& why, const std::string& than,
                      double least) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", value, " ", why, ": it has to be at least ", than, ", which is ", least));
  };
  if (settings.suspect_seconds < 2 * settings.heartbeat_seconds) {
    return too_short("--suspect-seconds", settings.suspect_seconds, "would suspect workers that are well",
                     "twice --heartbeat-seconds", 2 * settings.heartbeat_seconds);
  }
  if (settings.worker_timeout_seconds < settings.suspect_seconds) {
    return too_short("--worker-timeout-seconds", settings.worker_timeout_seconds, "would lose workers that are well",
                     "--suspect-seconds", settings.suspect_seconds);
  }
  if (settings.lease_seconds < settings.worker_timeout_seconds) {
    return too_short("--lease-seconds", settings.lease_seconds, "would end ranks whose worker is not lost yet",
                     "--worker-timeout-seconds", settings.worker_timeout_seconds);
  }
  return absl::OkStatus();
}

// Another start would end alike: a person has to look (deploy/adjoin-coordinator.service).
constexpr int kExitStateRefused = 3;

// A server that is deaf may not end, either.
constexpr absl::Duration kEndTimeout = absl::Seconds(10);

// Returns the program's exit code after this error.
int ExitCodeOf(const absl::Status& status) { return absl::IsDataLoss(status) ? kExitStateRefused : 1; }

absl::Status Run(const Settings& settings, const AssignmentPolicy& assignment, StopSignal& stop) {
  std::optional<Watchdog> late;  // first: it watches the end of the rest
  ADJOIN_ASSIGN_OR_RETURN(Endpoint listen, ParseEndpoint(settings.listen));
  ADJOIN_RETURN_IF_ERROR(CheckSettings(settings));
  ADJOIN_ASSIGN_OR_RETURN(UserLimits user_limits, LimitsOf(settings));
  ADJOIN_ASSIGN_OR_RETURN(StateFolder state, StateFolder::Lock(settings.state_dir));
  std::string jobs_folder = state.path() + "/jobs";
  ADJOIN_RETURN_IF_ERROR(MakeFolders(jobs_folder));
  // First what may be refused: --accept-loss counts once.
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<CertificateIssuer> issuer, OpenIssuer(settings));
  // Set by the thread that finds the store damaged, which ends the wait for a signal below.
  absl::Mutex broken_mutex;
  absl::Status broken;
  StoreOptions store_options;
  store_options.accept_loss = settings.accept_loss;
  store_options.on_data_loss = [&](const absl::Status& why) {
    absl::MutexLock lock(&broken_mutex);
    broken = why;
    kill(getpid(), SIGTERM);
  };
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(state.path() + "/adjoin.db", store_options));
  ADJOIN_ASSIGN_OR_RETURN(StoredState stored, store->Load());
  if (!stored.lost.empty()) {
    LogError(absl::StrCat("--accept-loss: the store goes on without what is missing: ", stored.lost));
    LogWarning(
        "all join tokens are revoked, since their uses may be missing. Certificates and revocations of nodes may be, "
        "too: repeat `adjoin node revoke` where it matters, and give nodes that are not renewed a new token");
  } else if (settings.accept_loss) {
    LogWarning("--accept-loss: nothing is missing; start without it from now on");
  }
  StoredTokens stored_tokens(*store);
  TokenBook tokens(stored_tokens);
  ADJOIN_RETURN_IF_ERROR(tokens.Load());
  if (const size_t users = tokens.List().size(); !stored.lost.empty() && users > 0) {
    LogWarning(absl::StrCat(users,
                            " tokens of users are in the store; those that were revoked in the time that is missing ",
                            "count again. `adjoin token list` shows them: repeat `adjoin token revoke`"));
  }
  NodeCertificates nodes(*store, std::move(issuer),
                         {.lifetime = absl::Hours(settings.certificate_hours),
                          .authorities_file = settings.tls.ca,
                          .certificate_file = settings.tls.cert,
                          .clock = nullptr});
  ADJOIN_RETURN_IF_ERROR(nodes.Load());
  Access::Options access_options;
  access_options.tls_ca = settings.tls.ca;
  access_options.check_node = [&nodes](const std::string& node, const Certificate& certificate) {
    return nodes.CheckNotRevoked(node, certificate);
  };
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Access> access, Access::Create(access_options, &tokens));

  LogStore logs(jobs_folder, settings.log_bytes);
  LogWriter log_writer(
      {[&logs](const std::string& job, const std::vector<LogLine>& lines) { return logs.Append(job, lines); },
       [&logs](const std::string& job) { return logs.Remove(job); }});
  PlannerProcessOptions planner_process;
  planner_process.limit = absl::Seconds(settings.plan_seconds);
  planner_process.memory_bytes = settings.plan_memory_mb << 20;
  PlannerPool planner({.planners = settings.planners},
                      [planner_process] { return std::make_unique<PlannerProcess>(planner_process); });
  Hub hub(MakeOptions(settings, std::move(user_limits), assignment), store.get(), &planner, std::move(stored),
          &PlacesOf, [&log_writer](const std::string& job_id) { log_writer.Remove(job_id); });
  ArtifactRelay relay;
  FolderRemovals removals;
  UserCalls calls({hub, *store, logs, log_writer, relay});
  UserService users({hub, calls, removals, *access, tokens, nodes, planner, settings.max_user_priority});
  WorkerService workers(hub, log_writer, relay, removals, *access, nodes,
                        absl::Seconds(settings.worker_timeout_seconds));
  HealthCheckService health({Adjoin::service_full_name(), WorkerLink::service_full_name()});
  Endpoint bound;
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<grpc::Server> server,
                          Serve(listen, settings.tls, {health, users, workers}, &bound));
  const auto look = [&hub] {
    SnapshotInSteps made;
    hub.Browse(
        "the metrics", [] { return false; }, [&](CoordinationService& service) { return service.Continue(made); });
    return std::move(made.snapshot);
  };
  Metrics metrics(look, hub.commit_seconds());
  if (!settings.metrics_listen.empty()) {
    ADJOIN_RETURN_IF_ERROR(metrics.Listen(settings.metrics_listen, settings.metrics_public));
    LogInfo(absl::StrCat("metrics on port ", metrics.port()));
  }
  PageAnswers page_answers({hub, calls, planner});
  PageService page(*access, page_answers);
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> page_server, ServePage(settings, page));
  std::string address = settings.advertise.empty() ? bound.ToString() : settings.advertise;
  if (!settings.port_file.empty()) ADJOIN_RETURN_IF_ERROR(WriteFileAtomically(settings.port_file, address + "\n"));
  LogInfo(absl::StrCat("listening on ", bound.ToString(), ", state in ", state.path()));

  ServedCall served(*server);
  absl::Status deaf;
  std::unique_ptr<SelfCheck> self_check;
  {
    SelfCheck::Options options;
    options.period = absl::Seconds(settings.self_check_seconds);
    options.serves = [&served](absl::Duration limit) { return served(limit); };
    ADJOIN_ASSIGN_OR_RETURN(self_check, SelfCheck::Start(bound, options, [&deaf](const std::string& why) {
                              deaf = absl::InternalError(why);
                              kill(getpid(), SIGTERM);  // ends the wait below
                            }));
  }
  stop.Wait();
  self_check.reset();
  {
    absl::MutexLock lock(&broken_mutex);
    if (deaf.ok() && !broken.ok()) {
      deaf = absl::Status(broken.code(), absl::StrCat("the store is damaged, so nothing can be accepted or decided: ",
                                                      std::string(broken.message())));
    }
  }
  if (!deaf.ok()) {
    LogError(std::string(deaf.message()));
    late.emplace(kEndTimeout, [code = ExitCodeOf(deaf)] { _exit(code); });
  }
  planner.Stop();
  page_answers.Stop();
  page_server.reset();
  LogInfo("stopping: jobs that run go on, and are found again at the next start");
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return deaf;
}

}  // namespace

int RunCoordinatorCommand(int argc, char** argv, const LayerRules& rules, const AssignmentPolicy& assignment) {
  if (IsPlannerProcess(argc, argv)) return RunPlannerProcess(argv, rules);
  StopSignal stop;
  RaiseFileLimit();
  Settings settings;
  CLI::App app("Admits jobs, assigns their ranks to worker daemons and answers `adjoin`", "adjoin-coordinator");
  AddOptions(app, settings);
  AddConfigSources(app, "ADJOIN_COORDINATOR_");
  const ManPageOptions page = {.section = 8, .see_also = {"adjoin(1)", "adjoin-worker(8)"}};
  if (std::optional<int> code = ParseFlags(app, argc, argv, page)) return *code;
  InitLogging("adjoin-coordinator", ReadLogFormat(settings.log_format).value_or(LogFormat::kText));
  // absl looks for cycles of locks in builds that are not NDEBUG: the tests' business.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::Status status = Run(settings, assignment, stop);
  if (status.ok()) return 0;
  std::cerr << "adjoin-coordinator: error: " << PrintableText(status.message()) << "\n";
  return ExitCodeOf(status);
}

}  // namespace adjoin
