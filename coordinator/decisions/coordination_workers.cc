// Worker daemons: their connections, what they report, their deaths and leases.
#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/decisions/coordination_service.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

// Ticks come ten times a second.
constexpr absl::Duration kLongestTick = absl::Seconds(1);

}  // namespace

bool CoordinationService::Usable(const Worker& worker) const {
  return worker.connection != 0 && !worker.dead && !worker.draining && Now() - worker.last_heard < options_.suspect_after;
}

std::string CoordinationService::RanksOn(const JobRecord& job, const std::string& worker) const {
  std::vector<size_t> ranks;
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    if (job.attempt.ranks[r].worker == worker) ranks.push_back(r);
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// ---------------------------------------------------------------------------------------------------------------------
// Connections

absl::Status CoordinationService::WorkerConnected(ConnectionId connection, const WorkerHello& hello) {
  const std::string& name = hello.name();
  if (name.empty()) return absl::InvalidArgumentError("the worker gives no name");
  if (hello.slots() == 0) return absl::InvalidArgumentError(absl::StrCat(name, " offers no slots"));
  auto [it, is_new] = workers_.try_emplace(name);
  Worker& worker = it->second;
  const bool same = worker.hello.incarnation() == hello.incarnation();
  if (!is_new && worker.connection != 0) {
    if (!same && Now() - worker.last_heard < options_.suspect_after) {
      return absl::AlreadyExistsError(absl::StrCat("a worker named ", name, " is connected already, from ",
                                                   worker.hello.address(), ": give this one another --name"));
    }
    Action close;
    close.to = worker.connection;
    close.close = close.urgent = true;
    actions_.push_back(std::move(close));
    worker_of_.erase(worker.connection);
  }
  if (!is_new) {
    ForgetChecks(name);  // what it was asked is lost with its old connection
    if (!same) OnNewIncarnation(name, hello, worker.last_heard);
  }
  const std::string output_id = hello.output_id().empty() && same ? worker.hello.output_id() : hello.output_id();
  worker.hello = hello;
  worker.hello.clear_attempt();
  worker.hello.clear_output_id();
  if (!output_id.empty()) OutputKnown(name, output_id);
  worker.connection = connection;
  worker.last_heard = Now();
  worker.attached = true;
  worker.dead = false;
  worker.draining = hello.draining();
  worker_of_[connection] = name;
  notes_.push_back({absl::StrCat("worker ", name, " connected with ", hello.slots(), " slots",
                                hello.attempt().empty() ? "" : absl::StrCat(" and ", hello.attempt_size(), hello.attempt_size() == 1 ? " attempt" : " attempts"))});

  CoordinatorMessage message;
  message.mutable_welcome()->set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat));
  message.mutable_welcome()->set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  Send(name, 0, std::move(message), /*urgent=*/true);
  for (const AttemptReport& report : hello.attempt()) OnReport(name, report);
  OnLostMessages(name, hello);
  CheckWaitingJobs();
  schedule_ = true;
  Schedule();
  return absl::OkStatus();
}

// On the same node, the processes of the incarnation before are gone: a daemon makes sure of that before it connects. Of
// another node with its name, nothing is known: they live until their lease is over.
void CoordinationService::OnNewIncarnation(const std::string& name, const WorkerHello& hello, absl::Duration last_heard) {
  for (JobRecord* job : jobs_.All()) {
    auto found = job->attempt.holders.find(name);
    if (found == job->attempt.holders.end() || found->second.incarnation == hello.incarnation()) continue;
    Holder& holder = found->second;
    if (!holder.node_id.empty() && holder.node_id == hello.node_id()) {
      Release(*job, name, absl::StrCat(name, " was started anew: no process of the attempt is left there"));
    } else if (!holder.lease_end.has_value()) {
      holder.lease_end = last_heard + job->attempt.lease + options_.lease_margin;
      orphans_.insert(job->number);
      Event(*job, "waits_for_lease", absl::StrCat("another node has the name ", name, " now; ranks may live on the one before"));
    }
    if (!job->attempt.over) {
      EndAttempt(*job, EndCause::kNodeLost,
                 absl::StrCat(name, " was lost (its daemon was started anew) with ", RanksOn(*job, name)));
    }
  }
}

