#include "coordinator/decisions/attempts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/attempt_messages.h"
#include "coordinator/decisions/attempt_text.h"
#include "coordinator/decisions/stored_rows.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepSteps = absl::Seconds(10);

bool HasEnded(RankState state) {
  return state == RankState::kSucceeded || state == RankState::kDrained || state == RankState::kFailed ||
         state == RankState::kKilled;
}

// Null where the worker does not run this rank.
RankRecord* RankOf(JobRecord& job, const std::string& worker, uint32_t rank) {
  if (rank >= job.attempt.ranks.size() || job.attempt.ranks[rank].worker != worker) return nullptr;
  return &job.attempt.ranks[rank];
}

}  // namespace

// Null where the attempt is not the job's newest, or not on this incarnation of the worker.
JobRecord* Attempts::AttemptOf(const std::string& worker, const std::string& job_id, uint64_t epoch) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->attempt.epoch != epoch) return nullptr;
  auto holder = job->attempt.holders.find(worker);
  if (holder == job->attempt.holders.end()) return nullptr;
  return holder->second.incarnation == workers_.At(worker).hello.incarnation() ? job : nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Starts

void Attempts::Restore(uint64_t last_epoch, uint64_t store_id) {
  last_epoch_ = last_epoch;
  store_id_ = store_id;
}

void Attempts::RestoreAttempt(JobRecord& job, const StoredAttempt& row) {
  const absl::Duration now = options_.Now();
  job.attempt = AttemptFrom(row, now, options_.wall_clock());
  Attempt& attempt = job.attempt;
  // The daemons will be told the lease of today.
  if (!attempt.holders.empty() && attempt.lease < options_.lease) {
    attempt.lease = options_.lease;
    outbox_.AttemptChanged(job);
  }
  if (job.state == STARTING) attempt.start_deadline = now + options_.start_timeout + options_.reattach;
  if (job.state == RUNNING) attempt.watch.emplace(options_.progress, attempt.ranks.size(), now);
  // A rank that failed in an attempt that is not over failed because of a peer. The cause may still be reported.
  for (size_t r = 0; r < attempt.ranks.size() && !attempt.over; ++r) {
    if (attempt.ranks[r].state != RankState::kFailed) continue;
    attempt.peer_failure =
        PeerFailure{absl::StrCat(RankText(attempt, r), " failed"), now, now + options_.peer_failure_grace};
  }
  for (const auto& [name, holder] : attempt.holders) {
    workers_.Expect(name, holder);
    workers_.Hold(name, job.number, holder.slots);
  }
  if (job.home.empty() && !attempt.holders.empty()) homes_.Settle(job);  // an older coordinator did not store it
}

void Attempts::Start(JobRecord& job, const Assignment& workers) {
  Attempt attempt;
  attempt.epoch = ++last_epoch_;
  outbox_.EpochGiven(last_epoch_);
  attempt.started = options_.wall_clock();
  attempt.start_deadline = options_.Now() + options_.start_timeout;
  attempt.running_since = options_.Now();
  attempt.lease = options_.lease;
  for (const std::string& name : workers) {
    RankRecord rank;
    rank.worker = name;
    attempt.ranks.push_back(std::move(rank));
    Holder& holder = attempt.holders[name];
    holder.incarnation = workers_.At(name).hello.incarnation();
    holder.node_id = workers_.At(name).hello.node_id();
    ++holder.slots;
  }
  job.attempt = std::move(attempt);
  ++job.history.attempts;
  if (job.started == absl::Time()) job.started = options_.wall_clock();
  job.reason.clear();
  job.progress.Clear();
  homes_.Settle(job);
  jobs_.SetState(job, STARTING);
  outbox_.JobChanged(job);
  outbox_.AttemptChanged(job);
  outbox_.Event(job, "started", absl::StrCat("on ", WorkersText(job.attempt)));
  for (const auto& [name, holder] : job.attempt.holders) {
    workers_.Hold(name, job.number, holder.slots);
    SendStart(job, name);
  }
}

void Attempts::SendStart(const JobRecord& job, const std::string& worker) {
  workers_.Send(worker, job.attempt.epoch, StartMessage(job, worker, store_id_), /*urgent=*/false,
                /*plan_of=*/job.number);
}

void Attempts::SendConnect(const JobRecord& job, const std::string& worker) {
  workers_.Send(worker, job.attempt.epoch, ConnectMessage(job));
}

