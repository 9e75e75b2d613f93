#include "worker/attempts.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "proto/plan.pb.h"
#include "proto/protocol.h"
#include "worker/line_splitter.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

// What a rank says of its own failure, fit for a message.
std::string FailureText(const std::string& error) {
  return absl::StrCat("failed: ", CleanText(absl::string_view(error).substr(0, kMaxErrorBytes)));
}

}  // namespace

Attempts::Attempts(Settings settings, std::function<void(WorkerMessage)> send)
    : settings_(std::move(settings)),
      send_(std::move(send)),
      supervisor_({.on_log = [this](const RankKey& key, std::vector<std::string> lines) { OnLog(key, std::move(lines)); },
                   .on_exit = [this](const RankKey& key, const RankExit& exit) { OnExit(key, exit); }}) {}

void Attempts::SendToCoordinator(uint64_t epoch, WorkerMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  send_(std::move(message));
}

absl::Status Attempts::CheckPaths(const StartRanks& start) const {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InvalidArgumentError("its plan cannot be read");
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(settings_.output_root, plan.spec().output_dir()));
  for (const Dataset& dataset : plan.spec().dataset()) {
    for (const Field& field : dataset.field()) {
      for (const std::string& path : field.idx().path()) {
        ADJOIN_RETURN_IF_ERROR(ResolveBelow(settings_.data_root, path).status());
      }
    }
  }
  const std::string& init_from = plan.spec().weights().init_from();
  return init_from.empty() ? absl::OkStatus() : ResolveBelow(settings_.data_root, init_from).status();
}

SpawnRequest Attempts::CommandOf(const RankKey& key) const {
  SpawnRequest request;
  request.binary = settings_.rank_binary;
  request.arguments = {"--socket", settings_.socket, "--job",   key.job_id,
                       "--rank",   absl::StrCat(key.rank), "--epoch", absl::StrCat(key.epoch)};
  request.environment = RankEnvironment();
  return request;
}

void Attempts::Start(uint64_t epoch, const StartRanks& start) {
  AttemptKey key(start.job_id(), epoch);
  absl::Status paths = CheckPaths(start);
  absl::MutexLock lock(&mutex_);
  Attempt& attempt = attempts_[key];
  attempt.start = start;
  for (uint32_t number : start.rank()) attempt.ranks[number];
  for (uint32_t number : start.rank()) {
    RankKey rank{key.first, epoch, number};
    if (paths.ok()) {
      supervisor_.Start(rank, CommandOf(rank));
    } else {
      attempts_[key].ranks[number].exit = RankExit{.code = 0, .signal = 0, .spawn_error = std::string(paths.message())};
    }
  }
  LogInfo(absl::StrCat(start.job_id(), ": starting ", start.rank_size(), " of ", start.world_size(), " ranks"));
  if (paths.ok()) return;
  for (uint32_t number : start.rank()) ReportIfOver({key.first, epoch, number});
}

void Attempts::ConnectRanks(uint64_t epoch, const adjoin::ConnectRanks& connect) {
  absl::MutexLock lock(&mutex_);
  auto attempt = attempts_.find({connect.job_id(), epoch});
  if (attempt == attempts_.end()) return;
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(epoch);
  *message.mutable_connect()->mutable_transport_address() = connect.transport_address();
  for (auto& [number, rank] : attempt->second.ranks) {
    if (rank.peer != nullptr) rank.peer->Send(message);
  }
}

void Attempts::Stop(const std::string& job_id, uint64_t epoch, const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  StopLocked({job_id, epoch}, reason, settings_.stop_grace);
}

void Attempts::StopLocked(const AttemptKey& key, const std::string& reason, absl::Duration grace) {
  auto found = attempts_.find(key);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  if (!attempt.stopping) LogInfo(absl::StrCat(key.first, ": stopping: ", reason));
  attempt.stopping = true;
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(key.second);
  message.mutable_abort()->set_reason(reason);
  for (auto& [number, rank] : attempt.ranks) {
    if (rank.peer != nullptr) rank.peer->Send(message);
  }
  supervisor_.Kill(key.first, key.second, grace);
}

absl::Status Attempts::StopAll(const std::string& reason, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  std::vector<AttemptKey> keys;
  for (auto& [key, attempt] : attempts_) keys.push_back(key);
  for (const AttemptKey& key : keys) StopLocked(key, reason, absl::ZeroDuration());
  auto none_left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return attempts_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&none_left), deadline.Remaining())) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("processes of ", attempts_.begin()->first.first, " do not die"));
}

Attempts::Rank* Attempts::Find(const RankKey& key) {
  auto attempt = attempts_.find({key.job_id, key.epoch});
  if (attempt == attempts_.end()) return nullptr;
  auto rank = attempt->second.ranks.find(key.rank);
  return rank == attempt->second.ranks.end() ? nullptr : &rank->second;
}

