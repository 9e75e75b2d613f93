// NodeAttempts: messages from ranks, and their ends. The coordinator's orders are in attempts.cc.
#include "worker/daemon/attempts.h"

#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "proto/killed_by_signal.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "worker/rank/rank_exit_codes.h"

namespace adjoin {
namespace {

// Returns the error that a rank reported, fit for a message.
std::string CleanError(const std::string& error) { return PrintableText(error, kMaxErrorBytes); }

bool RunsOn(pid_t process, const std::vector<int>& processors) {
  cpu_set_t may;
  CPU_ZERO(&may);
  if (sched_getaffinity(process, sizeof(may), &may) != 0) return false;
  return CPU_COUNT(&may) == static_cast<int>(processors.size()) &&
         std::all_of(processors.begin(), processors.end(),
                     [&](int processor) { return processor < CPU_SETSIZE && CPU_ISSET(processor, &may) != 0; });
}

}  // namespace

NodeAttempts::Rank* NodeAttempts::Find(const RankKey& key) {
  auto attempt = attempts_.find({key.job_id, key.epoch});
  if (attempt == attempts_.end()) return nullptr;
  auto rank = attempt->second.ranks.find(key.rank);
  return rank == attempt->second.ranks.end() ? nullptr : &rank->second;
}

DaemonMessage NodeAttempts::Orders(const Attempt& attempt, const Rank& rank) const {
  DaemonMessage message;
  RankStart& start = *message.mutable_start();
  start.set_world_size(attempt.start->world_size());
  start.set_plan(attempt.start->plan());
  start.set_plan_hash(attempt.start->plan_hash());
  start.set_data_root(settings_.data_root);
  start.set_output_root(settings_.output_root);
  start.set_single_node(attempt.start->single_node());
  start.set_net_device(settings_.net_device);
  start.set_port_range(settings_.data_port_range);
  start.set_store_id(attempt.start->store_id());
  start.set_job_tag(attempt.start->job_tag());
  start.set_cache_dir(settings_.cache_dir);
  start.set_cache_bytes(settings_.cache_bytes);
  if (rank.report.rank() == 0 && settings_.rates.has_value()) *start.mutable_rates() = *settings_.rates;
  if (!rank.report.gpu_uuid().empty()) start.set_device("cuda:0");  // the only one that it sees
  return message;
}

bool NodeAttempts::IsRank(pid_t process) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, attempt] : attempts_) {
    for (const auto& [number, rank] : attempt.ranks) {
      if (rank.process == process && !rank.exit.has_value()) return true;
    }
  }
  return false;
}

absl::Status NodeAttempts::CheckProcess(uint64_t epoch, const RankHello& hello, pid_t process) {
  absl::MutexLock lock(&mutex_);
  const Rank* rank = Find({hello.job_id(), epoch, hello.rank()});
  if (rank == nullptr || rank->process == process) return absl::OkStatus();  // RankConnected refuses an unknown rank
  return absl::PermissionDeniedError(absl::StrCat("process ", process, " is not rank ", hello.rank(), " of ",
                                                  PrintableText(hello.job_id(), kMaxNameBytes), ", which is process ",
                                                  rank->process));
}

absl::Status NodeAttempts::RankConnected(uint64_t epoch, const RankHello& hello, std::shared_ptr<RankPeer> peer) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find({hello.job_id(), epoch, hello.rank()});
  const Attempt* attempt = rank == nullptr ? nullptr : &attempts_.at({hello.job_id(), epoch});
  if (rank == nullptr || rank->exit.has_value() || attempt->stopping || attempt->preparation != 0) {
    return absl::NotFoundError(
        absl::StrCat("rank ", hello.rank(), " of ", hello.job_id(), ", epoch ", epoch, ", is not to run here"));
  }
  if (rank->report.pid() != 0)
    return absl::AlreadyExistsError(absl::StrCat("rank ", hello.rank(), " is connected already"));
  rank->report.set_pid(hello.pid());
  rank->peer = std::move(peer);
  std::vector<DaemonMessage> messages;
  if (lease_until_ != 0) messages.push_back(LeaseMessage());  // first: a rank that has orders has a lease
  messages.push_back(Orders(*attempt, *rank));
  if (draining_.has_value()) messages.push_back(DrainMessage());
  for (DaemonMessage& message : messages) {
    *message.mutable_header() = MakeHeader(epoch);
    rank->peer->Send(message);
  }
  return absl::OkStatus();
}

void NodeAttempts::RankSaid(const RankKey& key, const RankMessage& message) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr || rank->report.has_ended() || IsForeign(attempts_.at({key.job_id, key.epoch}))) return;
  WorkerMessage out;
  if (message.has_result()) {
    rank->result = message.result();
    supervisor_.KillRank(key, settings_.exit_grace);
  } else if (message.has_pulse()) {
    rank->pulse = message.pulse();
    rank->pulse_at = Deadline::Clock::now();
  } else if (message.kind_case() == RankMessage::kTransportAddress &&
             message.transport_address().size() > kMaxAddressBytes) {
    RankResult& refused = rank->result.emplace();
    refused.set_end(RANK_ERROR);
    refused.set_error(absl::StrCat("its transport has an address of ", message.transport_address().size(),
                                   " bytes; at most ", kMaxAddressBytes, " are possible: allow it fewer devices"));
    supervisor_.KillRank(key, absl::ZeroDuration());
  } else if (message.kind_case() == RankMessage::kTransportAddress) {
    rank->report.set_transport_address(message.transport_address());
    RankReady& ready = *out.mutable_rank_ready();
    ready.set_job_id(key.job_id);
    ready.set_rank(key.rank);
    ready.set_pid(rank->report.pid());
    ready.set_transport_address(message.transport_address());
    ready.set_gpu_uuid(rank->report.gpu_uuid());
    ready.set_binding(rank->report.binding());
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

void NodeAttempts::RankDisconnected(const RankKey& key) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr) return;
  rank->peer.reset();
  ReportIfOver(key);
}

