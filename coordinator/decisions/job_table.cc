#include "coordinator/decisions/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

// In which a job writes.
std::vector<std::string> FoldersOf(const JobSpec& spec) {
  std::vector<std::string> folders = {spec.output_dir()};
  if (!spec.checkpoint().dir().empty()) folders.push_back(spec.checkpoint().dir());
  return folders;
}

}  // namespace

std::string ToString(RankState state) {
  switch (state) {
    case RankState::kStarting: return "starting";
    case RankState::kReady: return "ready";
    case RankState::kRunning: return "running";
    case RankState::kSucceeded: return "succeeded";
    case RankState::kDrained: return "drained";
    case RankState::kFailed: return "failed";
    case RankState::kKilled: return "killed";
  }
  return "";
}

RankState RankStateFrom(const std::string& text) {
  for (RankState state : {RankState::kStarting, RankState::kReady, RankState::kRunning, RankState::kSucceeded,
                          RankState::kDrained, RankState::kFailed}) {
    if (ToString(state) == text) return state;
  }
  return RankState::kKilled;
}

bool IsFinal(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

JobRecord& JobTable::Add(std::unique_ptr<JobRecord> job) {
  if (job->number == 0) {
    job->number = next_number_;
    job->id = absl::StrCat("job-", job->number);
  }
  JobRecord& added = *job;
  next_number_ = std::max(next_number_, added.number + 1);
  jobs_.emplace(added.number, std::move(job));
  SetState(added, added.state);
  if (!added.idempotency_key.empty()) keys_[{added.owner, added.idempotency_key}] = added.number;
  for (const std::string& folder : FoldersOf(added.spec)) folders_.Add(folder, added.owner, added.number);
  return added;
}

void JobTable::Erase(uint64_t number) {
  auto it = jobs_.find(number);
  if (it == jobs_.end()) return;
  const JobRecord& job = *it->second;
  pending_.erase(KeyOf(job));
  active_.erase(number);
  ended_.erase(number);
  auto key = keys_.find({job.owner, job.idempotency_key});
  if (key != keys_.end() && key->second == number) keys_.erase(key);
  for (const std::string& folder : FoldersOf(job.spec)) folders_.Remove(folder, job.owner, number);
  jobs_.erase(it);
}

void JobTable::SetState(JobRecord& job, JobState state) {
  job.state = state;
  pending_.erase(KeyOf(job));
  active_.erase(job.number);
  ended_.erase(job.number);
  if (IsFinal(state)) ended_.insert(job.number);
  if (state == PENDING) pending_[KeyOf(job)] = &job;
  if (state == STARTING || state == RUNNING) active_.insert(job.number);
}

JobRecord* JobTable::FindKey(const std::string& owner, const std::string& key) {
  auto it = keys_.find({owner, key});
  return it == keys_.end() ? nullptr : Find(it->second);
}

JobRecord* JobTable::Find(uint64_t number) {
  auto it = jobs_.find(number);
  return it == jobs_.end() ? nullptr : it->second.get();
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

std::vector<JobRecord*> JobTable::Pending() {
  std::vector<JobRecord*> selected;
  selected.reserve(pending_.size());
  for (const auto& [key, job] : pending_) selected.push_back(job);
  return selected;
}

std::vector<JobRecord*> JobTable::Active() {
  std::vector<JobRecord*> selected;
  for (uint64_t number : active_) selected.push_back(jobs_.at(number).get());
  return selected;
}

}  // namespace adjoin
