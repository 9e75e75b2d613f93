#include "coordinator/decisions/attempts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "coordinator/decisions/attempt_messages.h"
#include "coordinator/decisions/attempt_text.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/decisions/stored_rows.h"
#include "proto/killed_by_signal.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepSteps = absl::Seconds(10);

EndCause CauseOfLoss(const RankEnded& ended) {
  if (ended.infrastructure()) return EndCause::kNodeLost;
  return WasKilledFromOutside(ended.error()) ? EndCause::kRankKilled : EndCause::kRankLost;
}

// A list of all files of a prediction can be longer than any message; a file that is not listed can be fetched as well.
void AddArtifacts(JobRecord& job, const RankEnded& ended) {
  job.artifacts_left_out += ended.artifacts_left_out();
  for (const std::string& name : ended.artifact()) {
    if (job.artifacts.size() < kMaxArtifacts) {
      job.artifacts.insert(name);
    } else if (job.artifacts.count(name) == 0) {
      ++job.artifacts_left_out;
    }
  }
}

// Null where the worker does not run this rank.
RankRecord* RankOf(JobRecord& job, const std::string& worker, uint32_t rank) {
  if (rank >= job.attempt.ranks.size() || job.attempt.ranks[rank].worker != worker) return nullptr;
  return &job.attempt.ranks[rank];
}

Held HeldBy(const JobRecord& job, const Holder& holder) {
  return {.slots = holder.slots,
          .gpus = holder.slots * static_cast<int>(job.spec.resources().gpus()),
          .memory = holder.slots * NeedOf(job).memory};
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
  job.attempt = AttemptFrom(row, now);
  Attempt& attempt = job.attempt;
  // The daemons will be told the lease of today.
  if (!attempt.holders.empty() && attempt.lease < options_.lease) {
    attempt.lease = options_.lease;
    outbox_.AttemptChanged(job);
  }
  const bool starting = job.state == STARTING && !attempt.over;
  if (starting) attempt.start_deadline = now + options_.start_timeout + options_.reattach;
  if (job.state == RUNNING) attempt.watch.emplace(options_.progress, attempt.ranks.size(), now);
  // A rank that failed in an attempt that is not over failed because of a peer. The cause may still be reported.
  for (size_t r = 0; r < attempt.ranks.size() && !attempt.over; ++r) {
    if (attempt.ranks[r].state != RankState::kFailed) continue;
    attempt.peer_failure =
        PeerFailure{absl::StrCat(RankText(attempt, r), " failed"), now, now + options_.peer_failure_grace};
  }
  for (const auto& [name, holder] : attempt.holders) {
    workers_.Expect(name, holder);
    workers_.Hold(name, job.number, HeldBy(job, holder));
    workers_.SetStarting(name, job.number, starting);
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
    workers_.Hold(name, job.number, HeldBy(job, holder));
    workers_.SetStarting(name, job.number, true);
    SendStart(job, name);
  }
}

void Attempts::SendStart(const JobRecord& job, const std::string& worker) {
  workers_.Send(worker, job.attempt.epoch, StartMessage(job, worker, store_id_, options_.start_timeout),
                /*urgent=*/false, /*plan_of=*/job.number);
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
  if (rank == nullptr || job->attempt.over) return;
  HasGpu(*rank, ready.gpu_uuid());
  rank->binding = PrintableText(ready.binding(), kMaxNameBytes);
  Ready(*job, *rank, ready);
}

// The name and the memory are those of the worker's hello, which was checked.
void Attempts::HasGpu(RankRecord& rank, const std::string& uuid) {
  if (uuid.empty()) return;
  for (const Gpu& gpu : workers_.At(rank.worker).hello.gpu()) {
    if (gpu.uuid() == uuid) rank.gpu = gpu;
  }
}

