#include "worker/daemon/attempts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "proto/protocol.h"
#include "worker/daemon/job_paths.h"
#include "worker/daemon/proc_stat.h"

namespace adjoin {
namespace {

constexpr size_t kRememberedJobs = 4096;
// Memory that a rank needs besides its job's tensors, above StartRanks.memory_bytes: the program, its threads' stacks,
// buffers.
constexpr uint64_t kMemoryAllowance = uint64_t{1} << 30;
// The same of a rank with a GPU: CUDA's libraries and what the driver keeps for its context.
constexpr uint64_t kMemoryAllowanceWithGpu = uint64_t{4} << 30;
// A rank sees its own GPU only, by the name that does not depend on an order; one without a GPU sees none.
constexpr char kVisibleGpus[] = "CUDA_VISIBLE_DEVICES=";
// So that no number that a coordinator sends is too large for a clock.
constexpr absl::Duration kLongestPreparation = absl::Hours(24);
// Where memory runs out, the kernel is to kill a rank, not the daemon.
constexpr int kOomScoreAbove = 500;

bool IsFailure(RankEnd end) { return end != RANK_SUCCEEDED && end != RANK_DRAINED; }

NodeAttempts::Settings WithDefaults(NodeAttempts::Settings settings) {
  if (settings.prepare) return settings;
  settings.prepare = [roots = JobRoots{settings.data_root, settings.output_root, settings.rank_user}](
                         const StartRanks& start, const MountCalls::Enter& enter) {
    return PrepareJobPaths(roots, start, enter);
  };
  return settings;
}

// Absent: the coordinator does not tell it.
std::optional<absl::Duration> PreparationTime(const StartRanks& start) {
  if (!(start.prepare_seconds() > 0)) return std::nullopt;
  return std::min(absl::Seconds(start.prepare_seconds()), kLongestPreparation);
}

}  // namespace

NodeAttempts::NodeAttempts(Settings settings, std::function<void(WorkerMessage)> send, ProcessRecord* record)
    : settings_(WithDefaults(std::move(settings))),
      send_(std::move(send)),
      supervisor_(
          {.on_start = [this](const RankKey& key, pid_t pid) { OnStart(key, pid); },
           .on_log = [this](const RankKey& key, std::vector<std::string> lines) { OnLog(key, std::move(lines)); },
           .on_exit = [this](const RankKey& key, const RankExit& exit) { OnExit(key, exit); }},
          record),
      calls_({settings_.data_root, settings_.output_root}, settings_.preparing, settings_.start_preparing) {}

void NodeAttempts::SendToCoordinator(uint64_t epoch, WorkerMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  send_(std::move(message));
}

SpawnRequest NodeAttempts::CommandOf(const RankKey& key, uint64_t memory_bytes, const Rank& rank) const {
  const std::string& gpu_uuid = rank.report.gpu_uuid();
  SpawnRequest request;
  request.binary = settings_.rank_binary;
  request.arguments = {"--socket", settings_.socket,       "--job",   key.job_id,
                       "--rank",   absl::StrCat(key.rank), "--epoch", absl::StrCat(key.epoch)};
  request.environment = RankEnvironment(settings_.rank_user.has_value() ? settings_.rank_user->home : "");
  request.environment.push_back(absl::StrCat(kVisibleGpus, gpu_uuid));
  request.folder = settings_.rank_folder;
  if (memory_bytes > 0)
    request.memory_bytes = memory_bytes + (gpu_uuid.empty() ? kMemoryAllowance : kMemoryAllowanceWithGpu);
  request.oom_score_above = kOomScoreAbove;
  if (rank.place >= 0) {
    request.processors = settings_.places[rank.place].processors;
    request.memory = settings_.places[rank.place].memory;
  }
  request.user = settings_.rank_user;
  // What ends a daemon in good order may come to all processes beside it, as Slurm's SIGTERM does: then the daemon
  // drains its ranks, and they die with it in any case.
  request.ignores_sigterm = true;
  return request;
}

std::string NodeAttempts::WhyNot(const AttemptKey& key) {
  const auto& [job_id, epoch] = key;
  auto newest = newest_.find(job_id);
  if (newest != newest_.end() && epoch <= newest->second)
    return absl::StrCat("attempt ", newest->second, " of this job was here already");
  if (newest == newest_.end() && epoch <= forgotten_) {
    return absl::StrCat("attempts up to ", forgotten_, " were here already");
  }
  return "";
}

void NodeAttempts::Remember(const AttemptKey& key) {
  newest_[key.first] = key.second;
  if (key.second > latest_.second) latest_ = key;
  if (newest_.size() <= kRememberedJobs) return;
  auto oldest = std::min_element(newest_.begin(), newest_.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  forgotten_ = std::max(forgotten_, oldest->second);
  newest_.erase(oldest);
}

uint64_t NodeAttempts::LivingAttempt(const std::string& job_id) {
  for (const auto& [key, attempt] : attempts_) {
    if (key.first == job_id && !attempt.cleared) return key.second;
  }
  return 0;
}

void NodeAttempts::Start(uint64_t epoch, const StartRanks& start) {
  const AttemptKey key(start.job_id(), epoch);
  absl::MutexLock lock(&mutex_);
  TakeStore(start.store_id());
  const auto same = attempts_.find(key);
  if (same != attempts_.end() && !IsForeign(same->second)) {
    LogWarning(absl::StrCat(key.first, ", attempt ", epoch, ": not started: it is here already"));
    return;
  }
  if (same != attempts_.end()) {
    return Refuse(epoch, start, "processes of another coordinator's job of this number are still dying here");
  }
  if (std::string reason = WhyNot(key); !reason.empty()) return Refuse(epoch, start, reason);
  const uint64_t living = LivingAttempt(key.first);
  Remember(key);
  Attempt& attempt = attempts_[key];
  attempt.start = std::make_shared<const StartRanks>(start);
  for (uint32_t number : start.rank()) attempt.ranks[number].report.set_rank(number);
  if (draining_.has_value())
    return EndUnstarted(key, RANK_LOST, absl::StrCat("was not started: ", *draining_), Fault::kDaemon);
  if (const std::string why = settings_.unfit ? settings_.unfit() : ""; !why.empty())
    return EndUnstarted(key, RANK_LOST, absl::StrCat("could not be started: ", why), Fault::kNode);
  if (living != 0) {  // reported at once, so that no rank elsewhere waits for these
    return EndUnstarted(key, RANK_LOST,
                        absl::StrCat("could not be started: processes of attempt ", living, " are still dying here"),
                        Fault::kDaemon);
  }
  if (const std::string why = GiveGpus(attempt); !why.empty())
    return EndUnstarted(key, RANK_LOST, absl::StrCat("could not be started: ", why), Fault::kDaemon);
  GivePlaces(attempt);
  attempt.preparation = ++preparations_;
  const absl::StatusOr<uint64_t> call =
      calls_.Call([prepare = settings_.prepare,
                   start = attempt.start](const MountCalls::Enter& enter) { return prepare(*start, enter); },
                  [this, key, preparation = attempt.preparation](const absl::Status& prepared) {
                    OnPrepared(key, preparation, prepared);
                  },
                  PreparationTime(start));
  if (call.ok()) {
    attempt.call = *call;
    return;
  }
  if (absl::IsUnavailable(call.status()))
    return EndUnstarted(key, RANK_LOST, absl::StrCat("could not be started: ", std::string(call.status().message())),
                        Fault::kNode);
  EndUnstarted(key, RANK_LOST, "could not be started: the file systems of too many other attempts do not answer",
               Fault::kFiles);
}

void NodeAttempts::Refuse(uint64_t epoch, const StartRanks& start, const std::string& why) {
  LogWarning(absl::StrCat(start.job_id(), ", attempt ", epoch, ": not started: ", why));
  for (uint32_t number : start.rank()) {
    WorkerMessage message;
    RankEnded& ended = *message.mutable_rank_ended();
    ended.set_job_id(start.job_id());
    ended.set_rank(number);
    ended.set_end(RANK_LOST);
    ended.set_infrastructure(true);
    ended.set_error(absl::StrCat("was not started: ", why));
    SendToCoordinator(epoch, std::move(message));
  }
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(start.job_id());
  SendToCoordinator(epoch, std::move(cleared));
}

NodeAttempts::Fault NodeAttempts::FaultOf(const absl::Status& prepared) {
  switch (prepared.code()) {
    case absl::StatusCode::kAborted: return Fault::kNode;
    case absl::StatusCode::kDeadlineExceeded: return Fault::kFiles;
    case absl::StatusCode::kResourceExhausted: return Fault::kDaemon;
    default: return Fault::kJob;
  }
}

void NodeAttempts::OnPrepared(const AttemptKey& key, uint64_t preparation, const absl::Status& prepared) {
  absl::MutexLock lock(&mutex_);
  auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.preparation != preparation) return;  // it was stopped meanwhile
  Attempt& attempt = found->second;
  attempt.preparation = 0;
  if (!prepared.ok()) {
    // Another attempt would find the same.
    const RankEnd end = absl::IsFailedPrecondition(prepared) ? RANK_HOPELESS : RANK_LOST;
    return EndUnstarted(key, end, absl::StrCat("could not be started: ", std::string(prepared.message())),
                        FaultOf(prepared));
  }
  LogInfo(absl::StrCat(key.first, ": starting ", attempt.ranks.size(), " of ", attempt.start->world_size(), " ranks"));
  for (const auto& [number, rank] : attempt.ranks) {
    RankKey started{key.first, key.second, number};
    supervisor_.Start(started, CommandOf(started, attempt.start->memory_bytes(), rank));
  }
}

void NodeAttempts::EndUnstarted(const AttemptKey& key, RankEnd end, const std::string& error, Fault fault) {
  Attempt& attempt = attempts_.at(key);
  // What was stopped before its files were looked at writes no more to them.
  if (attempt.preparation != 0) calls_.Drop(attempt.call);
  attempt.preparation = 0;
  std::vector<uint32_t> numbers;
  for (const auto& [number, rank] : attempt.ranks) numbers.push_back(number);
  for (uint32_t number : numbers) {
    RankEnded ended;
    ended.set_end(end);
    ended.set_error(error);
    ended.set_infrastructure(fault != Fault::kJob);
    ended.set_node_fault(fault == Fault::kNode);
    ended.set_files_fault(fault == Fault::kFiles);
    ReportEnd({key.first, key.second, number}, std::move(ended));
  }
}

void NodeAttempts::SendToRanks(Attempt& attempt, uint64_t epoch, DaemonMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  for (auto& [number, rank] : attempt.ranks) {
    if (rank.peer != nullptr) rank.peer->Send(message);
  }
}

void NodeAttempts::ConnectRanks(uint64_t epoch, const adjoin::ConnectRanks& connect) {
  absl::MutexLock lock(&mutex_);
  auto attempt = attempts_.find({connect.job_id(), epoch});
  if (attempt == attempts_.end()) return;
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(epoch);
  *message.mutable_connect()->mutable_transport_address() = connect.transport_address();
  for (auto& [number, rank] : attempt->second.ranks) {
    if (rank.peer == nullptr || rank.report.connected()) continue;
    if (!attempt->second.connected_at.has_value()) attempt->second.connected_at = Deadline::Clock::now();
    rank.report.set_connected(true);
    rank.peer->Send(message);
  }
}

void NodeAttempts::Stop(const std::string& job_id, uint64_t epoch, const std::string& reason) {
  const AttemptKey key(job_id, epoch);
  absl::MutexLock lock(&mutex_);
  if (attempts_.count(key) > 0) return StopLocked(key, reason, settings_.stop_grace);
  // Its start was lost, or is on its way: then it is too late for it.
  if (epoch > newest_[job_id]) Remember(key);
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(job_id);
  SendToCoordinator(epoch, std::move(cleared));
}

void NodeAttempts::StopLocked(const AttemptKey& key, const std::string& reason, absl::Duration grace) {
  auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.cleared) return;
  Attempt& attempt = found->second;
  if (!attempt.stopping) LogInfo(absl::StrCat(key.first, ": stopping: ", reason));
  attempt.stopping = true;
  if (attempt.preparation != 0) {  // no process is there, and what still looks at files starts none
    const bool killed = !attempt.killed.empty();
    return EndUnstarted(key, killed ? RANK_LOST : RANK_PEER_FAILED, absl::StrCat("was not started: ", reason),
                        killed ? Fault::kDaemon : Fault::kJob);
  }
  DaemonMessage message;
  message.mutable_abort()->set_reason(reason);
  SendToRanks(attempt, key.second, std::move(message));
  supervisor_.Kill(key.first, key.second, grace);
}

