// Attempts: the queue, placement, the ranks' lives, ends and restarts.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/decisions/backfill.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

constexpr absl::Duration kKeepSteps = absl::Seconds(10);

// "worker-0 (2), worker-1 (2)"
std::string Workers(const Attempt& attempt) {
  return absl::StrJoin(attempt.holders, ", ", [](std::string* out, const auto& holder) {
    absl::StrAppend(out, holder.first, " (", holder.second.slots, ")");
  });
}

bool HasEnded(RankState state) {
  return state == RankState::kSucceeded || state == RankState::kDrained || state == RankState::kFailed ||
         state == RankState::kKilled;
}

bool HasLabels(const WorkerHello& hello, const Resources& wanted) {
  return std::all_of(wanted.node_label().begin(), wanted.node_label().end(), [&](const auto& label) {
    auto found = hello.label().find(label.first);
    return found != hello.label().end() && found->second == label.second;
  });
}

}  // namespace

JobRecord* CoordinationService::AttemptOf(const std::string& worker, const std::string& job_id, uint64_t epoch) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr || job->attempt.epoch != epoch) return nullptr;
  auto holder = job->attempt.holders.find(worker);
  if (holder == job->attempt.holders.end()) return nullptr;
  return holder->second.incarnation == workers_.at(worker).hello.incarnation() ? job : nullptr;
}

RankRecord* CoordinationService::RankOf(const std::string& worker, JobRecord& job, uint32_t rank) {
  if (rank >= job.attempt.ranks.size() || job.attempt.ranks[rank].worker != worker) return nullptr;
  return &job.attempt.ranks[rank];
}

std::vector<std::string> CoordinationService::RankNames(const JobRecord& job) const {
  std::vector<std::string> names;
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    names.push_back(absl::StrCat("rank ", r, " on ", job.attempt.ranks[r].worker));
  }
  return names;
}

// ---------------------------------------------------------------------------------------------------------------------
// The queue

bool CoordinationService::MayStart(const JobRecord& job) const {
  return job.durable && !job.held && job.data_check == DataCheck::kDone && job.attempt.holders.empty() &&
         job.not_before <= Now();
}

std::vector<FreeSlots> CoordinationService::SlotsFor(const JobRecord& job) const {
  std::vector<FreeSlots> free;
  for (const auto& [name, worker] : workers_) {
    if (!Usable(worker) || !HasLabels(worker.hello, job.spec.resources())) continue;
    if (const int slots = worker.FreeSlots(); slots > 0) free.push_back({name, slots, worker.hello.output_id()});
  }
  return free;
}

// Of the workers that there are and that fit, as if all were free.
std::vector<FreeSlots> CoordinationService::AllSlots(const JobSpec& spec) const {
  std::vector<FreeSlots> all;
  for (const auto& [name, worker] : workers_) {
    const bool fits = Usable(worker) && HasLabels(worker.hello, spec.resources());
    if (fits) all.push_back({name, static_cast<int>(worker.hello.slots()), worker.hello.output_id()});
  }
  return all;
}

// If nothing else ran, with its checkpoints.
bool CoordinationService::CouldEverStart(const JobRecord& job) const {
  return PlaceJob(job.spec, AllSlots(job.spec), {}, HomeOf(job)).has_value();
}

int CoordinationService::BackfillBudgetBehind(const JobRecord& head) const {
  int free = 0;
  std::vector<int> running;
  std::map<uint64_t, int> slots_of;
  for (const auto& [name, worker] : workers_) {
    if (Usable(worker)) free += std::max(0, worker.FreeSlots());
    for (const auto& [number, slots] : worker.held) slots_of[number] += slots;
  }
  // What it waits for is not a number of slots: nobody can say which ones it could do without.
  const bool particular = head.spec.resources().max_ranks_per_node() > 0 || !head.spec.resources().node_label().empty() ||
                          (NeedsSharedOutput(head.spec) && !ShareAll(AllSlots(head.spec))) || LacksHome(head);
  if (particular && !CouldEverStart(head)) return free;  // it waits for more workers in any case
  if (particular || free >= static_cast<int>(head.spec.ranks())) return 0;
  for (const auto& [number, slots] : slots_of) running.push_back(slots);
  return BackfillBudget(static_cast<int>(head.spec.ranks()), free, running);
}