void NodeAttempts::OnStart(const RankKey& key, pid_t pid) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr) return;
  rank->process = pid;
  if (rank->place < 0 || RunsOn(pid, settings_.places[rank->place].processors)) return;
  rank->report.clear_binding();
  LogWarning(absl::StrCat(key.job_id, ": rank ", key.rank, " does not run on ", settings_.places[rank->place].text,
                          ", as it should: may this daemon still use them?"));
}

void NodeAttempts::OnLog(const RankKey& key, std::vector<std::string> lines) {
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
  absl::MutexLock lock(&mutex_);
  auto attempt = attempts_.find({key.job_id, key.epoch});
  if (attempt != attempts_.end() && IsForeign(attempt->second)) return;  // the coordinator's job of this id is another
  SendToCoordinator(key.epoch, std::move(message));
}

void NodeAttempts::OnExit(const RankKey& key, const RankExit& exit) {
  absl::MutexLock lock(&mutex_);
  Rank* rank = Find(key);
  if (rank == nullptr) return;
  rank->exit = exit;
  ReportIfOver(key);
}

void NodeAttempts::ReportIfOver(const RankKey& key) {
  const Rank& rank = *Find(key);
  if (rank.report.has_ended() || !rank.exit.has_value()) return;
  const bool normal = rank.exit->signal == 0 && rank.exit->spawn_error.empty();
  // The last messages of a rank that has exited may still be on their way; the end of its stream comes after them.
  if (normal && !rank.result.has_value() && rank.peer != nullptr) return;
  ReportEnd(key, EndOf(key, rank, attempts_.at({key.job_id, key.epoch})));
}

RankEnded NodeAttempts::EndOf(const RankKey& key, const Rank& rank, const Attempt& attempt) const {
  const RankExit& exit = *rank.exit;
  const bool exited = exit.signal == 0 && exit.spawn_error.empty();
  RankEnded ended;
  if (rank.result.has_value() && rank.result->end() == RANK_SUCCEEDED && exited && exit.code == 0) {
    ended.set_end(RANK_SUCCEEDED);
    *ended.mutable_artifact() = rank.result->artifact();
    ended.set_artifacts_left_out(rank.result->artifacts_left_out());
  } else if (rank.result.has_value() && rank.result->end() == RANK_DRAINED) {
    ended.set_end(RANK_DRAINED);
    ended.set_error(CleanError(rank.result->error()));
    ended.set_drained_step(rank.result->drained_step());
    *ended.mutable_artifact() = rank.result->artifact();
    ended.set_artifacts_left_out(rank.result->artifacts_left_out());
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
    ended.set_infrastructure(own && rank.result->end() == RANK_LOST);
    ended.set_error(absl::StrCat("failed: ", CleanError(rank.result->error())));
  } else {
    ended.set_end(attempt.stopping ? RANK_PEER_FAILED : RANK_LOST);
    // No memory, no descriptor, no space for its record: no fault of the job's. Nor is the end of a process that had
    // not yet asked what to run: its program, or what that needs, is not as it should be.
    const bool knew_its_job = rank.report.pid() != 0;
    ended.set_infrastructure(!attempt.stopping && (!exit.spawn_error.empty() || !knew_its_job));
    ended.set_node_fault(ended.infrastructure() && !knew_its_job && !WasKilledFromOutside(exit.ToString()));
    ended.set_error(absl::StrCat(exit.ToString(), rank.result.has_value() ? " after it had finished"
                                                  : exited                ? " without a result"
                                                                          : ""));
  }
  return ended;
}

void NodeAttempts::ReportEnd(const RankKey& key, RankEnded ended) {
  ended.set_job_id(key.job_id);
  ended.set_rank(key.rank);
  *Find(key)->report.mutable_ended() = ended;
  const char* text = ended.end() == RANK_SUCCEEDED ? "succeeded" : ended.end() == RANK_DRAINED ? "is drained" : "";
  LogInfo(absl::StrCat(key.job_id, ": rank ", key.rank, " ", *text != '\0' ? text : ended.error()));
  const AttemptKey attempt_key(key.job_id, key.epoch);
  Attempt& attempt = attempts_.at(attempt_key);
  const bool foreign = IsForeign(attempt);
  if (!foreign) {
    WorkerMessage message;
    *message.mutable_rank_ended() = std::move(ended);
    SendToCoordinator(key.epoch, std::move(message));
  }
  for (const auto& [number, other] : attempt.ranks) {
    if (!other.report.has_ended()) return StopPeersOfFailed(attempt_key);
  }
  attempt.cleared = true;
  if (foreign) {
    attempts_.erase(attempt_key);  // nobody will acknowledge it
    if (settings_.on_foreign_gone) settings_.on_foreign_gone();
    changed_.NotifyAll();
    return;
  }
  auto rest = std::make_shared<StartRanks>();  // what is still told of it; a plan is large
  rest->set_store_id(attempt.start->store_id());
  attempt.start = std::move(rest);
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(key.job_id);
  SendToCoordinator(key.epoch, std::move(cleared));
  changed_.NotifyAll();
}

}  // namespace adjoin