void Attempts::SendStop(const JobRecord& job, const std::string& worker, const std::string& reason) {
  workers_.Send(worker, job.attempt.epoch, StopMessage(job.id, reason));
}

void Attempts::AcknowledgeEnd(const std::string& worker, const std::string& job_id, uint64_t epoch) {
  workers_.Send(worker, epoch, AckMessage(job_id));
}

// ---------------------------------------------------------------------------------------------------------------------
// Ranks

void Attempts::OnRankReady(const std::string& worker, uint64_t epoch, const RankReady& ready) {
  JobRecord* job = AttemptOf(worker, ready.job_id(), epoch);
  RankRecord* rank = job == nullptr ? nullptr : RankOf(*job, worker, ready.rank());
  if (rank != nullptr && !job->attempt.over) Ready(*job, *rank, ready);
}

void Attempts::Ready(JobRecord& job, RankRecord& rank, const RankReady& ready) {
  if (job.state != STARTING || rank.state != RankState::kStarting) return;
  rank.state = RankState::kReady;
  rank.pid = ready.pid();
  rank.transport_address = ready.transport_address();
  ConnectIfReady(job);
}

void Attempts::ConnectIfReady(JobRecord& job) {
  std::vector<RankRecord>& ranks = job.attempt.ranks;
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.state != RankState::kReady; })) return;
  for (RankRecord& rank : ranks) rank.state = RankState::kRunning;
  job.attempt.connected = true;
  job.attempt.watch.emplace(options_.progress, ranks.size(), options_.Now());
  job.attempt.running_since = options_.Now();
  jobs_.SetState(job, RUNNING);
  outbox_.JobChanged(job);
  outbox_.AttemptChanged(job);
  outbox_.Event(job, "running", "");
  for (const auto& [name, holder] : job.attempt.holders) SendConnect(job, name);
}

void Attempts::OnRankUpdate(const std::string& worker, uint64_t epoch, const RankUpdate& update) {
  JobRecord* job = AttemptOf(worker, update.job_id(), epoch);
  RankRecord* rank = job == nullptr ? nullptr : RankOf(*job, worker, update.rank());
  if (rank != nullptr) Update(*job, *rank, update);
}

void Attempts::Update(JobRecord& job, RankRecord& rank, const RankUpdate& update) {
  if (!update.transport().empty()) rank.transport = update.transport();
  if (!update.has_progress()) return;
  const bool resumed = rank.progress.resumed_step() == 0 && update.progress().resumed_step() > 0;
  rank.progress = update.progress();
  if (update.progress().resumed_step() > 0 || update.progress().checkpoint_step() > 0) homes_.Keep(job);
  if (update.rank() == 0 && resumed) {
    outbox_.Event(job, "resumed", absl::StrCat("from the checkpoint of step ", update.progress().resumed_step()));
  }
  if (update.rank() == 0) job.progress = update.progress();
  const bool training = update.progress().phase().empty() || update.progress().phase() == "training";
  if (!training || update.progress().step() <= job.attempt.steps) return;
  job.attempt.steps = update.progress().step();
  // Not every step is stored: a crash takes back some seconds of the progress that `ps` shows.
  if (options_.Now() - job.attempt.steps_kept < kKeepSteps) return;
  job.attempt.steps_kept = options_.Now();
  outbox_.AttemptChanged(job);
  outbox_.JobChanged(job);
}

void Attempts::OnRankEnded(const std::string& worker, uint64_t epoch, const RankEnded& ended) {
  JobRecord* job = AttemptOf(worker, ended.job_id(), epoch);
  RankRecord* rank = job == nullptr ? nullptr : RankOf(*job, worker, ended.rank());
  if (rank != nullptr) Ended(*job, *rank, ended);
}

