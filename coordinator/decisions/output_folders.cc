#include "coordinator/decisions/output_folders.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

// "a/b/" for "./a//b"; "" for the root.
std::string Normal(absl::string_view folder) {
  std::string normal;
  for (absl::string_view part : absl::StrSplit(folder, '/', absl::SkipEmpty())) {
    if (part != ".") absl::StrAppend(&normal, part, "/");
  }
  return normal;
}

}  // namespace

std::vector<std::string> FoldersOf(const JobSpec& spec) {
  std::vector<std::string> folders = {spec.output_dir()};
  if (!spec.checkpoint().dir().empty()) folders.push_back(spec.checkpoint().dir());
  return folders;
}

bool FoldersMeet(absl::string_view a, absl::string_view b) {
  const std::string first = Normal(a), second = Normal(b);
  if (first.empty() || second.empty()) return first == second;
  return absl::StartsWith(first, second) || absl::StartsWith(second, first);
}

bool SameFolder(absl::string_view a, absl::string_view b) { return Normal(a) == Normal(b); }

std::set<uint64_t> OutputFolders::JobsIn(absl::string_view folder) const {
  std::set<uint64_t> all;
  auto found = folders_.find(Normal(folder));
  if (found == folders_.end()) return all;
  for (const auto& [owner, jobs] : found->second) all.insert(jobs.begin(), jobs.end());
  return all;
}

void OutputFolders::Add(absl::string_view folder, const std::string& owner, uint64_t job) {
  folders_[Normal(folder)][owner].insert(job);
}

void OutputFolders::Remove(absl::string_view folder, const std::string& owner, uint64_t job) {
  auto jobs = folders_.find(Normal(folder));
  if (jobs == folders_.end()) return;
  auto of_owner = jobs->second.find(owner);
  if (of_owner == jobs->second.end()) return;
  of_owner->second.erase(job);
  if (of_owner->second.empty()) jobs->second.erase(of_owner);
  if (jobs->second.empty()) folders_.erase(jobs);
}

std::vector<StoredFolder> OutputFolders::Keep(absl::string_view folder, const std::string& owner, uint64_t job,
                                              size_t most) {
  const std::string normal = Normal(folder);
  std::vector<StoredFolder> rows;
  std::map<std::string, uint64_t>& of_owner = kept_[owner];
  auto [kept, is_new] = of_owner.emplace(normal, job);
  kept_count_ += is_new ? 1 : 0;
  if (!is_new && kept->second != job) Remove(folder, owner, kept->second);
  kept->second = job;
  Add(folder, owner, job);
  rows.push_back({normal, owner, job});
  while (kept_count_ > most) {
    auto largest = std::max_element(kept_.begin(), kept_.end(),
                                    [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    auto oldest = std::min_element(largest->second.begin(), largest->second.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string name = oldest->first, whose = largest->first;
    for (StoredFolder& row : Release(name, whose)) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<StoredFolder> OutputFolders::Release(absl::string_view folder, const std::string& owner) {
  const std::string normal = Normal(folder);
  auto of_owner = kept_.find(owner);
  if (of_owner == kept_.end()) return {};
  auto kept = of_owner->second.find(normal);
  if (kept == of_owner->second.end()) return {};
  Remove(normal, owner, kept->second);
  of_owner->second.erase(kept);
  if (of_owner->second.empty()) kept_.erase(of_owner);
  --kept_count_;
  return {{normal, owner, 0}};
}

std::optional<uint64_t> OutputFolders::NotOf(const Jobs& jobs, const std::string& owner) {
  for (const auto& [other, numbers] : jobs) {
    if (other != owner) return *numbers.begin();
  }
  return std::nullopt;
}

absl::Status OutputFolders::Check(absl::string_view folder, const std::string& owner, absl::string_view field) const {
  const std::optional<uint64_t> job = OfAnother(folder, owner);
  if (!job.has_value()) return absl::OkStatus();
  if (Normal(folder).empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("output_dir is missing, and the folder of jobs without one has results of job-", *job,
                     ", which is somebody else's; write output_dir: \"", owner, "/...\""));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(field, " \"", folder, "\" is the folder of job-", *job,
                   ", above it or below it, and that job is somebody else's; choose another,"
                   " such as \"",
                   owner, "/", folder, "\""));
}

absl::Status OutputFolders::CheckReads(absl::string_view path, const std::string& owner) const {
  if (Normal(path).empty()) return absl::OkStatus();
  const bool in_root = !absl::StrContains(absl::StripSuffix(Normal(path), "/"), "/");
  const std::optional<uint64_t> job = OfAnother(in_root ? "" : path, owner);
  if (!job.has_value()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("weights.from_output \"", path, "\" is in the folder of job-", *job,
                   ", which is somebody else's; copy the file below --data-root and write"
                   " weights.init_from"));
}

std::optional<uint64_t> OutputFolders::OfAnother(absl::string_view folder, const std::string& owner) const {
  const std::string normal = Normal(folder);
  // The folder itself and those above it.
  for (size_t slash = normal.empty() ? 0 : normal.find('/'); slash != std::string::npos;
       slash = normal.find('/', slash + 1)) {
    auto jobs = folders_.find(normal.substr(0, normal.empty() ? 0 : slash + 1));
    if (jobs == folders_.end()) continue;
    if (std::optional<uint64_t> job = NotOf(jobs->second, owner)) return job;
  }
  if (normal.empty()) return std::nullopt;
  for (auto below = folders_.upper_bound(normal); below != folders_.end() && absl::StartsWith(below->first, normal);
       ++below) {
    if (std::optional<uint64_t> job = NotOf(below->second, owner)) return job;
  }
  return std::nullopt;
}

}  // namespace adjoin
