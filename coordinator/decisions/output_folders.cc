#include "coordinator/decisions/output_folders.h"

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
