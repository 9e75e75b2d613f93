#include "coordinator/job_table.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adjoin {

std::string ToString(RankState state) {
  switch (state) {
    case RankState::kStarting: return "starting";
    case RankState::kReady: return "ready";
    case RankState::kRunning: return "running";
    case RankState::kSucceeded: return "succeeded";
    case RankState::kFailed: return "failed";
    case RankState::kKilled: return "killed";
  }
  return "";
}

bool IsFinal(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

JobRecord& JobTable::Add(const JobSpec& spec, PlanFunction plan_function) {
  auto job = std::make_unique<JobRecord>();
  job->number = next_number_++;
  job->id = absl::StrCat("job-", job->number);
  job->spec = spec;
  job->plan_function = std::move(plan_function);
  JobRecord& added = *job;
  pending_.insert(added.number);
  jobs_.emplace(added.number, std::move(job));
  return added;
}

void JobTable::Erase(uint64_t number) {
  pending_.erase(number);
  active_.erase(number);
  jobs_.erase(number);
}

void JobTable::SetState(JobRecord& job, JobState state) {
  job.state = state;
  pending_.erase(job.number);
  active_.erase(job.number);
  if (state == PENDING) pending_.insert(job.number);
  if (state == STARTING || state == RUNNING) active_.insert(job.number);
}

JobRecord* JobTable::Find(const std::string& id) {
  absl::string_view digits = id;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&digits, "job-") || !absl::SimpleAtoi(digits, &number)) return nullptr;
  auto it = jobs_.find(number);
  return it == jobs_.end() || it->second->id != id ? nullptr : it->second.get();
}

absl::StatusOr<JobRecord*> JobTable::Resolve(const std::string& reference) {
  if (reference.empty()) return absl::InvalidArgumentError("no job is named: give its id, as `adjoin ps` shows it");
  if (JobRecord* job = Find(reference); job != nullptr) return job;
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    if (it->second->spec.name() == reference) return it->second.get();
  }
  std::vector<JobRecord*> fits;
  for (auto& [number, job] : jobs_) {
    if (absl::StartsWith(job->id, reference)) fits.push_back(job.get());
  }
  if (fits.size() == 1) return fits[0];
  if (fits.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no job '", reference, "'; `adjoin ps` lists all"));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", reference, "' fits ", fits.size(), " jobs, for example ",
                                                 fits[0]->id, " and ", fits[1]->id, ": give the whole id"));
}

std::vector<JobRecord*> JobTable::All() {
  std::vector<JobRecord*> all;
  for (auto& [number, job] : jobs_) all.push_back(job.get());
  return all;
}

std::vector<JobRecord*> JobTable::Select(const std::set<uint64_t>& numbers) {
  std::vector<JobRecord*> selected;
  for (uint64_t number : numbers) selected.push_back(jobs_.at(number).get());
  return selected;
}

}  // namespace adjoin
