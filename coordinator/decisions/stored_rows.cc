#include "coordinator/decisions/stored_rows.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

// As UnixMillis writes it.
absl::Time FromMillis(int64_t millis) { return millis == 0 ? absl::Time() : absl::FromUnixMillis(millis); }

}  // namespace

int64_t UnixMillis(absl::Time time) { return time == absl::Time() ? 0 : absl::ToUnixMillis(time); }

StoredJob JobRow(const JobRecord& job) {
  StoredJob row;
  row.set_number(job.number);
  row.set_name(job.spec.name());
  row.set_owner(job.owner);
  row.set_any_folder(job.any_folder);
  row.set_priority(job.priority);
  row.set_idempotency_key(job.idempotency_key);
  row.set_state(job.state);
  row.set_reason(job.reason);
  row.set_held(job.held);
  row.set_submitted_unix_ms(UnixMillis(job.submitted));
  row.set_started_unix_ms(UnixMillis(job.started));
  row.set_ended_unix_ms(UnixMillis(job.ended));
  row.set_plan_hash(job.plan_hash);
  row.set_epoch(job.attempt.epoch);
  row.set_attempts(job.history.attempts);
  row.set_restarts_counted(job.history.counted);
  row.set_restarts_without_progress(job.history.without_progress);
  row.set_best_step(job.history.best_step);
  row.set_backoff_seconds(absl::ToDoubleSeconds(job.backoff));
  *row.mutable_progress() = job.progress;
  for (const std::string& artifact : job.artifacts) row.add_artifact(artifact);
  row.set_artifacts_left_out(job.artifacts_left_out);
  row.set_running_seconds(absl::ToDoubleSeconds(job.running));
  row.set_home(job.home);
  for (const std::string& worker : job.home_workers) row.add_home_worker(worker);
  row.set_has_checkpoint(job.has_checkpoint);
  row.set_tag(job.tag);
  row.set_replaced_by(job.replaced_by);
  if (job.predicted.ByteSizeLong() > 0) *row.mutable_predicted() = job.predicted;
  row.set_input_worker(job.input_worker);
  row.set_input_root(job.input_root);
  return row;
}

StoredAttempt AttemptRow(const JobRecord& job, absl::Duration now) {
  const Attempt& attempt = job.attempt;
  StoredAttempt row;
  row.set_epoch(attempt.epoch);
  row.set_job(job.number);
  for (const RankRecord& record : attempt.ranks) {
    StoredRank& rank = *row.add_rank();
    rank.set_worker(record.worker);
    rank.set_state(ToString(record.state));
    rank.set_pid(record.pid);
    rank.set_transport_address(record.transport_address);
    rank.set_transport(record.transport);
    if (record.gpu.has_value()) *rank.mutable_gpu() = *record.gpu;
    rank.set_binding(record.binding);
  }
  for (const auto& [worker, record] : attempt.holders) {
    StoredHolder& holder = *row.add_holder();
    holder.set_worker(worker);
    holder.set_incarnation(record.incarnation);
    holder.set_node_id(record.node_id);
  }
  row.set_lease_seconds(absl::ToDoubleSeconds(attempt.lease));
  row.set_over(attempt.over);
  row.set_reason(attempt.reason);
  row.set_started_unix_ms(UnixMillis(attempt.started));
  row.set_ended_unix_ms(UnixMillis(attempt.ended));
  row.set_connected(attempt.connected);
  row.set_steps(attempt.steps);
  if (attempt.connected) row.set_running_seconds(absl::ToDoubleSeconds(now - attempt.running_since));
  return row;
}

std::unique_ptr<JobRecord> JobFrom(const StoredJob& row, StoredSubmission submission, absl::Duration now) {
  auto job = std::make_unique<JobRecord>();
  job->number = row.number();
  job->id = absl::StrCat("job-", row.number());
  job->spec = std::move(*submission.mutable_spec());
  if (row.plan_hash().empty() && !submission.source().empty()) {
    SubmittedSpec written;
    written.source = std::move(*submission.mutable_source());
    written.file = std::move(*submission.mutable_file());
    job->written = std::make_shared<const SubmittedSpec>(std::move(written));
  }
  job->owner = row.owner();
  job->any_folder = row.any_folder();
  job->priority = row.priority();
  job->idempotency_key = row.idempotency_key();
  job->plan_hash = row.plan_hash();
  job->data_check = row.plan_hash().empty() ? DataCheck::kWaits : DataCheck::kDone;
  job->accepted = job->durable = true;
  job->state = row.state();
  job->reason = row.reason();
  job->held = row.held();
  job->submitted = FromMillis(row.submitted_unix_ms());
  job->started = FromMillis(row.started_unix_ms());
  job->ended = FromMillis(row.ended_unix_ms());
  job->backoff = absl::Seconds(row.backoff_seconds());
  job->not_before = now + job->backoff;
  job->running = absl::Seconds(row.running_seconds());
  job->history = {.attempts = row.attempts(),
                  .counted = row.restarts_counted(),
                  .without_progress = row.restarts_without_progress(),
                  .best_step = row.best_step()};
  job->progress = row.progress();
  job->artifacts.insert(row.artifact().begin(), row.artifact().end());
  job->artifacts_left_out = row.artifacts_left_out();
  job->home = row.home();
  job->home_workers.assign(row.home_worker().begin(), row.home_worker().end());
  job->has_checkpoint = row.has_checkpoint();
  job->tag = row.tag();
  job->replaced_by = row.replaced_by();
  job->predicted = row.predicted();
  job->input_worker = row.input_worker();
  job->input_root = row.input_root();
  return job;
}

Attempt AttemptFrom(const StoredAttempt& row, absl::Duration now) {
  Attempt attempt;
  attempt.epoch = row.epoch();
  for (const StoredRank& rank : row.rank()) {
    RankRecord record;
    record.worker = rank.worker();
    record.state = RankStateFrom(rank.state());
    record.pid = rank.pid();
    record.transport_address = rank.transport_address();
    record.transport = rank.transport();
    if (rank.has_gpu()) record.gpu = rank.gpu();
    record.binding = rank.binding();
    attempt.ranks.push_back(std::move(record));
  }
  for (const StoredHolder& holder : row.holder()) {
    int slots = 0;
    for (const RankRecord& rank : attempt.ranks) slots += rank.worker == holder.worker() ? 1 : 0;
    attempt.holders[holder.worker()] = {
        .incarnation = holder.incarnation(), .node_id = holder.node_id(), .slots = slots, .lease_end = std::nullopt};
  }
  attempt.lease = absl::Seconds(row.lease_seconds());
  attempt.over = row.over();
  attempt.reason = row.reason();
  attempt.started = FromMillis(row.started_unix_ms());
  attempt.ended = FromMillis(row.ended_unix_ms());
  attempt.connected = row.connected();
  attempt.steps = row.steps();
  attempt.running_since = now - absl::Seconds(std::max(0.0, row.running_seconds()));
  attempt.restored = true;
  return attempt;
}

}  // namespace adjoin