absl::StatusOr<DaemonMessage> Attempts::RankConnected(uint64_t epoch, const RankHello& hello,
                                                      std::shared_ptr<RankPeer> peer) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find({hello.job_id(), epoch, hello.rank()});
  if (rank == nullptr || rank->exit.has_value()) {
    return absl::NotFoundError(absl::StrCat("rank ", hello.rank(), " of ", hello.job_id(), ", epoch ", epoch,
                                            ", is not to run here"));
  }
  if (rank->pid != 0) return absl::AlreadyExistsError(absl::StrCat("rank ", hello.rank(), " is connected already"));
  const Attempt& attempt = attempts_.at({hello.job_id(), epoch});
  rank->pid = hello.pid();
  rank->peer = std::move(peer);
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(epoch);
  RankStart& start = *message.mutable_start();
  start.set_world_size(attempt.start.world_size());
  start.set_plan(attempt.start.plan());
  start.set_plan_hash(attempt.start.plan_hash());
  start.set_data_root(settings_.data_root);
  start.set_output_root(settings_.output_root);
  start.set_single_node(attempt.start.single_node());
  start.set_net_device(settings_.net_device);
  start.set_port_range(settings_.data_port_range);
  return message;
}

void Attempts::RankSaid(const RankKey& key, const RankMessage& message) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr || rank->reported) return;
  WorkerMessage out;
  if (message.has_result()) {
    rank->result = message.result();
    supervisor_.KillRank(key, settings_.exit_grace);
  } else if (message.kind_case() == RankMessage::kTransportAddress) {
    RankReady& ready = *out.mutable_rank_ready();
    ready.set_job_id(key.job_id);
    ready.set_rank(key.rank);
    ready.set_pid(rank->pid);
    ready.set_transport_address(message.transport_address());
    SendToCoordinator(key.epoch, std::move(out));
  } else if (message.has_progress() || message.kind_case() == RankMessage::kTransport) {
    RankUpdate& update = *out.mutable_rank_update();
    update.set_job_id(key.job_id);
    update.set_rank(key.rank);
    if (message.has_progress()) *update.mutable_progress() = message.progress();
    update.set_transport(message.transport());
    SendToCoordinator(key.epoch, std::move(out));
  }
}

void Attempts::RankDisconnected(const RankKey& key) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr) return;
  rank->peer.reset();
  ReportIfOver(key);
}

void Attempts::OnLog(const RankKey& key, std::vector<std::string> lines) {
  WorkerMessage message;
  LogBatch& batch = *message.mutable_log();
  batch.set_job_id(key.job_id);
  int64_t now = absl::ToUnixMillis(absl::Now());
  for (std::string& text : lines) {
    LogLine& line = *batch.add_line();
    line.set_rank(key.rank);
    line.set_unix_ms(now);
    line.set_text(std::move(text));
  }
  SendToCoordinator(key.epoch, std::move(message));
}

void Attempts::OnExit(const RankKey& key, const RankExit& exit) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr) return;
  rank->exit = exit;
  ReportIfOver(key);
}

void Attempts::ReportIfOver(const RankKey& key) {
  Rank* rank = Find(key);
  if (rank->reported || !rank->exit.has_value()) return;
  const RankExit& exit = *rank->exit;
  bool normal = exit.signal == 0 && exit.spawn_error.empty();
  // What a rank said before it exited may still be on its way; the end of its stream comes after that.
  if (normal && !rank->result.has_value() && rank->peer != nullptr) return;

  Attempt& attempt = attempts_.at({key.job_id, key.epoch});
  WorkerMessage message;
  RankEnded& ended = *message.mutable_rank_ended();
  ended.set_job_id(key.job_id);
  ended.set_rank(key.rank);
  if (rank->result.has_value() && rank->result->end() != RANK_SUCCEEDED) {
    ended.set_error(FailureText(rank->result->error()));
    ended.set_end(attempt.stopping ? RANK_PEER_FAILED : rank->result->end());
  } else if (rank->result.has_value() && normal && exit.code == 0) {
    ended.set_end(RANK_SUCCEEDED);
    *ended.mutable_artifact() = rank->result->artifact();
  } else {
    ended.set_error(absl::StrCat(exit.ToString(), rank->result.has_value() ? " after it had finished"
                                                  : normal                 ? " without a result"
                                                                           : ""));
    ended.set_end(attempt.stopping ? RANK_PEER_FAILED : RANK_LOST);
  }
  rank->reported = true;
  LogInfo(absl::StrCat(key.job_id, ": rank ", key.rank, " ", ended.end() == RANK_SUCCEEDED ? "succeeded" : ended.error()));
  SendToCoordinator(key.epoch, std::move(message));

  for (const auto& [number, other] : attempt.ranks) {
    if (!other.reported) return;
  }
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(key.job_id);
  SendToCoordinator(key.epoch, std::move(cleared));
  attempts_.erase({key.job_id, key.epoch});
}

}  // namespace adjoin
