#include "worker/attempts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "proto/plan.pb.h"
#include "proto/protocol.h"
#include "worker/line_splitter.h"
#include "worker/proc_stat.h"
#include "worker/rank_exit_codes.h"
#include "worker/result_folder.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {
namespace {

constexpr size_t kMaxErrorBytes = 4096;
constexpr size_t kRememberedJobs = 4096;
// What a rank needs beside its job's tensors, above StartRanks.memory_bytes: the program, its threads' stacks, buffers.
constexpr uint64_t kMemoryAllowance = uint64_t{1} << 30;
// Where memory runs out, the kernel is to kill a rank, not the daemon.
constexpr int kOomScoreAbove = 500;

// What a rank says of its own failure, fit for a message.
std::string CleanError(const std::string& error) { return CleanText(absl::string_view(error).substr(0, kMaxErrorBytes)); }

bool IsFailure(RankEnd end) { return end != RANK_SUCCEEDED && end != RANK_DRAINED; }

}  // namespace

Attempts::Attempts(Settings settings, std::function<void(WorkerMessage)> send, ProcessRecord* record)
    : settings_(std::move(settings)),
      send_(std::move(send)),
      supervisor_({.on_start = [this](const RankKey& key, pid_t pid) { OnStart(key, pid); },
                   .on_log = [this](const RankKey& key, std::vector<std::string> lines) { OnLog(key, std::move(lines)); },
                   .on_exit = [this](const RankKey& key, const RankExit& exit) { OnExit(key, exit); }},
                  record) {}

void Attempts::SendToCoordinator(uint64_t epoch, WorkerMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  send_(std::move(message));
}

absl::Status Attempts::Prepare(const StartRanks& start) const {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InvalidArgumentError("its plan cannot be read");
  const std::string& output = plan.spec().output_dir();
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(settings_.output_root, output));
  for (const Dataset& dataset : plan.spec().dataset()) {
    for (const Field& field : dataset.field()) {
      for (const std::string& path : field.idx().path()) {
        ADJOIN_RETURN_IF_ERROR(ResolveBelow(settings_.data_root, path).status());
      }
    }
  }
  const std::string& init_from = plan.spec().weights().init_from();
  if (!init_from.empty()) ADJOIN_RETURN_IF_ERROR(ResolveBelow(settings_.data_root, init_from).status());
  if (!settings_.rank_user.has_value()) return absl::OkStatus();
  return MakeResultFolder(settings_.output_root, output, settings_.rank_user->uid, settings_.rank_user->gid);
}

SpawnRequest Attempts::CommandOf(const RankKey& key, uint64_t memory_bytes) const {
  SpawnRequest request;
  request.binary = settings_.rank_binary;
  request.arguments = {"--socket", settings_.socket, "--job",   key.job_id,
                       "--rank",   absl::StrCat(key.rank), "--epoch", absl::StrCat(key.epoch)};
  request.environment = RankEnvironment(settings_.rank_user.has_value() ? settings_.rank_user->home : "");
  request.folder = settings_.rank_folder;
  if (memory_bytes > 0) request.memory_bytes = memory_bytes + kMemoryAllowance;
  request.oom_score_above = kOomScoreAbove;
  request.user = settings_.rank_user;
  return request;
}

std::string Attempts::WhyNot(const AttemptKey& key) {
  const auto& [job_id, epoch] = key;
  if (attempts_.count(key) > 0) return "it is here already";
  auto newest = newest_.find(job_id);
  if (newest != newest_.end() && epoch <= newest->second) return absl::StrCat("epoch ", newest->second, " was here");
  if (newest == newest_.end() && epoch <= forgotten_) return "it is too old";
  for (const auto& [other, attempt] : attempts_) {
    if (other.first == job_id && !attempt.cleared) return absl::StrCat("epoch ", other.second, " has processes here");
  }
  return "";
}