void CoordinationService::Schedule() {
  if (!schedule_ || !store_writable_) return;
  schedule_ = false;
  blocked_head_.clear();
  int budget = 0;  // slots that jobs behind a blocked head may take
  jobs_.VisitPending([&](JobRecord& job) {
    if (job.not_before > Now()) wake_at_ = std::min(wake_at_, job.not_before);
    if (!MayStart(job)) return true;
    const int ranks = static_cast<int>(job.spec.ranks());
    if (!blocked_head_.empty()) {
      if (budget <= 0) return false;
      if (ranks > budget) return true;
    }
    std::vector<std::string> before;
    for (const RankRecord& rank : job.attempt.ranks) before.push_back(rank.worker);
    auto of_rank = PlaceJob(job.spec, SlotsFor(job), before, HomeOf(job));
    if (of_rank.has_value()) {
      if (!blocked_head_.empty()) budget -= ranks;
      Start(job, *of_rank);
    } else if (blocked_head_.empty()) {
      blocked_head_ = job.id;
      budget = BackfillBudgetBehind(job);
    }
    return true;
  });
}

void CoordinationService::Start(JobRecord& job, const std::vector<std::string>& of_rank) {
  Attempt attempt;
  attempt.epoch = ++last_epoch_;
  changes_.last_epoch = last_epoch_;
  attempt.started = options_.wall_clock();
  attempt.start_deadline = Now() + options_.start_timeout;
  attempt.running_since = Now();
  attempt.lease = options_.lease;
  for (const std::string& name : of_rank) {
    RankRecord rank;
    rank.worker = name;
    attempt.ranks.push_back(std::move(rank));
    Holder& holder = attempt.holders[name];
    holder.incarnation = workers_.at(name).hello.incarnation();
    holder.node_id = workers_.at(name).hello.node_id();
    ++holder.slots;
  }
  job.attempt = std::move(attempt);
  ++job.history.attempts;
  if (job.started == absl::Time()) job.started = options_.wall_clock();
  job.reason.clear();
  job.progress.Clear();
  SettleHome(job);
  jobs_.SetState(job, STARTING);
  Changed(job);
  AttemptChanged(job);
  Event(job, "started", absl::StrCat("on ", Workers(job.attempt)));
  for (const auto& [name, holder] : job.attempt.holders) {
    workers_.at(name).held[job.number] = holder.slots;
    SendStart(job, name);
  }
}

void CoordinationService::SendStart(const JobRecord& job, const std::string& name) {
  auto worker = workers_.find(name);
  if (worker == workers_.end() || worker->second.connection == 0) return;
  CoordinatorMessage message;
  StartRanks& start = *message.mutable_start_ranks();
  start.set_job_id(job.id);
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    if (job.attempt.ranks[r].worker == name) start.add_rank(r);
  }
  start.set_world_size(job.attempt.ranks.size());
  start.set_plan_hash(job.plan_hash);
  start.set_single_node(job.attempt.holders.size() == 1);
  start.set_memory_bytes(job.spec.resources().memory_bytes());
  start.set_store_id(store_id_);
  Send(name, job.attempt.epoch, std::move(message));
  actions_.back().plan_of = job.number;
}

void CoordinationService::SendConnect(const JobRecord& job, const std::string& name) {
  CoordinatorMessage message;
  ConnectRanks& connect = *message.mutable_connect_ranks();
  connect.set_job_id(job.id);
  for (const RankRecord& rank : job.attempt.ranks) connect.add_transport_address(rank.transport_address);
  Send(name, job.attempt.epoch, std::move(message));
}

void CoordinationService::SendStop(const JobRecord& job, const std::string& name, const std::string& reason) {
  CoordinatorMessage message;
  message.mutable_stop_attempt()->set_job_id(job.id);
  message.mutable_stop_attempt()->set_reason(reason);
  Send(name, job.attempt.epoch, std::move(message));
}

// ---------------------------------------------------------------------------------------------------------------------
// Ranks

void CoordinationService::OnRankReady(JobRecord& job, RankRecord& rank, const RankReady& ready) {
  if (job.state != STARTING || rank.state != RankState::kStarting) return;
  rank.state = RankState::kReady;
  rank.pid = ready.pid();
  rank.transport_address = ready.transport_address();
  ConnectIfReady(job);
}

void CoordinationService::ConnectIfReady(JobRecord& job) {
  std::vector<RankRecord>& ranks = job.attempt.ranks;
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.state != RankState::kReady; })) return;
  for (RankRecord& rank : ranks) rank.state = RankState::kRunning;
  job.attempt.connected = true;
  job.attempt.watch.emplace(options_.progress, ranks.size(), Now());
  job.attempt.running_since = Now();
  jobs_.SetState(job, RUNNING);
  Changed(job);
  AttemptChanged(job);
  Event(job, "running", "");
  for (const auto& [name, holder] : job.attempt.holders) SendConnect(job, name);
}

