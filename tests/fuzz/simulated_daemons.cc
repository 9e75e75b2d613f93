// The daemons of a SimulatedCluster, which keep the protocol, and the processes of their ranks.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"
#include "tests/fuzz/simulated_cluster.h"

namespace adjoin {

void SimulatedCluster::Connect(int index) {
  Daemon& daemon = daemons_[index];
  if (daemon.connection != 0) return;
  WorkerHello hello;
  hello.set_name(daemon.name);
  hello.set_slots(slots_);
  hello.set_incarnation(daemon.incarnation);
  hello.set_node_id(daemon.name);
  for (int gpu = 0; gpu < GpusOf(index); ++gpu) hello.add_gpu()->set_uuid(absl::StrCat("GPU-", index, "-", gpu));
  for (const auto& [key, attempt] : daemon.attempts) {
    AttemptReport& report = *hello.add_attempt();
    report.set_job_id(key.first);
    report.set_epoch(key.second);
    report.set_store_id(attempt.store_id);
    report.set_cleared(attempt.alive.empty());
    for (const auto& [number, rank] : attempt.ranks) *report.add_rank() = rank;
  }
  daemon.inbox.clear();
  daemon.outbox.clear();
  daemon.sent.clear();
  daemon.sequence = 0;
  const ConnectionId connection = ++last_connection_;
  daemon.sent[0] = now_;  // the hello is acknowledged with Welcome
  daemon.connection = connection;
  if (!service_->WorkerConnected(connection, hello).ok()) daemon.connection = 0;
}

void SimulatedCluster::BreakStream(int index) {
  Daemon& daemon = daemons_[index];
  if (daemon.connection == 0) return;
  const ConnectionId connection = std::exchange(daemon.connection, 0);
  daemon.inbox.clear();
  daemon.outbox.clear();
  service_->WorkerDisconnected(connection, "its stream ended");
}

void SimulatedCluster::CrashDaemon(int index) {
  Daemon& daemon = daemons_[index];
  BreakStream(index);
  daemon.inbox.clear();  // also what a coordinator had sent that has crashed since
  daemon.attempts.clear();
  daemon.newest.clear();
  ++daemon.incarnation;
}

void SimulatedCluster::DaemonReads(int index) {
  Daemon& daemon = daemons_[index];
  if (daemon.inbox.empty()) return;
  const CoordinatorMessage message = std::move(daemon.inbox.front());
  daemon.inbox.pop_front();
  Obey(daemon, message);
}

void SimulatedCluster::Obey(Daemon& daemon, const CoordinatorMessage& message) {
  const uint64_t epoch = message.header().epoch();
  switch (message.kind_case()) {
    case CoordinatorMessage::kWelcome: daemon.lease_from = std::max(daemon.lease_from, daemon.sent[0]); break;
    case CoordinatorMessage::kHeartbeatAck: {
      auto sent = daemon.sent.find(message.heartbeat_ack().sequence());
      if (sent != daemon.sent.end()) daemon.lease_from = std::max(daemon.lease_from, sent->second);
      break;
    }
    case CoordinatorMessage::kStartRanks: Start(daemon, epoch, message.start_ranks()); break;
    case CoordinatorMessage::kConnectRanks: {
      auto attempt = daemon.attempts.find({message.connect_ranks().job_id(), epoch});
      if (attempt == daemon.attempts.end()) break;
      for (auto& [number, rank] : attempt->second.ranks) rank.set_connected(true);
      break;
    }
    case CoordinatorMessage::kStopAttempt: {
      auto attempt = daemon.attempts.find({message.stop_attempt().job_id(), epoch});
      if (attempt != daemon.attempts.end()) {
        attempt->second.stopping = true;
        break;
      }
      uint64_t& newest = daemon.newest[message.stop_attempt().job_id()];
      newest = std::max(newest, epoch);
      WorkerMessage cleared;
      cleared.mutable_attempt_cleared()->set_job_id(message.stop_attempt().job_id());
      Say(daemon, epoch, std::move(cleared));
      break;
    }
    case CoordinatorMessage::kAttemptAck: {
      auto attempt = daemon.attempts.find({message.attempt_ack().job_id(), epoch});
      if (attempt != daemon.attempts.end() && attempt->second.alive.empty()) daemon.attempts.erase(attempt);
      break;
    }
    case CoordinatorMessage::kProbeData: {
      WorkerMessage answer;
      answer.mutable_probe_result()->set_request_id(message.probe_data().request_id());
      Say(daemon, 0, std::move(answer));
      break;
    }
    default: break;
  }
}

void SimulatedCluster::Start(Daemon& daemon, uint64_t epoch, const StartRanks& start) {
  uint64_t& newest = daemon.newest[start.job_id()];
  if (epoch <= newest || now_ >= daemon.lease_from + kLease) return;
  for (const auto& [key, attempt] : daemon.attempts) {
    if (key.first == start.job_id() && !attempt.alive.empty()) return;
  }
  newest = epoch;
  DaemonAttempt& attempt = daemon.attempts[{start.job_id(), epoch}];
  attempt.store_id = start.store_id();
  attempt.gpus = start.gpus();
  for (uint32_t number : start.rank()) {
    attempt.ranks[number].set_rank(number);
    attempt.ranks[number].set_pid(static_cast<int64_t>(++last_pid_));
    attempt.alive.insert(number);
  }
}

void SimulatedCluster::Say(Daemon& daemon, uint64_t epoch, WorkerMessage message) {
  *message.mutable_header() = MakeHeader(epoch);
  if (daemon.connection != 0) daemon.outbox.push_back(std::move(message));
}

bool SimulatedCluster::CoordinatorReads(int index) {
  Daemon& daemon = daemons_[index];
  if (daemon.outbox.empty() || daemon.connection == 0) return false;
  const WorkerMessage message = std::move(daemon.outbox.front());
  daemon.outbox.pop_front();
  service_->WorkerSaid(daemon.connection, message);
  return true;
}

void SimulatedCluster::Heartbeat(int index, bool draining) {
  Daemon& daemon = daemons_[index];
  if (daemon.connection == 0) return;
  WorkerMessage message;
  class Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat.set_sequence(++daemon.sequence);
  heartbeat.set_incarnation(daemon.incarnation);
  heartbeat.set_draining(draining);
  for (const auto& [key, attempt] : daemon.attempts) {
    AttemptPulse& pulse = *heartbeat.add_attempt();
    pulse.set_job_id(key.first);
    pulse.set_epoch(key.second);
    for (uint32_t number : attempt.alive) {
      RankPulse& rank = *pulse.add_rank();
      rank.set_rank(number);
      rank.set_activity(COMPUTING);
      rank.set_step(attempt.ranks.at(number).progress().step());
    }
  }
  daemon.sent[daemon.sequence] = now_;
  Say(daemon, 0, std::move(message));
}

// ---------------------------------------------------------------------------------------------------------------------
// Ranks

std::vector<SimulatedCluster::Pick> SimulatedCluster::Alive(const Daemon& daemon) const {
  std::vector<Pick> picks;
  for (const auto& [key, attempt] : daemon.attempts) {
    for (uint32_t rank : attempt.alive) picks.push_back({key, rank});
  }
  return picks;
}

void SimulatedCluster::RankReady(int index, uint32_t which) {
  Daemon& daemon = daemons_[index];
  const std::vector<Pick> picks = Alive(daemon);
  if (picks.empty()) return;
  const Pick& pick = picks[which % picks.size()];
  RankReport& rank = daemon.attempts.at(pick.key).ranks.at(pick.rank);
  if (!rank.transport_address().empty()) return;
  rank.set_transport_address(absl::StrCat("address of ", rank.pid()));
  WorkerMessage message;
  class RankReady& ready = *message.mutable_rank_ready();
  ready.set_job_id(pick.key.first);
  ready.set_rank(pick.rank);
  ready.set_pid(rank.pid());
  ready.set_transport_address(rank.transport_address());
  Say(daemon, pick.key.second, std::move(message));
}

void SimulatedCluster::RankStep(int index, uint32_t which, uint64_t step) {
  Daemon& daemon = daemons_[index];
  const std::vector<Pick> picks = Alive(daemon);
  if (picks.empty()) return;
  const Pick& pick = picks[which % picks.size()];
  RankReport& rank = daemon.attempts.at(pick.key).ranks.at(pick.rank);
  if (!rank.connected()) return;
  rank.mutable_progress()->set_step(step);
  WorkerMessage message;
  RankUpdate& update = *message.mutable_rank_update();
  update.set_job_id(pick.key.first);
  update.set_rank(pick.rank);
  *update.mutable_progress() = rank.progress();
  Say(daemon, pick.key.second, std::move(message));
}

void SimulatedCluster::RankEnds(int index, uint32_t which, RankEnd end) {
  Daemon& daemon = daemons_[index];
  const std::vector<Pick> picks = Alive(daemon);
  if (picks.empty()) return;
  const Pick& pick = picks[which % picks.size()];
  const DaemonAttempt& attempt = daemon.attempts.at(pick.key);
  // Only ranks that have met the others can have finished.
  const bool finished = end == RANK_SUCCEEDED || end == RANK_DRAINED;
  if (attempt.stopping || (finished && !attempt.ranks.at(pick.rank).connected())) end = RANK_PEER_FAILED;
  EndRank(daemon, pick.key, pick.rank, end);
}

void SimulatedCluster::EndRank(Daemon& daemon, const AttemptKey& key, uint32_t number, RankEnd end) {
  DaemonAttempt& attempt = daemon.attempts.at(key);
  attempt.alive.erase(number);
  WorkerMessage message;
  RankEnded& ended = *message.mutable_rank_ended();
  ended.set_job_id(key.first);
  ended.set_rank(number);
  ended.set_end(end);
  ended.set_error(end == RANK_SUCCEEDED ? "" : "ended");
  *attempt.ranks.at(number).mutable_ended() = ended;
  Say(daemon, key.second, std::move(message));
  if (!attempt.alive.empty()) return;
  WorkerMessage cleared;
  cleared.mutable_attempt_cleared()->set_job_id(key.first);
  Say(daemon, key.second, std::move(cleared));
}

void SimulatedCluster::Garbage(int index, const WorkerMessage& message) {
  if (daemons_[index].connection != 0) service_->WorkerSaid(daemons_[index].connection, message);
}

}  // namespace adjoin