void Attempts::Remember(const AttemptKey& key) {
  newest_[key.first] = key.second;
  if (newest_.size() <= kRememberedJobs) return;
  auto oldest = std::min_element(newest_.begin(), newest_.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  forgotten_ = std::max(forgotten_, oldest->second);
  newest_.erase(oldest);
}

void Attempts::Start(uint64_t epoch, const StartRanks& start) {
  const AttemptKey key(start.job_id(), epoch);
  absl::Status prepared = Prepare(start);
  absl::MutexLock lock(&mutex_);
  if (start.store_id() != store_id_) {  // its coordinator began anew: what was here has other numbers
    store_id_ = start.store_id();
    newest_.clear();
    forgotten_ = 0;
  }
  if (std::string reason = WhyNot(key); !reason.empty()) {
    LogWarning(absl::StrCat(key.first, ", epoch ", epoch, ": not started: ", reason));
    return;
  }
  Remember(key);
  Attempt& attempt = attempts_[key];
  attempt.start = start;
  for (uint32_t number : start.rank()) attempt.ranks[number].report.set_rank(number);
  if (draining_.has_value()) return EndUnstarted(key, absl::StrCat("was not started: ", *draining_), true);
  if (!prepared.ok()) {
    return EndUnstarted(key, absl::StrCat("could not be started: ", std::string(prepared.message())), false);
  }
  LogInfo(absl::StrCat(key.first, ": starting ", start.rank_size(), " of ", start.world_size(), " ranks"));
  for (const auto& [number, rank] : attempt.ranks) {
    RankKey started{key.first, epoch, number};
    supervisor_.Start(started, CommandOf(started, start.memory_bytes()));
  }
}

void Attempts::EndUnstarted(const AttemptKey& key, const std::string& error, bool infrastructure) {
  std::vector<uint32_t> numbers;
  for (const auto& [number, rank] : attempts_.at(key).ranks) numbers.push_back(number);
  for (uint32_t number : numbers) {
    RankEnded ended;
    ended.set_end(RANK_LOST);
    ended.set_error(error);
    ended.set_infrastructure(infrastructure);
    ReportEnd({key.first, key.second, number}, std::move(ended));
  }
}

void Attempts::SendToRanks(Attempt& attempt, uint64_t epoch, DaemonMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  for (auto& [number, rank] : attempt.ranks) {
    if (rank.peer != nullptr) rank.peer->Send(message);
  }
}

void Attempts::ConnectRanks(uint64_t epoch, const adjoin::ConnectRanks& connect) {
  absl::MutexLock lock(&mutex_);
  auto attempt = attempts_.find({connect.job_id(), epoch});
  if (attempt == attempts_.end()) return;
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(epoch);
  *message.mutable_connect()->mutable_transport_address() = connect.transport_address();
  for (auto& [number, rank] : attempt->second.ranks) {
    if (rank.peer == nullptr || rank.report.connected()) continue;
    rank.report.set_connected(true);
    rank.peer->Send(message);
  }
}

void Attempts::Stop(const std::string& job_id, uint64_t epoch, const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  StopLocked({job_id, epoch}, reason, settings_.stop_grace);
}

void Attempts::StopLocked(const AttemptKey& key, const std::string& reason, absl::Duration grace) {
  auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.cleared) return;
  Attempt& attempt = found->second;
  if (!attempt.stopping) LogInfo(absl::StrCat(key.first, ": stopping: ", reason));
  attempt.stopping = true;
  DaemonMessage message;
  message.mutable_abort()->set_reason(reason);
  SendToRanks(attempt, key.second, std::move(message));
  supervisor_.Kill(key.first, key.second, grace);
}

void Attempts::Acknowledged(const std::string& job_id, uint64_t epoch) {
  {
    absl::MutexLock lock(&mutex_);
    auto attempt = attempts_.find({job_id, epoch});
    if (attempt == attempts_.end() || !attempt->second.cleared) return;
    attempts_.erase(attempt);
  }
  changed_.NotifyAll();
}

