#include "worker/rank/rank_command.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/deadline.h"
#include "base/flags.h"
#include "base/hopeless_failure.h"
#include "base/infrastructure_failure.h"
#include "base/number_ranges.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "primitives/open_device.h"
#include "primitives/tensor_memory.h"
#include "primitives/transport/transport_factory.h"
#include "proto/plan.pb.h"
#include "worker/rank/calibrate_command.h"
#include "worker/rank/calibrate_flags.h"
#include "worker/rank/gpu_lines.h"
#include "worker/rank/rank_devices.h"
#include "worker/rank/rank_process_link.h"
#include "worker/session/session.h"
#include "worker/session/trace_requests.h"
#include "worker/training/session_activity.h"

namespace adjoin {
namespace {

constexpr absl::Duration kDaemonTimeout = absl::Seconds(60);
// Longer than the coordinator's limit for starting an attempt, which gives the better message.
constexpr absl::Duration kPeersTimeout = absl::Seconds(180);
// The deadline of each wait for another rank. A rank may read slow files for long. The coordinator finds a job that
// hangs, from the pulses of all its ranks, and the lease ends this process where the coordinator cannot reach it.
constexpr absl::Duration kRankTimeout = absl::Hours(6);
constexpr absl::Duration kBetweenPulses = absl::Seconds(1);
constexpr absl::Duration kResultTimeout = absl::Seconds(5);
constexpr absl::Duration kAbortGrace = absl::Milliseconds(1500);

absl::StatusOr<Plan> ReadPlan(const RankStart& start) {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InternalError("the plan cannot be read");
  std::string hash = Planner::Hash(plan);
  if (hash != start.plan_hash()) {
    return absl::FailedPreconditionError(absl::StrCat("this rank's plan has the hash ", hash, ", the coordinator's ",
                                                      start.plan_hash(), ": use the same release everywhere"));
  }
  return plan;
}

// "0-2,4: posix/memory; 5-255: tcp/eth0". The coordinator keeps it of every rank: not a word for each pair.
std::string DescribeLanes(const Transport& transport) {
  std::map<std::string, std::vector<int>> peers;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != transport.rank()) peers[transport.Describe(peer)].push_back(peer);
  }
  std::vector<std::string> lanes;
  for (const auto& [lane, ranks] : peers) lanes.push_back(absl::StrCat(NumberRanges(ranks), ": ", lane));
  return absl::StrJoin(lanes, "; ");
}

// The abort of the transport ends every wait; a rank that is elsewhere (computing, reading) is ended by this.
void EndSoon() {
  std::thread([] {
    absl::SleepFor(kAbortGrace);
    _exit(1);
  }).detach();
}

// How the transport ended.
struct Disturbance {
  bool disturbed = false;
  bool aborted_by_peer = false;
};

// Reports what the session does, once a second and at every change of phase. Its thread uses no LibTorch, so it reports
// also where the session hangs.
class PulseSender {
 public:
  PulseSender(RankProcessLink& link, SessionActivity& activity, uint32_t rank)
      : activity_(activity), thread_([this, &link, rank] { Run(link, rank); }) {}
  ~PulseSender() {
    activity_.Close();
    thread_.join();
  }

 private:
  void Run(RankProcessLink& link, uint32_t rank) {
    uint64_t phase = 0;
    do {
      RankPulse pulse = activity_.Now();
      pulse.set_rank(rank);
      link.SendPulse(pulse);
    } while (activity_.AwaitPhase(&phase, Deadline::After(kBetweenPulses)));
  }

  SessionActivity& activity_;
  std::thread thread_;
};

// Set when the daemon asks for a drain, from its construction on.
class DrainFlag {
 public:
  explicit DrainFlag(RankProcessLink& link) : link_(link) {
    link_.OnDrain([this] { asked_ = true; });
  }
  ~DrainFlag() { link_.OnDrain(nullptr); }
  const std::atomic<bool>* asked() const { return &asked_; }