void CoordinationService::OnRankUpdate(JobRecord& job, uint32_t number, RankRecord& rank, const RankUpdate& update) {
  if (!update.transport().empty()) rank.transport = update.transport();
  if (!update.has_progress()) return;
  const bool resumed = rank.progress.resumed_step() == 0 && update.progress().resumed_step() > 0;
  rank.progress = update.progress();
  if (update.progress().resumed_step() > 0 || update.progress().checkpoint_step() > 0) KeepHome(job);
  if (number == 0 && resumed) {
    Event(job, "resumed", absl::StrCat("from the checkpoint of step ", update.progress().resumed_step()));
  }
  if (number == 0) job.progress = update.progress();
  const bool training = update.progress().phase().empty() || update.progress().phase() == "training";
  if (!training || update.progress().step() <= job.attempt.steps) return;
  job.attempt.steps = update.progress().step();
  // Not every step: what a crash takes back is some seconds of what `ps` shows.
  if (Now() - job.attempt.steps_kept < kKeepSteps) return;
  job.attempt.steps_kept = Now();
  AttemptChanged(job);
  Changed(job);
}

void CoordinationService::OnRankEnded(JobRecord& job, RankRecord& rank, const RankEnded& ended) {
  if (job.attempt.over || HasEnded(rank.state)) return;
  const std::string reason = absl::StrCat("rank ", ended.rank(), " on ", rank.worker, " ", ended.error());
  AttemptChanged(job);
  switch (ended.end()) {
    case RANK_SUCCEEDED: rank.state = RankState::kSucceeded; break;
    case RANK_DRAINED: rank.state = RankState::kDrained; break;
    default: rank.state = RankState::kFailed; break;
  }
  switch (ended.end()) {
    case RANK_SUCCEEDED:
      job.artifacts.insert(ended.artifact().begin(), ended.artifact().end());
      Changed(job);
      break;
    case RANK_DRAINED:
      job.attempt.steps = std::max(job.attempt.steps, ended.drained_step());
      if (ended.drained_step() > 0 && !job.spec.checkpoint().dir().empty()) KeepHome(job);
      break;
    case RANK_ERROR: return EndAttempt(job, EndCause::kError, reason);
    case RANK_HOPELESS: return EndAttempt(job, EndCause::kHopeless, reason);
    case RANK_PEER_FAILED:
      if (!job.attempt.peer_failure.has_value()) {
        job.attempt.peer_failure = PeerFailure{reason, Now(), Now() + options_.peer_failure_grace};
      }
      return;
    default: return EndAttempt(job, ended.infrastructure() ? EndCause::kNodeLost : EndCause::kRankLost, reason);
  }
  const std::vector<RankRecord>& ranks = job.attempt.ranks;
  const auto all = [&](auto holds) { return std::all_of(ranks.begin(), ranks.end(), holds); };
  if (all([](const RankRecord& r) { return r.state == RankState::kSucceeded; })) {
    CloseAttempt(job, "");
    CountTime(job, /*useful=*/true);
    End(job, SUCCEEDED, "");
  } else if (all([](const RankRecord& r) { return HasEnded(r.state) && r.state != RankState::kFailed; })) {
    EndAttempt(job, EndCause::kDrained, absl::StrCat("stopped after step ", ended.drained_step(), ": a worker drains"));
  }
}

void CoordinationService::OnCleared(JobRecord& job, const std::string& name) {
  AcknowledgeEnd(name, job.id, job.attempt.epoch);
  if (!job.attempt.over) {
    for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
      const RankRecord& rank = job.attempt.ranks[r];
      if (rank.worker != name || HasEnded(rank.state)) continue;
      EndAttempt(job, EndCause::kRankLost,
                 absl::StrCat("rank ", r, " on ", rank.worker, " is gone and its daemon did not say why"));
      break;
    }
  }
  Release(job, name, "");
}

// ---------------------------------------------------------------------------------------------------------------------
// Ends

void CoordinationService::CloseAttempt(JobRecord& job, const std::string& reason) {
  Attempt& attempt = job.attempt;
  attempt.over = true;
  attempt.reason = reason;
  attempt.ended = options_.wall_clock();
  attempt.peer_failure.reset();
  attempt.watch.reset();
  for (RankRecord& rank : attempt.ranks) {
    if (!HasEnded(rank.state)) rank.state = RankState::kKilled;
    rank.transport_address.clear();  // nobody connects to it any more
  }
  AttemptChanged(job);
  Changed(job);
  if (job.state != SUCCEEDED && !reason.empty()) {
    for (const auto& [name, holder] : attempt.holders) SendStop(job, name, reason);
  }
}

void CoordinationService::CountTime(JobRecord& job, bool useful) {
  const absl::Duration ran = Now() - job.attempt.running_since;
  job.running += ran;
  (useful ? counters_.goodput_seconds : counters_.lost_seconds) += absl::ToDoubleSeconds(ran);
}