void Attempts::MakeReports(WorkerHello& hello, const std::function<void()>& open) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, attempt] : attempts_) {
    AttemptReport& report = *hello.add_attempt();
    report.set_job_id(key.first);
    report.set_epoch(key.second);
    report.set_cleared(attempt.cleared);
    for (const auto& [number, rank] : attempt.ranks) *report.add_rank() = rank.report;
  }
  open();
}

void Attempts::Connected() {
  absl::MutexLock lock(&mutex_);
  connected_ = true;
}

void Attempts::Disconnected() {
  absl::MutexLock lock(&mutex_);
  connected_ = false;
  // What the coordinator was told last may not have come there.
  for (const auto& [key, attempt] : attempts_) StopPeersOfFailed(key);
}

void Attempts::StopPeersOfFailed(const AttemptKey& key) {
  const Attempt& attempt = attempts_.at(key);
  if (connected_ || attempt.stopping || attempt.cleared) return;
  for (const auto& [number, rank] : attempt.ranks) {
    if (!rank.report.has_ended() || !IsFailure(rank.report.ended().end())) continue;
    return StopLocked(key, absl::StrCat("rank ", number, " ", rank.report.ended().error()), settings_.stop_grace);
  }
}

void Attempts::FillHeartbeat(Heartbeat& heartbeat) {
  absl::MutexLock lock(&mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  heartbeat.set_draining(draining_.has_value());
  for (const auto& [key, attempt] : attempts_) {
    if (attempt.cleared) continue;
    AttemptPulse& pulses = *heartbeat.add_attempt();
    pulses.set_job_id(key.first);
    pulses.set_epoch(key.second);
    for (const auto& [number, rank] : attempt.ranks) {
      if (rank.report.has_ended()) continue;
      RankPulse& pulse = *pulses.add_rank();
      pulse = rank.pulse;
      pulse.set_rank(number);
      if (pulse.activity() == ACTIVITY_UNSPECIFIED) pulse.set_activity(STARTING_UP);
      pulse.set_age_seconds(rank.pulse.age_seconds() + absl::ToDoubleSeconds(absl::FromChrono(now - rank.pulse_at)));
      std::optional<ProcStat> stat = rank.process > 0 ? ReadProcStat(rank.process) : std::nullopt;
      if (stat.has_value() && !stat->Dead()) pulse.set_process(stat->Stopped() ? "stopped" : "running");
    }
  }
}

DaemonMessage Attempts::LeaseMessage() const {
  DaemonMessage message;
  message.mutable_lease()->set_until_boottime_ns(lease_until_);
  return message;
}

void Attempts::SetLease(int64_t until_boottime_ns, absl::Duration length) {
  absl::MutexLock lock(&mutex_);
  lease_until_ = until_boottime_ns;
  lease_length_ = length;
  for (auto& [key, attempt] : attempts_) SendToRanks(attempt, key.second, LeaseMessage());
}

std::string Attempts::LeaseText() const {
  return absl::StrCat("nothing heard from the coordinator for ", absl::ToDoubleSeconds(lease_length_),
                      " s (its lease ran out)");
}

void Attempts::LeaseOver() {
  std::string text;
  {
    absl::MutexLock lock(&mutex_);
    text = LeaseText();
  }
  KillAll(text);
}

DaemonMessage Attempts::DrainMessage() const {
  DaemonMessage message;
  message.mutable_drain()->set_reason(*draining_);
  return message;
}

void Attempts::Drain(const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  if (draining_.has_value()) return;
  draining_ = reason;
  for (auto& [key, attempt] : attempts_) SendToRanks(attempt, key.second, DrainMessage());
}

void Attempts::KillAll(const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  for (auto& [key, attempt] : attempts_) {
    if (attempt.cleared) continue;
    if (attempt.killed.empty()) attempt.killed = reason;
    StopLocked(key, reason, absl::ZeroDuration());
  }
}

bool Attempts::WaitUntilCleared(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  return changed_.Wait(mutex_, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(attempts_.begin(), attempts_.end(), [](const auto& entry) { return entry.second.cleared; });
  });
}

