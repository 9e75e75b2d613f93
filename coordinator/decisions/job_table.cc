#include "coordinator/decisions/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

// The folders that a job writes in.
std::vector<std::string> FoldersOf(const JobSpec& spec) {
  std::vector<std::string> folders = {spec.output_dir()};
  if (!spec.checkpoint().dir().empty()) folders.push_back(spec.checkpoint().dir());
  return folders;
}

}  // namespace

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

const JobRecord* JobTable::Find(const std::string& id) const {
  absl::string_view digits = id;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&digits, "job-") || !absl::SimpleAtoi(digits, &number)) return nullptr;
  auto it = jobs_.find(number);
  return it == jobs_.end() || it->second->id != id ? nullptr : it->second.get();
}

JobRecord* JobTable::Find(const std::string& id) { return const_cast<JobRecord*>(std::as_const(*this).Find(id)); }

absl::StatusOr<const JobRecord*> JobTable::Resolve(const std::string& reference) const {
  if (reference.empty()) return absl::InvalidArgumentError("no job is named: give its id, as `adjoin ps` shows it");
  if (const JobRecord* job = Find(reference); job != nullptr) return job;
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    if (it->second->spec.name() == reference) return it->second.get();
  }
  std::vector<const JobRecord*> fits;
  for (const auto& [number, job] : jobs_) {
    if (absl::StartsWith(job->id, reference)) fits.push_back(job.get());
  }
  if (fits.size() == 1) return fits[0];
  if (fits.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no job '", reference, "'; `adjoin ps` lists all"));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", reference, "' fits ", fits.size(), " jobs, for example ",
                                                 fits[0]->id, " and ", fits[1]->id, ": give the whole id"));
}

absl::StatusOr<JobRecord*> JobTable::Resolve(const std::string& reference) {
  absl::StatusOr<const JobRecord*> job = std::as_const(*this).Resolve(reference);
  if (!job.ok()) return job.status();
  return const_cast<JobRecord*>(*job);
}

std::vector<JobRecord*> JobTable::All() {
  std::vector<JobRecord*> all;
  for (const auto& [number, job] : jobs_) all.push_back(job.get());
  return all;
}

std::vector<const JobRecord*> JobTable::All() const {
  std::vector<const JobRecord*> all;
  for (const auto& [number, job] : jobs_) all.push_back(job.get());
  return all;
}

std::vector<const JobRecord*> JobTable::Pending() const {
  std::vector<const JobRecord*> pending;
  pending.reserve(pending_.size());
  for (const auto& [key, job] : pending_) pending.push_back(job);
  return pending;
}

std::vector<JobRecord*> JobTable::Active() {
  std::vector<JobRecord*> active;
  for (uint64_t number : active_) active.push_back(jobs_.at(number).get());
  return active;
}

std::vector<const JobRecord*> JobTable::Active() const {
  std::vector<const JobRecord*> active;
  for (uint64_t number : active_) active.push_back(jobs_.at(number).get());
  return active;
}

}  // namespace adjoin
