#include "worker/daemon/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "proto/unread_program.h"
#include "worker/daemon/artifact_uploader.h"
#include "worker/daemon/attempt_retention.h"
#include "worker/daemon/attempt_sweeper.h"
#include "worker/daemon/attempts.h"
#include "worker/daemon/cache_folder.h"
#include "worker/daemon/data_checker.h"
#include "worker/daemon/folder_remover.h"
#include "worker/daemon/gpu_finder.h"
#include "worker/daemon/job_paths.h"
#include "worker/daemon/mount_calls.h"
#include "worker/daemon/node_look.h"
#include "worker/daemon/node_watch.h"
#include "worker/daemon/process_record.h"
#include "worker/daemon/rank_link_server.h"
#include "worker/daemon/ready_file.h"
#include "worker/rank/lease_watch.h"

namespace adjoin {
namespace {

// The ranks' working directory, the one folder of the daemon's that they can enter.
constexpr char kFolder[] = "link";
constexpr char kSocket[] = "rank.sock";
constexpr char kRecord[] = "ranks";
constexpr char kAttemptRecords[] = "attempts";
constexpr char kCache[] = "cache";                         // in kFolder
constexpr absl::Duration kLookTimeout = absl::Seconds(2);  // at each connection; heartbeats tell what comes later
constexpr absl::Duration kLeftoversTimeout = absl::Seconds(30);
// LibTorch is loaded, and makes a context on each GPU: seconds, where the disk is slow and the driver was not loaded.
constexpr absl::Duration kListGpusTimeout = absl::Seconds(120);
// A killed process that waits for a disk dies only when the disk answers.
constexpr absl::Duration kKillTimeout = absl::Seconds(60);
constexpr absl::Duration kLongestBetweenSweeps = absl::Hours(1);
constexpr int kMostUnswept = 200;  // records of attempts
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
        look_(std::make_shared<NodeLook>(PlacesOf(settings))),
        ready_(settings.ready_file),
        link_(LinkSettings(settings), LinkCallbacks()),
        record_(kRecord),
        attempts_(
            RankSettings(), [this](WorkerMessage message) { link_.Send(std::move(message)); }, &record_),
        lease_([this] { attempts_.LeaseOver(); }),
        checker_(CheckerSettings(settings), [this](WorkerMessage message) { link_.Send(std::move(message)); }),
        uploader_(settings.output_root, [this] { return link_.NewChannel(); }),
        remover_(settings.output_root, [this](WorkerMessage message) { link_.Send(std::move(message)); }) {}

  absl::Status Listen() {
    ADJOIN_RETURN_IF_ERROR(ready_.Check());
    ADJOIN_RETURN_IF_ERROR(record_.KillLeftovers(Deadline::After(kLeftoversTimeout)));
    const SpawnRequest list_gpus = ListGpusCommand(settings_.rank_binary, settings_.rank_user);
    ADJOIN_ASSIGN_OR_RETURN(std::vector<Gpu> gpus, FindGpus(settings_.gpus, list_gpus, kListGpusTimeout));
    attempts_.OfferGpus(std::move(gpus));
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
    link.check_server = settings.check_server;
    link.interceptors = settings.interceptors;
    return link;
  }
  CoordinatorLink::Callbacks LinkCallbacks() {
    return {.on_connecting =
                [this](WorkerHello& hello, const std::function<void()>& open) {
                  FillHello(hello);
                  attempts_.MakeReports(hello, open);
                },
            .on_connected =
                [this](const Welcome& welcome) {
                  if (!attempts_.Welcomed(welcome.store_id())) return false;
                  attempts_.Connected();
                  ready_.Set();
                  return true;
                },
            .on_heartbeat =
                [this](Heartbeat& heartbeat) {
                  heartbeat.set_incarnation(settings_.incarnation);
                  NodeView seen = node_.Get();
                  // The hello tells it, and file systems may have been too slow for that.
                  if (!program_told_ && !seen.rank_program.empty()) link_.ConnectAgain();
                  heartbeat.set_output_id(std::move(seen.output_id));
                  heartbeat.set_condition(std::move(seen.condition));
                  attempts_.FillHeartbeat(heartbeat);
                  SweepIfDue();
                },
            .on_lease =
                [this](int64_t until, absl::Duration length) {
                  attempts_.SetLease(until, length);
                  lease_.Renew(until);
                },
            .on_message = [this](const CoordinatorMessage& message) { OnMessage(message); },
            .on_lost =
                [this] {
                  ready_.Clear();
                  attempts_.Disconnected();
                }};
  }
  static NodePlaces PlacesOf(const DaemonSettings& settings) {
    NodePlaces places;
    places.data_root = settings.data_root;
    places.output_root = settings.output_root;
    places.rank_binary = settings.rank_binary;
    places.state_dir = settings.state_dir;
    places.socket = absl::StrCat(settings.state_dir, "/", kFolder, "/", kSocket);
    places.other_rank_user = settings.rank_user.has_value();
    return places;
  }
  static DataCheckerSettings CheckerSettings(const DaemonSettings& settings) {
    DataCheckerSettings checker;
    checker.data_root = settings.data_root;
    checker.output_root = settings.output_root;
    checker.binary = settings.checker_binary;
    checker.user = settings.rank_user;
    checker.at_once = settings.data_checks;
    checker.limit = settings.data_check_limit;
    return checker;
  }
  NodeAttempts::Settings RankSettings() {
    const DaemonSettings& settings = settings_;
    NodeAttempts::Settings ranks;
    ranks.on_foreign_gone = [this] { link_.ConnectAgain(); };
    ranks.rank_binary = settings.rank_binary;
    ranks.places = settings.places;
    ranks.socket = kSocket;
    ranks.rank_folder = absl::StrCat(settings.state_dir, "/", kFolder);
    ranks.unfit = [this] { return node_.Get().condition; };
    const JobRoots roots{settings.data_root, settings.output_root, settings.rank_user, retention_};
    ranks.prepare = [look = look_, roots](const StartRanks& start, const MountCalls::Enter& enter) -> absl::Status {
      // What was seen before may not hold any more.
      ADJOIN_ASSIGN_OR_RETURN(const NodeView seen, look->LookInto(enter));
      return seen.condition.empty() ? PrepareJobPaths(roots, start, enter) : absl::AbortedError(seen.condition);
    };
    ranks.data_root = settings.data_root;
    ranks.output_root = settings.output_root;
    ranks.cache_dir = settings.cache_dir.empty() ? kCache : settings.cache_dir;
    ranks.cache_bytes = settings.cache_bytes;
    ranks.rates = settings.rates;
    ranks.net_device = settings.net_device;
    ranks.data_port_range = settings.data_port_range;
    ranks.rank_user = settings.rank_user;
    return ranks;
  }

