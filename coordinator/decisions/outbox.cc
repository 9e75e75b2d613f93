#include "coordinator/decisions/outbox.h"

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "coordinator/decisions/stored_rows.h"
#include "proto/message_limits.h"

namespace adjoin {
void Outbox::Event(const JobRecord& job, const std::string& kind, const std::string& text) {
  JobEvent event;
  event.set_sequence(++last_event_);
  event.set_job_id(job.id);
  event.set_epoch(job.attempt.epoch);
  event.set_unix_ms(absl::ToUnixMillis(options_.wall_clock()));
  event.set_kind(kind);
  event.set_text(PrintableText(text, kMaxErrorBytes));
  if (job.accepted) changes_.events.push_back(event);
  TouchedInStore(job, JobChange::kState);
  notes_.push_back({.text = absl::StrCat(job.id, " ", kind, text.empty() ? "" : ": ", event.text()),
                    .job_id = job.id,
                    .epoch = job.attempt.epoch,
                    .submission = job.durable ? 0 : job.number});
}

void Outbox::Touched(const JobRecord& job, JobChange change) {
  JobChange& known = touched_.try_emplace(job.id, change).first->second;
  if (change == JobChange::kState) known = change;
}

void Outbox::Forget(const JobRecord& job) {
  forgotten_.push_back(job.id);
  Touched(job, JobChange::kState);
  changes_.forgotten.push_back(job.number);
}

void Outbox::Withdraw(const JobRecord& job) {
  Touched(job, JobChange::kState);
  changed_jobs_.erase(job.number);
  changed_attempts_.erase(job.number);
  changes_.Withdraw({job.number});
}

StoreChanges Outbox::TakeChanges(JobTable& jobs) {
  for (uint64_t number : changed_jobs_) {
    const JobRecord* job = jobs.Find(number);
    if (job != nullptr && job->accepted) changes_.jobs.push_back(JobRow(*job));
  }
  for (uint64_t number : changed_attempts_) {
    const JobRecord* job = jobs.Find(number);
    if (job != nullptr && job->accepted && job->attempt.epoch > 0)
      changes_.attempts.push_back(AttemptRow(*job, options_.Now()));
  }
  changed_jobs_.clear();
  changed_attempts_.clear();
  return std::exchange(changes_, {});
}

}  // namespace adjoin