void Attempts::Ready(JobRecord& job, RankRecord& rank, const RankReady& ready) {
  if (job.state != STARTING || rank.state != RankState::kStarting) return;
  // All ranks get all addresses in one order.
  const size_t most = std::min(kMaxAddressBytes, kMaxPlanBytes / job.attempt.ranks.size());
  if (const size_t bytes = ready.transport_address().size(); bytes > most) {
    return EndBy(
        job, {.cause = EndCause::kError,
              .workers = {rank.worker},
              .reason = absl::StrCat("rank ", ready.rank(), " on ", rank.worker, " has a transport with an address of ",
                                     bytes, " bytes; at most ", most, " are possible where there are ",
                                     job.attempt.ranks.size(), " ranks: allow it fewer devices")});
  }
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
  if (starts_.Connected(job)) queue_.Wake();
  for (const auto& [name, holder] : job.attempt.holders) {
    workers_.SetStarting(name, job.number, false);
    SendConnect(job, name);
  }
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
  if (update.rank() == 0) {
    job.progress = update.progress();
    outbox_.Touched(job, JobChange::kProgress);
  }
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
      AddArtifacts(job, ended);
      outbox_.JobChanged(job);
      break;
    case RANK_DRAINED:
      job.attempt.steps = std::max(job.attempt.steps, ended.drained_step());
      if (ended.drained_step() > 0 && !job.spec.checkpoint().dir().empty()) homes_.Keep(job);
      break;
    case RANK_ERROR: return EndBy(job, {.cause = EndCause::kError, .workers = {rank.worker}, .reason = reason});
    case RANK_HOPELESS: return End(job, EndCause::kHopeless, reason);
    case RANK_PEER_FAILED:
      if (!job.attempt.peer_failure.has_value()) {
        job.attempt.peer_failure = PeerFailure{reason, options_.Now(), options_.Now() + options_.peer_failure_grace};
      }
      return;
    default:
      return EndBy(job, {.cause = CauseOfLoss(ended),
                         .workers = {rank.worker},
                         .killed = WasKilledFromOutside(ended.error()),
                         .node_fault = ended.node_fault(),
                         .files_fault = ended.files_fault(),
                         .reason = reason});
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
      EndBy(job, {.cause = EndCause::kRankLost,
                  .workers = {worker},
                  .reason = absl::StrCat(RankText(job.attempt, r), " is gone and its daemon did not say why")});
      break;
    }
  }
  leases_.Release(job, worker, "");
}

void Attempts::OnPulse(const std::string& worker, const AttemptPulse& pulse) {
  JobRecord* job = AttemptOf(worker, pulse.job_id(), pulse.epoch());
  if (job == nullptr) return;
  HasRun(*job, pulse.running_seconds());
  if (!job->attempt.watch.has_value()) return;
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
  for (const uint64_t number : workers_.HoldersOf(name)) {
    JobRecord* job = jobs_.Find(number);
    if (job == nullptr) continue;
    auto found = job->attempt.holders.find(name);
    if (found == job->attempt.holders.end() || found->second.incarnation == hello.incarnation()) continue;
    if (!found->second.node_id.empty() && found->second.node_id == hello.node_id()) {
      leases_.Release(*job, name, absl::StrCat(name, " was started anew: no process of the attempt is left there"));
    } else {
      leases_.Orphan(*job, name, last_heard);
    }
    if (!job->attempt.over) {
      EndBy(*job, {.cause = EndCause::kNodeLost,
                   .workers = {name},
                   .worker_lost = true,
                   .reason = absl::StrCat(name, " was lost (its daemon was started anew) with ",
                                          RanksOn(job->attempt, name))});
    }
  }
}

void Attempts::OnHello(const WorkerHello& hello) {
  GoBeyond(hello);
  for (const AttemptReport& report : hello.attempt()) {
    if (!IsForeign(report) && !IsNote(report)) OnReport(hello.name(), report);
  }
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
  HasRun(*job, report.running_seconds());
  for (const RankReport& said : report.rank()) {
    RankRecord* rank = RankOf(*job, worker, said.rank());
    if (rank == nullptr) continue;
    if (said.pid() != 0) rank->pid = said.pid();
    HasGpu(*rank, said.gpu_uuid());
    rank->binding = PrintableText(said.binding(), kMaxNameBytes);
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
  for (const uint64_t number : workers_.HoldersOf(name)) {
    JobRecord* job = jobs_.Find(number);
    if (job == nullptr) continue;
    auto holder = job->attempt.holders.find(name);
    if (holder == job->attempt.holders.end() || holder->second.incarnation != hello.incarnation()) continue;
    const bool reported = std::any_of(hello.attempt().begin(), hello.attempt().end(), [&](const AttemptReport& report) {
      // One of another store may still have processes, which the daemon ends before it connects again.
      return report.job_id() == job->id && !IsNote(report) &&
             (IsForeign(report) ? !report.cleared() : report.epoch() == job->attempt.epoch);
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
  for (uint64_t number : workers_.HoldersOf(worker)) {
    JobRecord* job = jobs_.Find(number);
    if (job == nullptr || (job->state != STARTING && job->state != RUNNING)) continue;
    EndBy(*job, {.cause = EndCause::kNodeLost,
                 .workers = {worker},
                 .worker_lost = true,
                 .reason = absl::StrCat(worker, " was lost (", why, ") with ", RanksOn(job->attempt, worker))});
  }
}

}  // namespace adjoin