void NodeAttempts::Acknowledged(const std::string& job_id, uint64_t epoch) {
  {
    absl::MutexLock lock(&mutex_);
    auto attempt = attempts_.find({job_id, epoch});
    if (attempt == attempts_.end() || !attempt->second.cleared) return;
    attempts_.erase(attempt);
  }
  changed_.NotifyAll();
}

void NodeAttempts::MakeReports(WorkerHello& hello, const std::function<void()>& open) {
  absl::MutexLock lock(&mutex_);
  hello.set_draining(draining_.has_value());
  hello.set_store_id(store_id_);
  hello.mutable_gpu()->Assign(gpus_.begin(), gpus_.end());
  for (const auto& [key, attempt] : attempts_) {
    AttemptReport& report = *hello.add_attempt();
    report.set_job_id(key.first);
    report.set_epoch(key.second);
    report.set_store_id(attempt.start->store_id());
    report.set_cleared(attempt.cleared);
    report.set_running_seconds(attempt.RunningSeconds());
    for (const auto& [number, rank] : attempt.ranks) *report.add_rank() = rank.report;
  }
  if (store_id_ != 0 && latest_.second > 0 && attempts_.count(latest_) == 0) {
    // It is told again and again: a coordinator whose store was put back learns from it which numbers are taken.
    AttemptReport& report = *hello.add_attempt();
    report.set_job_id(latest_.first);
    report.set_epoch(latest_.second);
    report.set_store_id(store_id_);
    report.set_cleared(true);
  }
  open();
}