void CoordinationService::OnReport(const std::string& name, const AttemptReport& report) {
  JobRecord* job = AttemptOf(name, report.job_id(), report.epoch());
  if (job == nullptr) {
    // Of no attempt that this daemon should have: it ended long ago, or was never known.
    if (report.cleared()) {
      AcknowledgeEnd(name, report.job_id(), report.epoch());
    } else {
      CoordinatorMessage message;
      message.mutable_stop_attempt()->set_job_id(report.job_id());
      message.mutable_stop_attempt()->set_reason("this attempt is no longer the job's");
      Send(name, report.epoch(), std::move(message), /*urgent=*/true);
    }
    return;
  }
  for (const RankReport& said : report.rank()) {
    RankRecord* rank = RankOf(name, *job, said.rank());
    if (rank == nullptr) continue;
    if (said.pid() != 0) rank->pid = said.pid();
    RankUpdate update;
    update.set_rank(said.rank());
    update.set_transport(said.transport());
    if (said.has_progress()) *update.mutable_progress() = said.progress();
    OnRankUpdate(*job, said.rank(), *rank, update);
    if (!said.transport_address().empty() && !job->attempt.over) {
      RankReady ready;
      ready.set_rank(said.rank());
      ready.set_pid(said.pid());
      ready.set_transport_address(said.transport_address());
      OnRankReady(*job, *rank, ready);
    }
  }
  for (const RankReport& said : report.rank()) {
    RankRecord* rank = RankOf(name, *job, said.rank());
    if (rank != nullptr && said.has_ended()) OnRankEnded(*job, *rank, said.ended());
  }
  if (report.cleared()) {
    OnCleared(*job, name);
    return;
  }
  if (job->attempt.over) {
    SendStop(*job, name, job->attempt.reason);
  } else if (job->attempt.connected &&
             std::any_of(report.rank().begin(), report.rank().end(),
                         [](const RankReport& said) { return !said.connected() && !said.has_ended(); })) {
    SendConnect(*job, name);
  }
}

// What was on its way to the daemon when its last connection ended did not come.
void CoordinationService::OnLostMessages(const std::string& name, const WorkerHello& hello) {
  for (JobRecord* job : jobs_.All()) {
    auto holder = job->attempt.holders.find(name);
    if (holder == job->attempt.holders.end() || holder->second.incarnation != hello.incarnation()) continue;
    const bool reported = std::any_of(hello.attempt().begin(), hello.attempt().end(), [&](const AttemptReport& report) {
      return report.job_id() == job->id && report.epoch() == job->attempt.epoch;
    });
    if (reported) continue;
    if (job->attempt.over) {
      Release(*job, name, absl::StrCat(name, " has no process of the attempt"));
    } else if (job->state == STARTING) {
      SendStart(*job, name);
    } else {
      Release(*job, name, absl::StrCat(name, " has no process of the attempt"));
      EndAttempt(*job, EndCause::kNodeLost,
                 absl::StrCat(name, " knows nothing of ", RanksOn(*job, name), ", which ran there"));
    }
  }
}