void CoordinationService::EndAttempt(JobRecord& job, EndCause cause, const std::string& reason) {
  CloseAttempt(job, reason);
  const RestartDecision decision = DecideRestart(job.spec.restart(), cause, job.attempt.steps, job.history,
                                                 options_.restarts_without_progress);
  CountTime(job, decision.history.best_step > job.history.best_step);
  job.history = decision.history;
  Event(job, "attempt_ended", absl::StrCat(ToString(cause), ": ", reason));
  if (!decision.restart) {
    const std::string why_not = decision.why_not.empty() ? "" : absl::StrCat("; ", decision.why_not);
    End(job, FAILED, absl::StrCat(reason, why_not));
    return;
  }
  ++counters_.restarts[ToString(cause)];
  job.backoff = decision.backoff;
  job.not_before = Now() + decision.backoff;
  job.reason = reason;
  jobs_.SetState(job, PENDING);
  Event(job, "restarting", decision.backoff > absl::ZeroDuration()
                               ? absl::StrCat("in ", absl::FormatDuration(decision.backoff)) : "");
  schedule_ = true;
}

void CoordinationService::End(JobRecord& job, JobState state, const std::string& reason) {
  jobs_.SetState(job, state);
  unchecked_.erase(job.number);
  asked_.erase(job.number);
  job.reason = reason;
  job.ended = options_.wall_clock();
  job.held = false;
  if (!job.plan_hash.empty()) {
    job.plan_function = nullptr;  // the plan is in the store
    job.place_of = nullptr;
  }
  Changed(job);
  Event(job, absl::AsciiStrToLower(JobState_Name(state)), reason);
  schedule_ = true;
}

// No rank has said why: the cause is with a daemon that is not heard, or died with it.
void CoordinationService::EndAfterPeerFailure(JobRecord& job) {
  for (const auto& [name, holder] : job.attempt.holders) {
    const Worker& worker = workers_.at(name);
    if (worker.connection != 0 && Now() - worker.last_heard < options_.suspect_after) continue;
    const absl::Duration silent = absl::Floor(Now() - worker.last_heard, absl::Seconds(1));
    EndAttempt(job, EndCause::kNodeLost,
               absl::StrCat(name, " was lost (nothing heard for ", absl::FormatDuration(silent), ") with ",
                            RanksOn(job, name), "; ", job.attempt.peer_failure->reason));
    return;
  }
  const std::string reason = job.attempt.peer_failure->reason;  // which the end of the attempt resets
  EndAttempt(job, EndCause::kRankLost, reason);
}

bool CoordinationService::TickAttempts() {
  bool changed = false;
  if (Now() >= wake_at_) {
    wake_at_ = absl::InfiniteDuration();
    schedule_ = true;
  }
  for (JobRecord* job : jobs_.Active()) {
    Attempt& attempt = job->attempt;
    bool heard = true, attaching = false, silent = false;
    for (const auto& [name, holder] : attempt.holders) {
      const Worker& worker = workers_.at(name);
      heard = heard && worker.connection != 0 && Now() - worker.last_heard < options_.suspect_after;
      attaching = attaching || (!worker.attached && !worker.dead);
      // It may be the one that was lost, or about to say the cause.
      silent = silent || (attempt.peer_failure.has_value() && worker.connection != 0 &&
                          worker.last_heard < attempt.peer_failure->since &&
                          Now() - worker.last_heard < options_.suspect_after);
    }
    if (!heard && attempt.watch.has_value()) attempt.watch->Excuse(Now());
    const double max_hours = job->spec.resources().max_hours();
    std::optional<std::string> stuck;
    if (attempt.watch.has_value()) stuck = attempt.watch->Stuck(Now(), RankNames(*job));
    if (attempt.peer_failure.has_value() && Now() >= attempt.peer_failure->until) {
      if (attaching || silent) continue;
      EndAfterPeerFailure(*job);
    } else if (job->state == STARTING && store_writable_ && Now() >= attempt.start_deadline) {
      EndAttempt(*job, EndCause::kRankLost, LateRanks(*job));
    } else if (stuck.has_value()) {
      EndAttempt(*job, EndCause::kRankLost, *stuck);
    } else if (max_hours > 0 && job->running + (Now() - attempt.running_since) >= absl::Hours(max_hours)) {
      const std::string reason = absl::StrCat("it ran for resources.max_hours, which is ", max_hours);
      CloseAttempt(*job, reason);
      CountTime(*job, /*useful=*/true);
      End(*job, FAILED, reason);
    } else {
      continue;
    }
    changed = true;
  }
  return changed;
}

std::string CoordinationService::LateRanks(const JobRecord& job) const {
  std::vector<std::string> late;
  for (size_t r = 0; r < job.attempt.ranks.size(); ++r) {
    const RankRecord& rank = job.attempt.ranks[r];
    if (rank.state == RankState::kStarting) late.push_back(absl::StrCat("rank ", r, " on ", rank.worker));
  }
  return absl::StrCat(absl::StrJoin(late, ", "), " did not become ready within ",
                      absl::FormatDuration(options_.start_timeout));
}

}  // namespace adjoin