void Attempts::Ended(JobRecord& job, RankRecord& rank, const RankEnded& ended) {
  if (job.attempt.over || HasEnded(rank.state)) return;
  const std::string reason = absl::StrCat("rank ", ended.rank(), " on ", rank.worker, " ", ended.error());
  outbox_.AttemptChanged(job);
  switch (ended.end()) {
    case RANK_SUCCEEDED: rank.state = RankState::kSucceeded; break;
    case RANK_DRAINED: rank.state = RankState::kDrained; break;
    default: rank.state = RankState::kFailed; break;
  }
  switch (ended.end()) {
    case RANK_SUCCEEDED:
      job.artifacts.insert(ended.artifact().begin(), ended.artifact().end());
      outbox_.JobChanged(job);
      break;
    case RANK_DRAINED:
      job.attempt.steps = std::max(job.attempt.steps, ended.drained_step());
      if (ended.drained_step() > 0 && !job.spec.checkpoint().dir().empty()) homes_.Keep(job);
      break;
    case RANK_ERROR: return End(job, EndCause::kError, reason);
    case RANK_HOPELESS: return End(job, EndCause::kHopeless, reason);
    case RANK_PEER_FAILED:
      if (!job.attempt.peer_failure.has_value()) {
        job.attempt.peer_failure = PeerFailure{reason, options_.Now(), options_.Now() + options_.peer_failure_grace};
      }
      return;
    default: return End(job, ended.infrastructure() ? EndCause::kNodeLost : EndCause::kRankLost, reason);
  }
  const std::vector<RankRecord>& ranks = job.attempt.ranks;
  const auto all = [&](auto holds) { return std::all_of(ranks.begin(), ranks.end(), holds); };
  if (all([](const RankRecord& r) { return r.state == RankState::kSucceeded; })) {
    Close(job, "");
    CountTime(job, /*useful=*/true);
    queue_.End(job, SUCCEEDED, "");
  } else if (all([](const RankRecord& r) { return HasEnded(r.state) && r.state != RankState::kFailed; })) {
    End(job, EndCause::kDrained, absl::StrCat("stopped after step ", ended.drained_step(), ": a worker drains"));
  }
}

void Attempts::OnCleared(const std::string& worker, uint64_t epoch, const std::string& job_id) {
  JobRecord* job = AttemptOf(worker, job_id, epoch);
  job != nullptr ? Cleared(*job, worker) : AcknowledgeEnd(worker, job_id, epoch);
}

void Attempts::Cleared(JobRecord& job, const std::string& worker) {
  AcknowledgeEnd(worker, job.id, job.attempt.epoch);
  if (!job.attempt.over) {
    for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
      const RankRecord& rank = job.attempt.ranks[r];
      if (rank.worker != worker || HasEnded(rank.state)) continue;
      End(job, EndCause::kRankLost, absl::StrCat(RankText(job.attempt, r), " is gone and its daemon did not say why"));
      break;
    }
  }
  leases_.Release(job, worker, "");
}