  void FillHello(WorkerHello& hello) {
    NodeView seen = node_.LookAgain(kLookTimeout);
    hello.set_output_id(std::move(seen.output_id));
    hello.set_condition(std::move(seen.condition));
    program_told_ = !seen.rank_program.empty();
    hello.set_rank_program(program_told_ ? std::move(seen.rank_program) : kUnreadProgram);
    hello.set_data_checks(static_cast<uint32_t>(settings_.data_checks));
    hello.set_name(settings_.name);
    hello.set_address(settings_.address);
    hello.set_slots(settings_.slots);
    hello.set_incarnation(settings_.incarnation);
    hello.set_node_id(settings_.node_id);
    if (settings_.rates.has_value()) *hello.mutable_rates() = *settings_.rates;
    hello.mutable_label()->insert(settings_.labels.begin(), settings_.labels.end());
    hello.set_memory_bytes(settings_.memory_bytes);
    for (const std::string& kind : BuiltinLayerRules().Kinds()) hello.add_builder(kind);
  }

  void OnMessage(const CoordinatorMessage& message) {
    uint64_t epoch = message.header().epoch();
    switch (message.kind_case()) {
      case CoordinatorMessage::kProbeData: checker_.Check(message.probe_data()); break;
      case CoordinatorMessage::kCancelProbe: checker_.Cancel(message.cancel_probe().request_id()); break;
      case CoordinatorMessage::kStartRanks: attempts_.Start(epoch, message.start_ranks()); break;
      case CoordinatorMessage::kConnectRanks: attempts_.ConnectRanks(epoch, message.connect_ranks()); break;
      case CoordinatorMessage::kStopAttempt:
        attempts_.Stop(message.stop_attempt().job_id(), epoch, message.stop_attempt().reason());
        break;
      case CoordinatorMessage::kTraceRank: attempts_.Trace(epoch, message.trace_rank()); break;
      case CoordinatorMessage::kSendArtifact: uploader_.Start(message.send_artifact()); break;
      case CoordinatorMessage::kRemoveFolders: remover_.Remove(message.remove_folders()); break;
      case CoordinatorMessage::kAttemptAck: attempts_.Acknowledged(message.attempt_ack().job_id(), epoch); break;
      default: break;
    }
  }

  // Called with every heartbeat.
  void SweepIfDue() {
    const Deadline::Clock::time_point now = Deadline::Clock::now();
    const absl::Duration interval = std::clamp(settings_.keep_failed / 10, absl::Seconds(1), kLongestBetweenSweeps);
    absl::MutexLock lock(&sweep_mutex_);
    const bool due = !last_sweep_.has_value() || absl::FromChrono(now - *last_sweep_) > interval;
    if (!due && retention_->unswept() < kMostUnswept) return;
    if (!node_.Get().condition.empty()) return;  // what is below the root now may not be what jobs wrote
    last_sweep_ = now;
    sweeper_.Begin();
  }

  const DaemonSettings settings_;
  std::atomic<bool> program_told_{false};
  const std::shared_ptr<NodeLook> look_;
  ReadyFile ready_;
  NodeWatch node_{[look = look_](const NodeWatch::At& at) { return look->Look(at); }};
  const std::shared_ptr<AttemptRetention> retention_ = std::make_shared<AttemptRetention>(
      AttemptRetention::Options{kAttemptRecords, settings_.output_root, settings_.keep_failed});
  CoordinatorLink link_;
  ProcessRecord record_;
  NodeAttempts attempts_;
  LeaseWatch lease_;
  DataChecker checker_;
  ArtifactUploader uploader_;
  FolderRemover remover_;
  absl::Mutex sweep_mutex_;
  std::optional<Deadline::Clock::time_point> last_sweep_ ABSL_GUARDED_BY(sweep_mutex_);
  AttemptSweeper sweeper_{AttemptSweeper::Options{
      .list = [retention = retention_] { return retention->List(); },
      .sweep = [retention = retention_](const AttemptSweeper::Records& records,
                                        const MountCalls::Enter& enter) { retention->Sweep(records, enter); },
      .roots = {settings_.output_root}}};
  std::unique_ptr<RankLinkServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(DaemonSettings settings) {
  auto daemon = std::make_unique<DaemonImpl>(settings);
  ADJOIN_RETURN_IF_ERROR(daemon->Listen());
  return daemon;
}

}  // namespace adjoin