bool Attempts::WaitUntilAcknowledged(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  changed_.Wait(mutex_, deadline,
                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return attempts_.empty() || waits_ended_; });
  return attempts_.empty();
}

void Attempts::EndWaits() {
  {
    absl::MutexLock lock(&mutex_);
    waits_ended_ = true;
  }
  changed_.NotifyAll();
}

Attempts::Rank* Attempts::Find(const RankKey& key) {
  auto attempt = attempts_.find({key.job_id, key.epoch});
  if (attempt == attempts_.end()) return nullptr;
  auto rank = attempt->second.ranks.find(key.rank);
  return rank == attempt->second.ranks.end() ? nullptr : &rank->second;
}

DaemonMessage Attempts::Orders(const Attempt& attempt) const {
  DaemonMessage message;
  RankStart& start = *message.mutable_start();
  start.set_world_size(attempt.start.world_size());
  start.set_plan(attempt.start.plan());
  start.set_plan_hash(attempt.start.plan_hash());
  start.set_data_root(settings_.data_root);
  start.set_output_root(settings_.output_root);
  start.set_single_node(attempt.start.single_node());
  start.set_net_device(settings_.net_device);
  start.set_port_range(settings_.data_port_range);
  start.set_store_id(attempt.start.store_id());
  return message;
}

absl::Status Attempts::RankConnected(uint64_t epoch, const RankHello& hello, std::shared_ptr<RankPeer> peer) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find({hello.job_id(), epoch, hello.rank()});
  const bool wanted = rank != nullptr && !rank->exit.has_value() && !attempts_.at({hello.job_id(), epoch}).stopping;
  if (!wanted) {
    return absl::NotFoundError(absl::StrCat("rank ", hello.rank(), " of ", hello.job_id(), ", epoch ", epoch,
                                            ", is not to run here"));
  }
  if (rank->report.pid() != 0) return absl::AlreadyExistsError(absl::StrCat("rank ", hello.rank(), " is connected already"));
  rank->report.set_pid(hello.pid());
  rank->peer = std::move(peer);
  std::vector<DaemonMessage> messages;
  if (lease_until_ != 0) messages.push_back(LeaseMessage());  // first: a rank that has orders has a lease
  messages.push_back(Orders(attempts_.at({hello.job_id(), epoch})));
  if (draining_.has_value()) messages.push_back(DrainMessage());
  for (DaemonMessage& message : messages) {
    *message.mutable_header() = MakeHeader(epoch);
    rank->peer->Send(message);
  }
  return absl::OkStatus();
}

