#include "coordinator/decisions/outbox.h"

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "coordinator/decisions/stored_rows.h"

namespace adjoin {
namespace {

constexpr size_t kMaxEventText = 4096;

}  // namespace

void Outbox::Event(const JobRecord& job, const std::string& kind, const std::string& text) {
  JobEvent event;
  event.set_sequence(++last_event_);
  event.set_job_id(job.id);
  event.set_epoch(job.attempt.epoch);
  event.set_unix_ms(absl::ToUnixMillis(options_.wall_clock()));
  event.set_kind(kind);
  event.set_text(text.substr(0, Utf8Prefix(text, kMaxEventText)));
  if (job.accepted) changes_.events.push_back(event);
  notes_.push_back(
      {absl::StrCat(job.id, " ", kind, text.empty() ? "" : ": ", event.text()), job.id, job.attempt.epoch});
}

void Outbox::Forget(const JobRecord& job) {
  forgotten_.push_back(job.id);
  changes_.forgotten.push_back(job.number);
}

void Outbox::Withdraw(const JobRecord& job) {
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
    if (job != nullptr && job->accepted && job->attempt.epoch > 0) changes_.attempts.push_back(AttemptRow(*job));
  }
  changed_jobs_.clear();
  changed_attempts_.clear();
  return std::exchange(changes_, {});
}

}  // namespace adjoin