double NodeAttempts::Attempt::RunningSeconds() const {
  if (!connected_at.has_value()) return 0;
  return std::chrono::duration<double>(Deadline::Clock::now() - *connected_at).count();
}

bool NodeAttempts::IsForeign(const Attempt& attempt) const {
  return attempt.start->store_id() != 0 && attempt.start->store_id() != store_id_;
}

bool NodeAttempts::TakeStore(uint64_t store_id) {
  if (store_id == 0 || store_id == store_id_) return false;
  const uint64_t before = std::exchange(store_id_, store_id);
  if (before == 0) return false;
  LogWarning(absl::StrCat("the coordinator has another store (", absl::Hex(store_id, absl::kZeroPad16),
                          ") than before (", absl::Hex(before, absl::kZeroPad16),
                          "): what runs here for that one ends"));
  newest_.clear();
  forgotten_ = 0;
  latest_ = {};
  std::vector<AttemptKey> foreign;
  for (const auto& [key, attempt] : attempts_) {
    if (IsForeign(attempt)) foreign.push_back(key);
  }
  for (const AttemptKey& key : foreign) {
    Attempt& attempt = attempts_.at(key);
    if (attempt.cleared) {
      attempts_.erase(key);
      continue;
    }
    const std::string why = "its coordinator is gone: the one at this address has another store";
    if (attempt.killed.empty()) attempt.killed = why;
    StopLocked(key, why, absl::ZeroDuration());
  }
  changed_.NotifyAll();
  return true;
}

