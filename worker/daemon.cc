#include "worker/daemon.h"

#include <unistd.h>

#include <utility>

#include "base/status_macros.h"
#include "layers/plan/builtin_rules.h"
#include "worker/artifact_uploader.h"
#include "worker/attempts.h"
#include "worker/coordinator_link.h"
#include "worker/data_checker.h"
#include "worker/rank_link_server.h"

namespace adjoin {
namespace {

constexpr char kSocket[] = "rank.sock";
// A killed process that waits for a disk dies only when the disk answers.
constexpr absl::Duration kKillTimeout = absl::Seconds(60);

class DaemonImpl final : public Daemon {
 public:
  explicit DaemonImpl(const DaemonSettings& settings)
      : link_(LinkSettings(settings),
              {.on_message = [this](const CoordinatorMessage& message) { OnMessage(message); },
               .on_lost = [this] { return KillRanks("the coordinator is lost"); }}),
        attempts_(RankSettings(settings), [this](WorkerMessage message) { link_.Send(std::move(message)); }),
        checker_(settings.data_root, [this](WorkerMessage message) { link_.Send(std::move(message)); }),
        uploader_(settings.output_root, [this] { return link_.NewChannel(); }) {}

  absl::Status Listen() {
    ADJOIN_ASSIGN_OR_RETURN(server_, RankLinkServer::Start(kSocket, attempts_));
    return absl::OkStatus();
  }

  absl::Status Run() override {
    absl::Status status = link_.Run();
    absl::Status killed = KillRanks("the daemon stops");
    return status.ok() ? killed : status;
  }
  void Stop() override { link_.Stop(); }

 private:
  static CoordinatorLink::Settings LinkSettings(const DaemonSettings& settings) {
    CoordinatorLink::Settings link;
    link.coordinator = settings.coordinator;
    link.hello.set_name(settings.name);
    link.hello.set_address(settings.address);
    link.hello.set_slots(settings.slots);
    link.hello.set_incarnation(settings.incarnation);
    link.hello.set_memory_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
    for (const std::string& kind : BuiltinLayerRules().Kinds()) link.hello.add_builder(kind);
    return link;
  }
  static Attempts::Settings RankSettings(const DaemonSettings& settings) {
    Attempts::Settings ranks;
    ranks.rank_binary = settings.rank_binary;
    ranks.socket = kSocket;
    ranks.data_root = settings.data_root;
    ranks.output_root = settings.output_root;
    ranks.net_device = settings.net_device;
    ranks.data_port_range = settings.data_port_range;
    return ranks;
  }

  absl::Status KillRanks(const std::string& reason) { return attempts_.StopAll(reason, Deadline::After(kKillTimeout)); }

  void OnMessage(const CoordinatorMessage& message) {
    uint64_t epoch = message.header().epoch();
    switch (message.kind_case()) {
      case CoordinatorMessage::kProbeData: checker_.Check(message.probe_data()); break;
      case CoordinatorMessage::kStartRanks: attempts_.Start(epoch, message.start_ranks()); break;
      case CoordinatorMessage::kConnectRanks: attempts_.ConnectRanks(epoch, message.connect_ranks()); break;
      case CoordinatorMessage::kStopAttempt:
        attempts_.Stop(message.stop_attempt().job_id(), epoch, message.stop_attempt().reason());
        break;
      case CoordinatorMessage::kSendArtifact: uploader_.Start(message.send_artifact()); break;
      default: break;
    }
  }

  CoordinatorLink link_;
  Attempts attempts_;
  DataChecker checker_;
  ArtifactUploader uploader_;
  std::unique_ptr<RankLinkServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(DaemonSettings settings) {
  auto daemon = std::make_unique<DaemonImpl>(settings);
  ADJOIN_RETURN_IF_ERROR(daemon->Listen());
  return daemon;
}

}  // namespace adjoin