 private:
  RankProcessLink& link_;
  std::atomic<bool> asked_{false};
};

// Takes in what the daemon asks for, from its construction on.
class TracesAsked {
 public:
  explicit TracesAsked(RankProcessLink& link) : link_(link) {
    link_.OnTrace([this](const RankTrace& trace) { requests_.Ask({trace.request_id(), trace.steps()}); });
  }
  ~TracesAsked() { link_.OnTrace(nullptr); }
  TraceRequests* requests() { return &requests_; }

 private:
  RankProcessLink& link_;
  TraceRequests requests_;
};

// The device that the daemon gave this rank; the host's memory where it gave none.
absl::StatusOr<OpenedDevice> OpenDeviceFor(const RankStart& start, const RankDevices& devices) {
  if (start.device().empty()) return OpenedDevice();
  absl::StatusOr<OpenedDevice> opened = devices.Open(start.device());
  if (opened.ok()) return opened;
  // The daemon found that it works when it started: the node is to blame, not the job.
  return InfrastructureFailure(absl::Status(
      opened.status().code(), absl::StrCat("its GPU cannot be used: ", std::string(opened.status().message()),
                                           "; adjoin-worker --gpus names those of the node that ranks may use")));
}

absl::StatusOr<RankResult> RunJob(RankProcessLink& link, const RankProcessLink::Settings& settings,
                                  const RankStart& start, const LayerRegistry& layers, const LayerRules& rules,
                                  const RankDevices& devices, Disturbance* disturbance) {
  const DrainFlag drain(link);
  TracesAsked traces(link);
  SessionActivity activity;
  const PulseSender pulses(link, activity, settings.rank);
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, ReadPlan(start));
  TransportOptions options;
  options.rank = static_cast<int>(settings.rank);
  options.size = static_cast<int>(start.world_size());
  options.other_nodes = !start.single_node();
  options.net_devices = start.net_device();
  options.port_range = start.port_range();
  ADJOIN_ASSIGN_OR_RETURN(const OpenedDevice opened, OpenDeviceFor(start, devices));
  options.device = opened.device;
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, MakeTransport(options));
  link.OnAbort([&transport](const absl::Status& reason) {
    transport->Abort(reason);
    EndSoon();
  });
  struct ForgetTransport {
    RankProcessLink& link;
    const Transport& transport;
    Disturbance* disturbance;
    ~ForgetTransport() {
      link.OnAbort(nullptr);
      *disturbance = {transport.Disturbed(), transport.AbortedByPeer()};
    }
  } forget{link, *transport, disturbance};

  link.SendTransportAddress(transport->Address());
  ADJOIN_ASSIGN_OR_RETURN(RankConnect connect, link.WaitForConnect(Deadline::After(kPeersTimeout)));
  ADJOIN_RETURN_IF_ERROR(transport->Connect({connect.transport_address().begin(), connect.transport_address().end()},
                                            Deadline::After(kPeersTimeout)));
  link.SendTransport(DescribeLanes(*transport));

  SessionOptions session;
  session.plan = std::move(plan);
  session.data_root = start.data_root();
  session.output_root = start.output_root();
  session.cache_dir = start.cache_dir();
  session.cache_bytes = start.cache_bytes();
  session.rates = start.rates();
  session.transport = transport.get();
  session.layers = &layers;
  session.rules = &rules;
  session.memory = opened.memory.get();
  session.timeout = kRankTimeout;
  session.store_id = start.store_id();
  session.job_tag = start.job_tag();
  session.epoch = settings.epoch;
  session.job_id = settings.job_id;
  session.drain = drain.asked();
  session.traces = traces.requests();
  session.activity = &activity;
  session.on_progress = [&link](const JobProgress& progress) { link.SendProgress(progress); };
  session.log = [](const std::string& line) { std::cout << line << std::endl; };
  ReuseTensorMemory();
  ADJOIN_ASSIGN_OR_RETURN(SessionResult done, RunSession(session));
  {
    const SessionActivity::Waits waits(&activity, "the end of all ranks");
    ADJOIN_RETURN_IF_ERROR(transport->Close(Deadline::After(kRankTimeout)));
  }
  RankResult result;
  result.set_end(done.drained_step.has_value() ? RANK_DRAINED : RANK_SUCCEEDED);
  result.set_drained_step(done.drained_step.value_or(0));
  for (const std::string& artifact : done.artifacts) result.add_artifact(artifact);
  return result;
}