void Attempts::RankSaid(const RankKey& key, const RankMessage& message) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr || rank->report.has_ended()) return;
  WorkerMessage out;
  if (message.has_result()) {
    rank->result = message.result();
    supervisor_.KillRank(key, settings_.exit_grace);
  } else if (message.has_pulse()) {
    rank->pulse = message.pulse();
    rank->pulse_at = Deadline::Clock::now();
  } else if (message.kind_case() == RankMessage::kTransportAddress) {
    rank->report.set_transport_address(message.transport_address());
    RankReady& ready = *out.mutable_rank_ready();
    ready.set_job_id(key.job_id);
    ready.set_rank(key.rank);
    ready.set_pid(rank->report.pid());
    ready.set_transport_address(message.transport_address());
    SendToCoordinator(key.epoch, std::move(out));
  } else if (message.has_progress() || message.kind_case() == RankMessage::kTransport) {
    RankUpdate& update = *out.mutable_rank_update();
    update.set_job_id(key.job_id);
    update.set_rank(key.rank);
    if (message.has_progress()) {
      *update.mutable_progress() = message.progress();
      *rank->report.mutable_progress() = message.progress();
    } else {
      update.set_transport(message.transport());
      rank->report.set_transport(message.transport());
    }
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

void Attempts::OnStart(const RankKey& key, pid_t pid) {
  absl::MutexLock lock(&mutex_);
  if (Rank* rank = Find(key); rank != nullptr) rank->process = pid;
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
    line.set_epoch(key.epoch);
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
  const Rank& rank = *Find(key);
  if (rank.report.has_ended() || !rank.exit.has_value()) return;
  const bool normal = rank.exit->signal == 0 && rank.exit->spawn_error.empty();
  // What a rank said before it exited may still be on its way; the end of its stream comes after that.
  if (normal && !rank.result.has_value() && rank.peer != nullptr) return;
  ReportEnd(key, EndOf(key, rank, attempts_.at({key.job_id, key.epoch})));
}

RankEnded Attempts::EndOf(const RankKey& key, const Rank& rank, const Attempt& attempt) const {
  const RankExit& exit = *rank.exit;
  const bool exited = exit.signal == 0 && exit.spawn_error.empty();
  RankEnded ended;
  if (rank.result.has_value() && rank.result->end() == RANK_SUCCEEDED && exited && exit.code == 0) {
    ended.set_end(RANK_SUCCEEDED);
    *ended.mutable_artifact() = rank.result->artifact();
  } else if (rank.result.has_value() && rank.result->end() == RANK_DRAINED) {
    ended.set_end(RANK_DRAINED);
    ended.set_error(CleanError(rank.result->error()));
    ended.set_drained_step(rank.result->drained_step());
    *ended.mutable_artifact() = rank.result->artifact();
  } else if (!attempt.killed.empty()) {
    ended.set_end(RANK_LOST);
    ended.set_infrastructure(true);
    ended.set_error(absl::StrCat("was killed: ", attempt.killed));
  } else if (exited && exit.code == kExitLeaseOver && !rank.result.has_value()) {
    ended.set_end(RANK_LOST);
    ended.set_infrastructure(true);
    ended.set_error(absl::StrCat("ended itself: ", LeaseText()));
  } else if (rank.result.has_value() && rank.result->end() != RANK_SUCCEEDED) {
    // Hopeless it is whatever its peers do.
    const bool own = !attempt.stopping || rank.result->end() == RANK_HOPELESS;
    ended.set_end(own ? rank.result->end() : RANK_PEER_FAILED);
    ended.set_error(absl::StrCat("failed: ", CleanError(rank.result->error())));
  } else {
    ended.set_end(attempt.stopping ? RANK_PEER_FAILED : RANK_LOST);
    ended.set_error(absl::StrCat(exit.ToString(), rank.result.has_value() ? " after it had finished"
                                                  : exited                ? " without a result"
                                                                          : ""));
  }
  return ended;
}

void Attempts::ReportEnd(const RankKey& key, RankEnded ended) {
  ended.set_job_id(key.job_id);
  ended.set_rank(key.rank);
  *Find(key)->report.mutable_ended() = ended;
  const char* text = ended.end() == RANK_SUCCEEDED ? "succeeded" : ended.end() == RANK_DRAINED ? "is drained" : "";
  LogInfo(absl::StrCat(key.job_id, ": rank ", key.rank, " ", *text != '\0' ? text : ended.error()));
  WorkerMessage message;
  *message.mutable_rank_ended() = std::move(ended);
  SendToCoordinator(key.epoch, std::move(message));

  const AttemptKey attempt_key(key.job_id, key.epoch);
  Attempt& attempt = attempts_.at(attempt_key);
  for (const auto& [number, other] : attempt.ranks) {
    if (!other.report.has_ended()) return StopPeersOfFailed(attempt_key);
  }
  attempt.cleared = true;
  attempt.start.clear_plan();
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(key.job_id);
  SendToCoordinator(key.epoch, std::move(cleared));
  changed_.NotifyAll();
}

}  // namespace adjoin