bool NodeAttempts::Welcomed(uint64_t store_id) {
  absl::MutexLock lock(&mutex_);
  return !TakeStore(store_id);
}

void NodeAttempts::Connected() {
  absl::MutexLock lock(&mutex_);
  connected_ = true;
}

void NodeAttempts::Disconnected() {
  absl::MutexLock lock(&mutex_);
  connected_ = false;
  // The last messages may not have reached the coordinator.
  for (const auto& [key, attempt] : attempts_) StopPeersOfFailed(key);
}

void NodeAttempts::StopPeersOfFailed(const AttemptKey& key) {
  const Attempt& attempt = attempts_.at(key);
  if (connected_ || attempt.stopping || attempt.cleared) return;
  for (const auto& [number, rank] : attempt.ranks) {
    if (!rank.report.has_ended() || !IsFailure(rank.report.ended().end())) continue;
    return StopLocked(key, absl::StrCat("rank ", number, " ", rank.report.ended().error()), settings_.stop_grace);
  }
}

void NodeAttempts::FillHeartbeat(Heartbeat& heartbeat) {
  absl::MutexLock lock(&mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  heartbeat.set_draining(draining_.has_value());
  for (const auto& [key, attempt] : attempts_) {
    if (attempt.cleared || IsForeign(attempt)) continue;
    AttemptPulse& pulses = *heartbeat.add_attempt();
    pulses.set_job_id(key.first);
    pulses.set_epoch(key.second);
    pulses.set_running_seconds(attempt.RunningSeconds());
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

DaemonMessage NodeAttempts::LeaseMessage() const {
  DaemonMessage message;
  message.mutable_lease()->set_until_boottime_ns(lease_until_);
  return message;
}

void NodeAttempts::SetLease(int64_t until_boottime_ns, absl::Duration length) {
  absl::MutexLock lock(&mutex_);
  lease_until_ = until_boottime_ns;
  lease_length_ = length;
  for (auto& [key, attempt] : attempts_) SendToRanks(attempt, key.second, LeaseMessage());
}

std::string NodeAttempts::LeaseText() const {
  return absl::StrCat("nothing heard from the coordinator for ", absl::ToDoubleSeconds(lease_length_),
                      " s (its lease ran out)");
}

void NodeAttempts::LeaseOver() {
  std::string text;
  {
    absl::MutexLock lock(&mutex_);
    text = LeaseText();
  }
  KillAll(text);
}

DaemonMessage NodeAttempts::DrainMessage() const {
  DaemonMessage message;
  message.mutable_drain()->set_reason(*draining_);
  return message;
}

void NodeAttempts::Drain(const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  if (draining_.has_value()) return;
  draining_ = reason;
  for (auto& [key, attempt] : attempts_) {
    SendToRanks(attempt, key.second, DrainMessage());
    if (attempt.preparation != 0)
      EndUnstarted(key, RANK_LOST, absl::StrCat("was not started: ", reason), Fault::kDaemon);
  }
}

void NodeAttempts::Trace(uint64_t epoch, const TraceRank& trace) {
  DaemonMessage message;
  *message.mutable_header() = MakeHeader(epoch);
  message.mutable_trace()->set_request_id(trace.request_id());
  message.mutable_trace()->set_steps(trace.steps());
  absl::MutexLock lock(&mutex_);
  const Rank* rank = Find({trace.job_id(), epoch, /*rank=*/0});
  if (rank != nullptr && rank->peer != nullptr && !IsForeign(attempts_.at({trace.job_id(), epoch}))) {
    rank->peer->Send(message);
  }
}

void NodeAttempts::KillAll(const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  for (auto& [key, attempt] : attempts_) {
    if (attempt.cleared) continue;
    if (attempt.killed.empty()) attempt.killed = reason;
    StopLocked(key, reason, absl::ZeroDuration());
  }
}

bool NodeAttempts::WaitUntilCleared(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  return changed_.Wait(mutex_, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(attempts_.begin(), attempts_.end(), [](const auto& entry) { return entry.second.cleared; });
  });
}

bool NodeAttempts::WaitUntilAcknowledged(Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  changed_.Wait(mutex_, deadline,
                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return attempts_.empty() || waits_ended_; });
  return attempts_.empty();
}

void NodeAttempts::EndWaits() {
  {
    absl::MutexLock lock(&mutex_);
    waits_ended_ = true;
  }
  changed_.NotifyAll();
}

}  // namespace adjoin