// It failed only because a peer did, or because it was told to stop. Files, too, are kUnavailable (a full disk), but
// then all peers are well.
RankEnd HowItEnded(const absl::Status& status, const Disturbance& disturbance) {
  // All ranks find alike that a loss is not finite, whatever the first of them to end does to the others.
  if (absl::IsOutOfRange(status) || IsHopelessFailure(status)) return RANK_HOPELESS;
  if (absl::IsAborted(status) || disturbance.aborted_by_peer) return RANK_PEER_FAILED;
  if (IsInfrastructureFailure(status)) return RANK_LOST;
  if (absl::IsUnavailable(status) && disturbance.disturbed) return RANK_PEER_FAILED;
  return RANK_ERROR;
}

int Run(const RankProcessLink::Settings& settings, const LayerRegistry& layers, const LayerRules& rules,
        const RankDevices& devices) {
  auto link = RankProcessLink::Connect(settings, Deadline::After(kDaemonTimeout));
  if (!link.ok()) {
    std::cerr << link.status().message() << "\n";
    return 1;
  }
  absl::StatusOr<RankStart> start = (*link)->WaitForStart(Deadline::After(kDaemonTimeout));
  Disturbance disturbance;
  absl::StatusOr<RankResult> result =
      start.ok() ? RunJob(**link, settings, *start, layers, rules, devices, &disturbance) : start.status();
  if (result.ok()) {
    (*link)->SendResult(*result, Deadline::After(kResultTimeout));
    return 0;
  }
  RankResult failure;
  failure.set_error(std::string(result.status().message()));
  failure.set_end(HowItEnded(result.status(), disturbance));
  std::cerr << "failed: " << result.status().message() << "\n";
  (*link)->SendResult(failure, Deadline::After(kResultTimeout));
  return 1;
}

}  // namespace

int RunRankCommand(int argc, char** argv, const LayerRegistry& layers, const RankDevices& devices) {
  return RunRankCommand(argc, argv, layers, BuiltinLayerRules(), devices);
}

int RunRankCommand(int argc, char** argv, const LayerRegistry& layers, const LayerRules& rules,
                   const RankDevices& devices) {
  if (argc == 2 && absl::string_view(argv[1]) == kListGpus) {
    std::cout << GpuLines(devices.List()) << std::flush;
    _exit(0);
  }
  if (argc >= 2 && absl::string_view(argv[1]) == kCalibrate) return RunCalibrateCommand(argc, argv);
  RankProcessLink::Settings settings;
  CLI::App app("One rank of one attempt of a job; started by adjoin-worker", "adjoin-rank");
  app.add_option("--socket", settings.socket, "The daemon's socket")->required();
  app.add_option("--job", settings.job_id, "The job's id")->required();
  app.add_option("--rank", settings.rank, "This rank's number")->required();
  app.add_option("--epoch", settings.epoch, "The attempt's epoch")->required();
  const ManPageOptions page = {.section = 8, .see_also = {"adjoin-worker(8)"}};
  if (std::optional<int> code = ParseFlags(app, argc, argv, page)) return *code;
  int code = Run(settings, layers, rules, devices);
  std::cout << std::flush;
  // Without the destructors of libraries: with threads around, they are where processes hang or crash at their end.
  _exit(code);
}

}  // namespace adjoin