void CoordinationService::WorkerDisconnected(ConnectionId connection, const std::string& why) {
  auto it = worker_of_.find(connection);
  if (it == worker_of_.end()) return;
  const std::string name = it->second;
  worker_of_.erase(it);
  workers_.at(name).connection = 0;
  ForgetChecks(name);
  notes_.push_back({absl::StrCat("worker ", name, " is not connected: ", why)});
  CheckWaitingJobs();
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages

void CoordinationService::WorkerSaid(ConnectionId connection, const WorkerMessage& message) {
  auto it = worker_of_.find(connection);
  if (it == worker_of_.end()) return;
  const std::string name = it->second;
  const uint64_t epoch = message.header().epoch();
  Worker& worker = workers_.at(name);
  const bool was_usable = Usable(worker);
  worker.last_heard = Now();
  switch (message.kind_case()) {
    case WorkerMessage::kHeartbeat:
      OnHeartbeat(name, message.heartbeat());
      break;
    case WorkerMessage::kProbeResult:
      OnProbeResult(name, message.probe_result());
      break;
    case WorkerMessage::kRankReady: {
      JobRecord* job = AttemptOf(name, message.rank_ready().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(name, *job, message.rank_ready().rank());
      if (rank != nullptr && !job->attempt.over) OnRankReady(*job, *rank, message.rank_ready());
      break;
    }
    case WorkerMessage::kRankUpdate: {
      JobRecord* job = AttemptOf(name, message.rank_update().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(name, *job, message.rank_update().rank());
      if (rank != nullptr) OnRankUpdate(*job, message.rank_update().rank(), *rank, message.rank_update());
      break;
    }
    case WorkerMessage::kRankEnded: {
      JobRecord* job = AttemptOf(name, message.rank_ended().job_id(), epoch);
      RankRecord* rank = job == nullptr ? nullptr : RankOf(name, *job, message.rank_ended().rank());
      if (rank != nullptr) OnRankEnded(*job, *rank, message.rank_ended());
      break;
    }
    case WorkerMessage::kAttemptCleared: {
      const std::string& job_id = message.attempt_cleared().job_id();
      JobRecord* job = AttemptOf(name, job_id, epoch);
      job != nullptr ? OnCleared(*job, name) : AcknowledgeEnd(name, job_id, epoch);
      break;
    }
    default:
      break;
  }
  if (!was_usable && Usable(worker)) {
    CheckWaitingJobs();
    schedule_ = true;
  }
  Schedule();
}

void CoordinationService::OnHeartbeat(const std::string& name, const Heartbeat& heartbeat) {
  Worker& worker = workers_.at(name);
  if (heartbeat.incarnation() != 0 && heartbeat.incarnation() != worker.hello.incarnation()) return;
  if (heartbeat.draining() && !worker.draining) notes_.push_back({absl::StrCat("worker ", name, " drains")});
  worker.draining = heartbeat.draining();
  if (!heartbeat.output_id().empty() && heartbeat.output_id() != worker.hello.output_id()) {
    OutputKnown(name, heartbeat.output_id());
    schedule_ = true;
  }
  for (const AttemptPulse& pulse : heartbeat.attempt()) {
    JobRecord* job = AttemptOf(name, pulse.job_id(), pulse.epoch());
    if (job == nullptr || !job->attempt.watch.has_value()) continue;
    for (const RankPulse& rank : pulse.rank()) {
      if (RankOf(name, *job, rank.rank()) != nullptr) job->attempt.watch->Heard(rank, Now());
    }
  }
  CoordinatorMessage message;
  message.mutable_heartbeat_ack()->set_sequence(heartbeat.sequence());
  Send(name, 0, std::move(message), /*urgent=*/true);
}

void CoordinationService::AcknowledgeEnd(const std::string& name, const std::string& job_id, uint64_t epoch) {
  CoordinatorMessage message;
  message.mutable_attempt_ack()->set_job_id(job_id);
  Send(name, epoch, std::move(message));
}

bool CoordinationService::Owns(ConnectionId connection, const std::string& job_id, uint64_t epoch) {
  auto worker = worker_of_.find(connection);
  JobRecord* job = jobs_.Find(job_id);
  if (worker == worker_of_.end() || job == nullptr || job->attempt.epoch != epoch) return false;
  const std::vector<RankRecord>& ranks = job->attempt.ranks;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankRecord& r) { return r.worker == worker->second; });
}

// ---------------------------------------------------------------------------------------------------------------------
// Deaths and leases

void CoordinationService::Release(JobRecord& job, const std::string& name, const std::string& event) {
  job.attempt.holders.erase(name);
  auto worker = workers_.find(name);
  if (worker != workers_.end()) worker->second.held.erase(job.number);
  AttemptChanged(job);
  if (!event.empty()) Event(job, "released_node", event);
  schedule_ = true;
}

void CoordinationService::OnDead(const std::string& name, const std::string& why) {
  Worker& worker = workers_.at(name);
  worker.dead = true;
  ForgetChecks(name);
  if (worker.connection != 0) {
    Action close;
    close.to = worker.connection;
    close.close = close.urgent = true;
    actions_.push_back(std::move(close));
    worker_of_.erase(worker.connection);
    worker.connection = 0;
  }
  notes_.push_back({absl::StrCat("worker ", name, " is lost: ", why)});
  for (JobRecord* job : jobs_.Active()) {
    if (job->attempt.holders.count(name) == 0) continue;
    EndAttempt(*job, EndCause::kNodeLost, absl::StrCat(name, " was lost (", why, ") with ", RanksOn(*job, name)));
  }
  CheckWaitingJobs();
  schedule_ = true;
}

bool CoordinationService::TickWorkers() {
  bool changed = false;
  std::vector<std::pair<std::string, absl::Duration>> silent;
  for (const auto& [name, worker] : workers_) {
    const absl::Duration limit = worker.attached ? options_.dead_after : std::max(options_.reattach, options_.dead_after);
    if (!worker.dead && Now() - worker.last_heard >= limit) silent.emplace_back(name, limit);
  }
  for (const auto& [name, limit] : silent) {
    OnDead(name, absl::StrCat("nothing heard for ", absl::FormatDuration(limit)));
    changed = true;
  }
  for (auto it = workers_.begin(); it != workers_.end();) {
    const bool gone = it->second.dead && it->second.held.empty() && !it->second.checks;
    changed = changed || gone;
    it = gone ? workers_.erase(it) : std::next(it);
  }
  return changed;
}

// A daemon that is not heard of counts as having processes until its lease, which it got with the last heartbeat, is over.
bool CoordinationService::TickLeases() {
  bool changed = false;
  const std::set<uint64_t> orphans = orphans_;
  for (uint64_t number : orphans) {
    JobRecord* job = jobs_.Find(number);
    std::vector<std::string> over;
    bool waits = false;
    if (job != nullptr) {
      for (const auto& [name, holder] : job->attempt.holders) {
        if (!holder.lease_end.has_value()) continue;
        Now() >= *holder.lease_end ? over.push_back(name) : void(waits = true);
      }
    }
    for (const std::string& name : over) {
      Release(*job, name, absl::StrCat("the lease of the node that was ", name, " ran out: no process of the attempt is left there"));
    }
    if (!waits) orphans_.erase(number);
    changed = changed || !over.empty();
  }
  for (const auto& [name, worker] : workers_) {
    if (!worker.dead) continue;
    const std::map<uint64_t, int> held = worker.held;
    for (const auto& [number, slots] : held) {
      JobRecord* job = jobs_.Find(number);
      if (job == nullptr || Now() < worker.last_heard + job->attempt.lease + options_.lease_margin) continue;
      Release(*job, name, absl::StrCat("the lease of ", name, " ran out: no process of the attempt is left there"));
      changed = true;
    }
  }
  return changed;
}

// The coordinator itself stood still, with its machine or for want of a core: what daemons said meanwhile waits to be read. To
// have heard them later than one did is safe: their leases are only waited for longer.
void CoordinationService::ForgivePause() {
  const absl::Duration pause = Now() - last_tick_;
  last_tick_ = Now();
  if (pause <= kLongestTick) return;
  for (auto& [name, worker] : workers_) {
    if (!worker.dead) worker.last_heard = std::min(Now(), worker.last_heard + pause);
  }
  for (JobRecord* job : jobs_.Active()) {
    job->attempt.start_deadline += pause;
    if (job->attempt.peer_failure.has_value()) {
      job->attempt.peer_failure->since += pause;
      job->attempt.peer_failure->until += pause;
    }
    if (job->attempt.watch.has_value()) job->attempt.watch->Excuse(Now());
  }
  for (uint64_t number : asked_) jobs_.Find(number)->check_deadline += pause;
  for (uint64_t number : homed_) {
    if (JobRecord* job = jobs_.Find(number)) job->home_usable += pause;
  }
}

bool CoordinationService::TickChecks() {
  bool changed = false;
  const std::set<uint64_t> asked = asked_;
  for (uint64_t number : asked) {
    JobRecord& job = *jobs_.Find(number);
    if (Now() < job.check_deadline) continue;
    asked_.erase(number);
    changed = true;
    if (job.accepted) {  // another time, or by another worker
      job.data_check = DataCheck::kWaits;
      unchecked_.insert(number);
      continue;
    }
    EndCheck(job, absl::DeadlineExceededError(absl::StrCat(job.checked_by, " did not check the data files within ",
                                                           absl::FormatDuration(options_.probe_timeout))));
  }
  if (changed) CheckWaitingJobs();
  return changed;
}

bool CoordinationService::Tick() {
  ForgivePause();
  bool changed = TickWorkers();
  changed = TickLeases() || changed;
  changed = TickAttempts() || changed;
  changed = TickChecks() || changed;
  changed = TickHomes() || changed;
  for (auto it = refused_.begin(); it != refused_.end();) {
    it = Now() >= it->second.forget_at ? refused_.erase(it) : std::next(it);
  }
  if (schedule_) changed = true;
  Schedule();
  return changed;
}

}  // namespace adjoin
