#include "coordinator/decisions/job_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr size_t kMostListed = 10;

absl::Status Ambiguous(const std::string& name, const std::vector<JobRecord*>& fits) {
  std::string list;
  for (size_t i = 0; i < fits.size() && i < kMostListed; ++i) {
    const JobRecord& job = *fits[i];
    absl::StrAppend(&list, i == 0 ? "" : ", ", job.id, " (", job.owner.empty() ? "" : absl::StrCat(job.owner, ", "),
                    absl::AsciiStrToLower(JobState_Name(job.state)), ")");
  }
  if (fits.size() > kMostListed) absl::StrAppend(&list, " and ", fits.size() - kMostListed, " more");
  return absl::InvalidArgumentError(absl::StrCat("'", PrintableText(name, kMaxNameBytes), "' is the name of ",
                                                 fits.size(), " jobs: ", list, "; give the id of one"));
}

}  // namespace

bool LooksLikeId(absl::string_view text) {
  return absl::ConsumePrefix(&text, "job-") && !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

ListPlace PlaceOf(const JobRecord& job) {
  const bool ended = IsFinal(job.state);
  return {ended, ended ? 0 : job.priority, job.number};
}

void JobTable::SkipTo(uint64_t number) {
  if (number <= next_number_) return;
  next_number_ = number;
  reserved_.clear();
}

uint64_t JobTable::Reserve() {
  reserved_.insert(next_number_);
  return next_number_++;
}

void JobTable::GiveBack(uint64_t number) {
  // Nobody has heard of it: the next job may have it.
  if (reserved_.erase(number) > 0 && number + 1 == next_number_) --next_number_;
}

JobRecord& JobTable::Add(std::unique_ptr<JobRecord> job) {
  if (job->number == 0) job->number = next_number_;
  if (job->id.empty()) job->id = absl::StrCat("job-", job->number);
  JobRecord& added = *job;
  reserved_.erase(added.number);
  added.spec_bytes = added.spec.SpaceUsedLong();
  if (added.written != nullptr) added.spec_bytes += added.written->source.size() + added.written->spec.SpaceUsedLong();
  next_number_ = std::max(next_number_, added.number + 1);
  jobs_.emplace(added.number, std::move(job));
  Index(added);
  CountIn(added);
  names_[{added.spec.name(), added.owner}].insert(added.number);
  for (const std::string& folder : FoldersOf(added.spec)) folders_.Add(folder, added.owner, added.number);
  return added;
}

void JobTable::EraseRecord(uint64_t number) {
  const JobRecord& job = *jobs_.at(number);
  RemoveFromIndex(job);
  CountOut(job);
  auto named = names_.find({job.spec.name(), job.owner});
  named->second.erase(number);
  if (named->second.empty()) names_.erase(named);
  jobs_.erase(number);
}

void JobTable::Erase(uint64_t number) {
  auto it = jobs_.find(number);
  if (it == jobs_.end()) return;
  const JobRecord& job = *it->second;
  for (const std::string& folder : FoldersOf(job.spec)) folders_.Remove(folder, job.owner, number);
  EraseRecord(number);
}

std::vector<StoredFolder> JobTable::Forget(uint64_t number, bool files_removed) {
  const JobRecord& job = *jobs_.at(number);
  std::vector<StoredFolder> rows;
  const bool ran = job.attempt.epoch > 0;  // or else it wrote nothing
  for (const std::string& folder : FoldersOf(job.spec)) {
    std::vector<StoredFolder> changed;
    // An admin's job may have written in somebody else's folder.
    const bool owns = ran && (!job.any_folder || !folders_.OfAnother(folder, job.owner).has_value());
    if (owns && !files_removed) {
      changed = folders_.Keep(folder, job.owner, number);
    } else {
      folders_.Remove(folder, job.owner, number);
      if (files_removed) changed = folders_.Release(folder, job.owner);
    }
    std::move(changed.begin(), changed.end(), std::back_inserter(rows));
  }
  EraseRecord(number);
  return rows;
}

void JobTable::SetEnded(const JobRecord& job, bool ended) {
  if (ended) {
    ended_.insert(job.number);
    EndedJobs& of_owner = ended_by_owner_[job.owner];
    of_owner.numbers.insert(job.number);
    of_owner.spec_bytes += job.spec_bytes;
    ended_spec_bytes_ += job.spec_bytes;
    return;
  }
  if (ended_.erase(job.number) == 0) return;
  auto of_owner = ended_by_owner_.find(job.owner);
  of_owner->second.numbers.erase(job.number);
  of_owner->second.spec_bytes -= job.spec_bytes;
  ended_spec_bytes_ -= job.spec_bytes;
  if (of_owner->second.numbers.empty()) ended_by_owner_.erase(of_owner);
}

void JobTable::Index(JobRecord& job) {
  if (IsFinal(job.state)) {
    SetEnded(job, true);
    return;
  }
  unended_[KeyOf(job)] = &job;
  live_spec_bytes_ += job.spec_bytes;
  if (job.state == PENDING) {
    pending_.Add(job);
    waiting_.insert(job.number);
  } else if (job.state == STARTING || job.state == RUNNING) {
    active_[job.number] = &job;
    active_ranks_ += job.spec.ranks();
    pending_.SetSlots(UserOf(job), SlotsOfUserOf(job) + job.spec.ranks());
  }
}

void JobTable::RemoveFromIndex(const JobRecord& job) {
  pending_.Remove(job);
  if (unended_.erase(KeyOf(job)) > 0) live_spec_bytes_ -= job.spec_bytes;
  waiting_.erase(job.number);
  if (active_.erase(job.number) > 0) {
    active_ranks_ -= job.spec.ranks();
    pending_.SetSlots(UserOf(job), SlotsOfUserOf(job) - job.spec.ranks());
  }
  SetEnded(job, false);
}

void JobTable::CountIn(const JobRecord& job) {
  if (!job.accepted) return;
  ++counts_[job.owner][job.state];
  ++all_counts_[job.state];
}

void JobTable::CountOut(const JobRecord& job) {
  if (!job.accepted) return;
  const auto take_one = [&](Counts& counts) {
    if (--counts.at(job.state) == 0) counts.erase(job.state);
  };
  auto owned = counts_.find(job.owner);
  take_one(owned->second);
  if (owned->second.empty()) counts_.erase(owned);
  take_one(all_counts_);
}

void JobTable::SetState(JobRecord& job, JobState state) {
  RemoveFromIndex(job);
  CountOut(job);
  job.state = state;
  Index(job);
  CountIn(job);
}

void JobTable::Accept(JobRecord& job) {
  CountOut(job);
  job.accepted = true;
  CountIn(job);
}

uint64_t JobTable::Count(JobState state) const {
  auto found = all_counts_.find(state);
  return found == all_counts_.end() ? 0 : found->second;
}

uint64_t JobTable::CountOf(const std::string& owner, JobState state) const {
  auto owned = counts_.find(owner);
  if (owned == counts_.end()) return 0;
  auto found = owned->second.find(state);
  return found == owned->second.end() ? 0 : found->second;
}

const JobRecord* JobTable::LongestWaiting() const {
  for (uint64_t number : waiting_) {
    const JobRecord* job = jobs_.at(number).get();
    if (job->accepted) return job;
  }
  return nullptr;
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

std::shared_ptr<const JobSpec> JobTable::SpecOf(const JobRecord& job) const {
  const std::shared_ptr<JobRecord>& record = jobs_.at(job.number);
  return {record, &record->spec};
}

JobRecord* JobTable::Find(const std::string& id) { return const_cast<JobRecord*>(std::as_const(*this).Find(id)); }

absl::StatusOr<const JobRecord*> JobTable::ResolveId(const JobReference& reference) const {
  if (reference.text.empty()) {
    return absl::InvalidArgumentError("no job is named: give its id, as `adjoin ps` shows it");
  }
  if (const JobRecord* job = Find(reference.text); job != nullptr) return job;
  absl::string_view digits = reference.text;
  uint64_t number = 0;
  // Where numbers were reserved at once, some may be left out for ever.
  const bool was_passed = LooksLikeId(reference.text) && absl::ConsumePrefix(&digits, "job-") &&
                          absl::SimpleAtoi(digits, &number) && number > 0 && number < next_number_;
  const std::string shown = PrintableText(reference.text, kMaxNameBytes);
  if (was_passed) {
    return absl::NotFoundError(absl::StrCat("there is no job '", shown,
                                            "': it was refused, or ended and was forgotten, or no job was given this "
                                            "number"));
  }
  return absl::NotFoundError(absl::StrCat("there is no job '", shown, "'; `adjoin ps` lists all"));
}

absl::StatusOr<const JobRecord*> JobTable::Resolve(const JobReference& reference) const {
  absl::StatusOr<const JobRecord*> by_id = ResolveId(reference);
  if (by_id.ok() || LooksLikeId(reference.text)) return by_id;
  if (auto own = names_.find({reference.text, reference.caller}); own != names_.end()) {
    return jobs_.at(*own->second.rbegin()).get();
  }
  uint64_t latest = 0;
  for (auto it = names_.lower_bound({reference.text, ""}); it != names_.end() && it->first.first == reference.text;
       ++it) {
    latest = std::max(latest, *it->second.rbegin());
  }
  if (latest == 0) return by_id;
  return jobs_.at(latest).get();
}

absl::StatusOr<JobRecord*> JobTable::ResolveToChange(const JobReference& reference, bool even_ended) {
  absl::StatusOr<const JobRecord*> by_id = ResolveId(reference);
  if (by_id.ok()) return Find((*by_id)->number);
  if (LooksLikeId(reference.text)) return by_id.status();
  std::vector<JobRecord*> fits;  // by number, the caller's own or all
  auto take = [&](const std::set<uint64_t>& numbers) {
    for (uint64_t number : numbers) fits.push_back(Find(number));
  };
  if (auto own = names_.find({reference.text, reference.caller}); own != names_.end()) {
    take(own->second);
  } else {
    for (auto it = names_.lower_bound({reference.text, ""}); it != names_.end() && it->first.first == reference.text;
         ++it) {
      take(it->second);
    }
  }
  if (fits.empty()) return by_id.status();
  std::sort(fits.begin(), fits.end(), [](const JobRecord* a, const JobRecord* b) { return a->number < b->number; });
  if (!even_ended) {
    auto live =
        std::stable_partition(fits.begin(), fits.end(), [](const JobRecord* job) { return IsFinal(job->state); });
    if (live == fits.end()) return fits.back();
    fits.erase(fits.begin(), live);
  }
  if (fits.size() == 1) return fits[0];
  return Ambiguous(reference.text, fits);
}

absl::StatusOr<const JobRecord*> JobTable::ResolveOne(const JobReference& reference) const {
  // It changes nothing itself.
  return const_cast<JobTable*>(this)->ResolveToChange(reference, /*even_ended=*/true);
}

std::optional<OutputUse> JobTable::UseOf(absl::string_view output_dir, uint64_t but) const {
  std::optional<OutputUse> use;
  for (uint64_t number : folders_.JobsIn(output_dir)) {
    if (number == but) continue;
    auto found = jobs_.find(number);
    if (found == jobs_.end()) {
      use = OutputUse{number};
      continue;
    }
    const JobRecord& job = *found->second;
    if (!SameFolder(job.spec.output_dir(), output_dir)) continue;  // it has its checkpoints there
    if (!IsFinal(job.state)) return OutputUse{number, job.state};
    if (LeftResults(job)) use = OutputUse{number, job.state};
  }
  return use;
}

std::vector<JobRecord*> JobTable::SharingOutput(const JobRecord& job) {
  std::vector<JobRecord*> others;
  for (uint64_t number : folders_.JobsIn(job.spec.output_dir())) {
    JobRecord* other = Find(number);
    if (other == nullptr || other == &job || !SameFolder(other->spec.output_dir(), job.spec.output_dir())) continue;
    others.push_back(other);
  }
  return others;
}

const JobRecord* JobTable::LatestWithCheckpointsIn(absl::string_view folder) const {
  const std::set<uint64_t> numbers = folders_.JobsIn(folder);
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const auto found = jobs_.find(*number);
    if (found == jobs_.end()) continue;  // it is forgotten
    const JobRecord& job = *found->second;
    // Others may have this folder as their output_dir.
    const bool writes_there = SameFolder(job.spec.checkpoint().dir(), folder) && !job.spec.checkpoint().dir().empty();
    if (writes_there && job.has_checkpoint && !job.home_workers.empty()) return &job;
  }
  return nullptr;
}

uint64_t JobTable::ReplacedBy(const JobRecord& job) const {
  if (job.replaced_by != 0 || !LeftResults(job)) return job.replaced_by;
  // A store of an older release says nothing of it.
  uint64_t by = 0;
  for (const JobRecord* other : const_cast<JobTable*>(this)->SharingOutput(job)) {
    if (other->state == SUCCEEDED && other->attempt.epoch > job.attempt.epoch) by = other->number;
  }
  return by;
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

std::vector<JobRecord*> JobTable::Active() {
  std::vector<JobRecord*> active;
  active.reserve(active_.size());
  for (const auto& [number, job] : active_) active.push_back(job);
  return active;
}

std::vector<const JobRecord*> JobTable::Active() const {
  std::vector<const JobRecord*> active;
  active.reserve(active_.size());
  for (const auto& [number, job] : active_) active.push_back(job);
  return active;
}

}  // namespace adjoin
