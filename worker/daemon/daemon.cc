#include "worker/daemon/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "worker/daemon/artifact_uploader.h"
#include "worker/daemon/attempts.h"
#include "worker/daemon/cache_folder.h"
#include "worker/daemon/data_checker.h"
#include "worker/daemon/known_output_id.h"
#include "worker/daemon/output_id.h"
#include "worker/daemon/process_record.h"
#include "worker/daemon/rank_link_server.h"
#include "worker/rank/lease_watch.h"

namespace adjoin {
namespace {

// The ranks' working directory, the one folder of the daemon's that they can enter.
constexpr char kFolder[] = "link";
constexpr char kSocket[] = "rank.sock";
constexpr char kRecord[] = "ranks";
constexpr char kCache[] = "cache";                             // in kFolder
constexpr absl::Duration kOutputIdTimeout = absl::Seconds(2);  // at each connection; heartbeats tell what comes later
constexpr absl::Duration kLeftoversTimeout = absl::Seconds(30);
// A killed process that waits for a disk dies only when the disk answers.
constexpr absl::Duration kKillTimeout = absl::Seconds(60);
// For the coordinator to hear of what was killed at the end of a drain.
constexpr absl::Duration kLastWords = absl::Seconds(1);

absl::Status MakeLinkFolder(const std::optional<User>& user) {
  if (mkdir(kFolder, 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(absl::StrCat("folder ", kFolder, " cannot be made: ", strerror(errno)));
  }
  if (!user.has_value()) return absl::OkStatus();
  if (chown(kFolder, 0, user->gid) != 0 || chmod(kFolder, 0710) != 0) {
    return absl::UnavailableError(
        absl::StrCat("folder ", kFolder, " cannot be opened for user ", user->name, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

// Where ranks keep inflated copies of data files: theirs alone.
absl::Status MakeCacheFolder(const DaemonSettings& settings) {
  const bool named = !settings.cache_dir.empty();
  return MakeCacheFolder(named ? settings.cache_dir : absl::StrCat(kFolder, "/", kCache), named, settings.rank_user);
}

class DaemonImpl final : public Daemon {
 public:
  explicit DaemonImpl(const DaemonSettings& settings)
      : settings_(settings),
        link_(LinkSettings(settings), LinkCallbacks()),
        record_(kRecord),
        attempts_(
            RankSettings(settings), [this](WorkerMessage message) { link_.Send(std::move(message)); }, &record_),
        lease_([this] { attempts_.LeaseOver(); }),
        checker_(settings.data_root, settings.output_root,
                 [this](WorkerMessage message) { link_.Send(std::move(message)); }),
        uploader_(settings.output_root, [this] { return link_.NewChannel(); }) {}

  absl::Status Listen() {
    ADJOIN_RETURN_IF_ERROR(record_.KillLeftovers(Deadline::After(kLeftoversTimeout)));
    ADJOIN_RETURN_IF_ERROR(MakeLinkFolder(settings_.rank_user));
    ADJOIN_RETURN_IF_ERROR(MakeCacheFolder(settings_));
    ADJOIN_ASSIGN_OR_RETURN(server_,
                            RankLinkServer::Start(absl::StrCat(kFolder, "/", kSocket), attempts_, settings_.rank_user));
    return absl::OkStatus();
  }

  absl::Status Run() override {
    absl::Status status = link_.Run();
    Stop();  // no coordinator is left that a drain could be reported to
    attempts_.KillAll("the worker stops");
    if (attempts_.WaitUntilCleared(Deadline::After(kKillTimeout)) || !status.ok()) return status;
    return absl::DeadlineExceededError("rank processes do not die");
  }

  void Drain(absl::Duration limit) override {
    attempts_.Drain("the worker stops");
    link_.BeatNow();
    if (attempts_.WaitUntilAcknowledged(Deadline::After(limit))) return;
    attempts_.KillAll("the worker stops");
    attempts_.WaitUntilCleared(Deadline::After(kKillTimeout));
    attempts_.WaitUntilAcknowledged(Deadline::After(kLastWords));
  }

  void Stop() override {
    attempts_.EndWaits();
    link_.Stop();
  }

 private:
  static CoordinatorLink::Settings LinkSettings(const DaemonSettings& settings) {
    CoordinatorLink::Settings link;
    link.coordinator = settings.coordinator;
    link.credentials = settings.credentials;
    link.interceptors = settings.interceptors;
    return link;
  }
  CoordinatorLink::Callbacks LinkCallbacks() {
    return {.on_connecting =
                [this](WorkerHello& hello, const std::function<void()>& open) {
                  FillHello(hello);
                  attempts_.MakeReports(hello, open);
                },
            .on_connected = [this] { attempts_.Connected(); },
            .on_heartbeat =
                [this](Heartbeat& heartbeat) {
                  heartbeat.set_incarnation(settings_.incarnation);
                  heartbeat.set_output_id(output_id_.Get());
                  attempts_.FillHeartbeat(heartbeat);
                },
            .on_lease =
                [this](int64_t until, absl::Duration length) {
                  attempts_.SetLease(until, length);
                  lease_.Renew(until);
                },
            .on_message = [this](const CoordinatorMessage& message) { OnMessage(message); },
            .on_lost = [this] { attempts_.Disconnected(); }};
  }
  static Attempts::Settings RankSettings(const DaemonSettings& settings) {
    Attempts::Settings ranks;
    ranks.rank_binary = settings.rank_binary;
    ranks.socket = kSocket;
    ranks.rank_folder = kFolder;
    ranks.data_root = settings.data_root;
    ranks.output_root = settings.output_root;
    ranks.cache_dir = settings.cache_dir.empty() ? kCache : settings.cache_dir;
    ranks.cache_bytes = settings.cache_bytes;
    ranks.net_device = settings.net_device;
    ranks.data_port_range = settings.data_port_range;
    ranks.rank_user = settings.rank_user;
    return ranks;
  }

  void FillHello(WorkerHello& hello) {
    hello.set_output_id(output_id_.LookAgain(kOutputIdTimeout));
    hello.set_name(settings_.name);
    hello.set_address(settings_.address);
    hello.set_slots(settings_.slots);
    hello.set_incarnation(settings_.incarnation);
    hello.set_node_id(settings_.node_id);
    hello.mutable_label()->insert(settings_.labels.begin(), settings_.labels.end());
    hello.set_memory_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
    for (const std::string& kind : BuiltinLayerRules().Kinds()) hello.add_builder(kind);
  }

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
      case CoordinatorMessage::kAttemptAck: attempts_.Acknowledged(message.attempt_ack().job_id(), epoch); break;
      default: break;
    }
  }

  const DaemonSettings settings_;
  KnownOutputId output_id_{[root = settings_.output_root] { return OutputId(root); }};
  CoordinatorLink link_;
  ProcessRecord record_;
  Attempts attempts_;
  LeaseWatch lease_;
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