void Attempts::OnPulse(const std::string& worker, const AttemptPulse& pulse) {
  JobRecord* job = AttemptOf(worker, pulse.job_id(), pulse.epoch());
  if (job == nullptr || !job->attempt.watch.has_value()) return;
  for (const RankPulse& rank : pulse.rank()) {
    if (RankOf(*job, worker, rank.rank()) != nullptr) job->attempt.watch->Heard(rank, options_.Now());
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Workers that connect, and that are lost

// A daemon makes sure before it connects that no process of its incarnation before is left on its node. Where another
// node has the worker's name, nothing is known: the processes live until their lease is over.
void Attempts::OnNewIncarnation(const WorkerHello& hello, absl::Duration last_heard) {
  const std::string& name = hello.name();
  for (JobRecord* job : jobs_.All()) {
    auto found = job->attempt.holders.find(name);
    if (found == job->attempt.holders.end() || found->second.incarnation == hello.incarnation()) continue;
    if (!found->second.node_id.empty() && found->second.node_id == hello.node_id()) {
      leases_.Release(*job, name, absl::StrCat(name, " was started anew: no process of the attempt is left there"));
    } else {
      leases_.Orphan(*job, name, last_heard);
    }
    if (!job->attempt.over) {
      End(*job, EndCause::kNodeLost,
          absl::StrCat(name, " was lost (its daemon was started anew) with ", RanksOn(job->attempt, name)));
    }
  }
}

void Attempts::OnHello(const WorkerHello& hello) {
  for (const AttemptReport& report : hello.attempt()) OnReport(hello.name(), report);
  OnLostMessages(hello);
}

void Attempts::OnReport(const std::string& worker, const AttemptReport& report) {
  JobRecord* job = AttemptOf(worker, report.job_id(), report.epoch());
  if (job == nullptr) {
    // This daemon should not have the attempt: it ended long ago, or was never known.
    if (report.cleared()) {
      AcknowledgeEnd(worker, report.job_id(), report.epoch());
    } else {
      workers_.Send(worker, report.epoch(), StopMessage(report.job_id(), "this attempt is no longer the job's"),
                    /*urgent=*/true);
    }
    return;
  }
  for (const RankReport& said : report.rank()) {
    RankRecord* rank = RankOf(*job, worker, said.rank());
    if (rank == nullptr) continue;
    if (said.pid() != 0) rank->pid = said.pid();
    RankUpdate update;
    update.set_rank(said.rank());
    update.set_transport(said.transport());
    if (said.has_progress()) *update.mutable_progress() = said.progress();
    Update(*job, *rank, update);
    if (!said.transport_address().empty() && !job->attempt.over) {
      RankReady ready;
      ready.set_rank(said.rank());
      ready.set_pid(said.pid());
      ready.set_transport_address(said.transport_address());
      Ready(*job, *rank, ready);
    }
  }
  for (const RankReport& said : report.rank()) {
    RankRecord* rank = RankOf(*job, worker, said.rank());
    if (rank != nullptr && said.has_ended()) Ended(*job, *rank, said.ended());
  }
  if (report.cleared()) {
    Cleared(*job, worker);
    return;
  }
  if (job->attempt.over) {
    SendStop(*job, worker, job->attempt.reason);
  } else if (job->attempt.connected &&
             std::any_of(report.rank().begin(), report.rank().end(),
                         [](const RankReport& said) { return !said.connected() && !said.has_ended(); })) {
    SendConnect(*job, worker);
  }
}

// Messages that were on their way to the daemon when its last connection ended did not arrive.
void Attempts::OnLostMessages(const WorkerHello& hello) {
  const std::string& name = hello.name();
  for (JobRecord* job : jobs_.All()) {
    auto holder = job->attempt.holders.find(name);
    if (holder == job->attempt.holders.end() || holder->second.incarnation != hello.incarnation()) continue;
    const bool reported = std::any_of(hello.attempt().begin(), hello.attempt().end(), [&](const AttemptReport& report) {
      return report.job_id() == job->id && report.epoch() == job->attempt.epoch;
    });
    if (reported) continue;
    if (job->attempt.over) {
      leases_.Release(*job, name, absl::StrCat(name, " has no process of the attempt"));
    } else if (job->state == STARTING) {
      SendStart(*job, name);
    } else {
      leases_.Release(*job, name, absl::StrCat(name, " has no process of the attempt"));
      End(*job, EndCause::kNodeLost,
          absl::StrCat(name, " knows nothing of ", RanksOn(job->attempt, name), ", which ran there"));
    }
  }
}

void Attempts::OnLost(const std::string& worker, const std::string& why) {
  for (JobRecord* job : jobs_.Active()) {
    if (job->attempt.holders.count(worker) == 0) continue;
    End(*job, EndCause::kNodeLost, absl::StrCat(worker, " was lost (", why, ") with ", RanksOn(job->attempt, worker)));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Ends

void Attempts::Close(JobRecord& job, const std::string& reason) {
  Attempt& attempt = job.attempt;
  attempt.over = true;
  attempt.reason = reason;
  attempt.ended = options_.wall_clock();
  attempt.peer_failure.reset();
  attempt.watch.reset();
  for (RankRecord& rank : attempt.ranks) {
    if (!HasEnded(rank.state)) rank.state = RankState::kKilled;
    rank.transport_address.clear();  // no rank connects to it any more
  }
  outbox_.AttemptChanged(job);
  outbox_.JobChanged(job);
  if (job.state != SUCCEEDED && !reason.empty()) {
    for (const auto& [name, holder] : attempt.holders) SendStop(job, name, reason);
  }
}

void Attempts::CountTime(JobRecord& job, bool useful) {
  const absl::Duration ran = options_.Now() - job.attempt.running_since;
  job.running += ran;
  (useful ? counters_.goodput_seconds : counters_.lost_seconds) += absl::ToDoubleSeconds(ran);
}

void Attempts::Cancel(JobRecord& job, const std::string& reason) {
  Close(job, reason);
  CountTime(job, /*useful=*/true);
}

void Attempts::End(JobRecord& job, EndCause cause, const std::string& reason) {
  Close(job, reason);
  const RestartDecision decision =
      DecideRestart(job.spec.restart(), cause, job.attempt.steps, job.history, options_.restarts_without_progress);
  CountTime(job, decision.history.best_step > job.history.best_step);
  job.history = decision.history;
  outbox_.Event(job, "attempt_ended", absl::StrCat(ToString(cause), ": ", reason));
  if (!decision.restart) {
    const std::string why_not = decision.why_not.empty() ? "" : absl::StrCat("; ", decision.why_not);
    queue_.End(job, FAILED, absl::StrCat(reason, why_not));
    return;
  }
  ++counters_.restarts[ToString(cause)];
  job.backoff = decision.backoff;
  job.not_before = options_.Now() + decision.backoff;
  job.reason = reason;
  jobs_.SetState(job, PENDING);
  outbox_.Event(
      job, "restarting",
      decision.backoff > absl::ZeroDuration() ? absl::StrCat("in ", absl::FormatDuration(decision.backoff)) : "");
  queue_.Wake();
}

// No rank reported a cause: it is with a daemon that is not heard of, or died with it.
void Attempts::EndAfterPeerFailure(JobRecord& job) {
  for (const auto& [name, holder] : job.attempt.holders) {
    const WorkerRecord& worker = workers_.At(name);
    if (workers_.IsHeard(worker)) continue;
    const absl::Duration silent = absl::Floor(options_.Now() - worker.last_heard, absl::Seconds(1));
    End(job, EndCause::kNodeLost,
        absl::StrCat(name, " was lost (nothing heard for ", absl::FormatDuration(silent), ") with ",
                     RanksOn(job.attempt, name), "; ", job.attempt.peer_failure->reason));
    return;
  }
  const std::string reason = job.attempt.peer_failure->reason;  // which the end of the attempt resets
  End(job, EndCause::kRankLost, reason);
}

bool Attempts::Tick() {
  bool changed = false;
  for (JobRecord* job : jobs_.Active()) changed = EndWhatIsLate(*job) || changed;
  return changed;
}

bool Attempts::EndWhatIsLate(JobRecord& job) {
  const absl::Duration now = options_.Now();
  Attempt& attempt = job.attempt;
  bool heard = true, attaching = false, silent = false;
  for (const auto& [name, holder] : attempt.holders) {
    const WorkerRecord& worker = workers_.At(name);
    heard = heard && workers_.IsHeard(worker);
    attaching = attaching || (!worker.attached && !worker.dead);
    // It may be the one that was lost, or about to report the cause.
    silent = silent || (attempt.peer_failure.has_value() && workers_.IsHeard(worker) &&
                        worker.last_heard < attempt.peer_failure->since);
  }
  if (!heard && attempt.watch.has_value()) attempt.watch->Excuse(now);
  const double max_hours = job.spec.resources().max_hours();
  std::optional<std::string> stuck;
  if (attempt.watch.has_value()) {
    std::vector<std::string> names;
    for (size_t r = 0; r < attempt.ranks.size(); ++r) names.push_back(RankText(attempt, r));
    stuck = attempt.watch->Stuck(now, names);
  }
  if (attempt.peer_failure.has_value() && now >= attempt.peer_failure->until) {
    if (attaching || silent) return false;
    EndAfterPeerFailure(job);
  } else if (job.state == STARTING && queue_.is_open() && now >= attempt.start_deadline) {
    End(job, EndCause::kRankLost, LateRanks(attempt, options_.start_timeout));
  } else if (stuck.has_value()) {
    End(job, EndCause::kRankLost, *stuck);
  } else if (max_hours > 0 && job.running + (now - attempt.running_since) >= absl::Hours(max_hours)) {
    const std::string reason = absl::StrCat("it ran for resources.max_hours, which is ", max_hours);
    Cancel(job, reason);
    queue_.End(job, FAILED, reason);
  } else {
    return false;
  }
  return true;
}

void Attempts::ForgivePause(absl::Duration pause) {
  for (JobRecord* job : jobs_.Active()) {
    job->attempt.start_deadline += pause;
    if (job->attempt.peer_failure.has_value()) {
      job->attempt.peer_failure->since += pause;
      job->attempt.peer_failure->until += pause;
    }
    if (job->attempt.watch.has_value()) job->attempt.watch->Excuse(options_.Now());
  }
}

void Attempts::ExtendStarts(absl::Duration time) {
  for (JobRecord* job : jobs_.Active()) job->attempt.start_deadline += time;
}

}  // namespace adjoin
