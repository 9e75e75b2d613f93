// Attempts: how they end, by whatever cause, and by deadlines. Starts, ranks and workers are in attempts.cc.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "coordinator/decisions/attempt_text.h"
#include "coordinator/decisions/attempts.h"
#include "coordinator/decisions/stored_rows.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

// An attempt that runs is looked at again after this: its daemons may not be heard.
constexpr absl::Duration kBetweenLooksAtAttempts = absl::Seconds(1);

}  // namespace

void Attempts::Close(JobRecord& job, const std::string& reason) {
  Attempt& attempt = job.attempt;
  attempt.over = true;
  attempt.reason = PrintableText(reason, kMaxErrorBytes);
  attempt.ended = options_.wall_clock();
  attempt.peer_failure.reset();
  attempt.watch.reset();
  for (RankRecord& rank : attempt.ranks) {
    workers_.SetStarting(rank.worker, job.number, false);
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

void Attempts::End(JobRecord& job, EndCause cause, const std::string& reason, std::optional<EndCause> reported) {
  Close(job, reason);
  const RestartDecision decision = DecideRestart(job.spec.restart(),
                                                 {.cause = cause,
                                                  .steps = job.attempt.steps,
                                                  .resumed_step = job.progress.resumed_step(),
                                                  .checkpoint_step = job.progress.checkpoint_step(),
                                                  .reported = reported},
                                                 job.history, options_.restarts_without_progress);
  CountTime(job, decision.history.best_step > job.history.best_step);
  job.history = decision.history;
  outbox_.Event(job, "attempt_ended", absl::StrCat(ToString(cause), ": ", reason));
  if (!decision.restart) {
    const std::string why_not = decision.why_not.empty() ? "" : absl::StrCat("; ", decision.why_not);
    starts_.Gone(job);
    queue_.End(job, FAILED, absl::StrCat(reason, why_not));
    return;
  }
  ++counters_.restarts[ToString(cause)];
  job.backoff = decision.backoff;
  job.not_before = options_.Now() + decision.backoff;
  job.reason = PrintableText(reason, kMaxErrorBytes);
  jobs_.SetState(job, PENDING);
  outbox_.Event(job, "restarting", RestartText(decision, job.spec.restart()));
  queue_.Wake();
}

void Attempts::EndBy(JobRecord& job, StartFailure failure) {
  if (job.state == STARTING) {
    const EndCause judged = starts_.Judge(job, failure);
    const bool own = judged == EndCause::kRankLost || judged == EndCause::kError;
    if (own && job.failed_starts.in_row > 1) absl::StrAppend(&failure.reason, FailedStartsText(job.failed_starts));
    return End(job, judged, failure.reason, failure.cause);
  } else if (failure.node_fault) {
    for (const std::string& worker : failure.workers) starts_.NodeFault(worker, failure.reason);
  }
  End(job, failure.cause, failure.reason);
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
  if (job.state == RUNNING && !attempt.peer_failure.has_value() && now < attempt.look_at) return false;
  bool heard = true, attaching = false, silent = false;
  absl::Duration lateness;
  for (const auto& [name, holder] : attempt.holders) {
    const WorkerRecord& worker = workers_.At(name);
    heard = heard && workers_.IsHeard(worker);
    lateness = std::max(lateness, workers_.Lateness(worker));
    attaching = attaching || (!worker.attached && !worker.dead);
    // It may be the one that was lost, or about to report the cause.
    silent = silent || (attempt.peer_failure.has_value() && workers_.IsHeard(worker) &&
                        worker.last_heard < attempt.peer_failure->since);
  }
  if (!heard && attempt.watch.has_value()) attempt.watch->Excuse(now);
  const double max_hours = job.spec.resources().max_hours();
  const absl::Duration hours_end =
      max_hours > 0 ? attempt.running_since + absl::Hours(max_hours) - job.running : absl::InfiniteDuration();
  attempt.look_at = std::min(now + kBetweenLooksAtAttempts, hours_end);
  std::optional<std::string> stuck;
  if (attempt.watch.has_value()) {
    stuck = attempt.watch->Stuck(now, lateness, [&](size_t r) { return RankText(attempt, r); });
    attempt.look_at = std::min(attempt.look_at, attempt.watch->StuckAt(lateness));
  }
  if (attempt.peer_failure.has_value() && now >= attempt.peer_failure->until) {
    if (attaching || silent) return false;
    EndAfterPeerFailure(job);
  } else if (job.state == STARTING && queue_.is_open() && now >= attempt.start_deadline) {
    EndBy(job, {.cause = EndCause::kRankLost,
                .workers = LateWorkers(attempt),
                .reason = LateRanks(attempt, options_.start_timeout)});
  } else if (stuck.has_value()) {
    End(job, EndCause::kRankLost, *stuck);
  } else if (now >= hours_end) {
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
