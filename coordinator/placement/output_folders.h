// Whose result folders are whose: a job of one user writes neither over, nor above, nor below the results of another's.
//
//   OutputFolders folders;
//   folders.Add("alice/lenet5", "alice", /*job=*/3);
//   folders.OfAnother("alice/lenet5/", "bob");     // 3: the same folder
//   folders.OfAnother("alice", "bob");             // 3: its folder is below
//   folders.OfAnother("bob", "bob");               // nothing
//
// Folders are output_dirs, relative to the workers' --output-root; two ways to write one are one. "" is the root itself, where
// all are: it is compared with itself only. Links are not looked at. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_PLACEMENT_OUTPUT_FOLDERS_H_
#define ADJOIN_COORDINATOR_PLACEMENT_OUTPUT_FOLDERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adjoin {

class OutputFolders {
 public:
  void Add(absl::string_view folder, const std::string& owner, uint64_t job);
  // What was added so.
  void Remove(absl::string_view folder, const std::string& owner, uint64_t job);

  // Errors: kPermissionDenied that names the job of somebody else whose folder is in the way, and what would be right.
  // `field`: of the spec, which says the folder.
  absl::Status Check(absl::string_view folder, const std::string& owner, absl::string_view field = "output_dir") const;
  // Whether `owner` may read the file `path`: not where it lies in the folder of somebody else's job. "" is no file.
  // Errors: kPermissionDenied that names the job.
  absl::Status CheckReads(absl::string_view path, const std::string& owner) const;
  // A job of anybody but `owner` that has this folder, one above it or one below it.
  std::optional<uint64_t> OfAnother(absl::string_view folder, const std::string& owner) const;

 private:
  using Jobs = std::map<std::string, std::set<uint64_t>>;  // by owner
  static std::optional<uint64_t> NotOf(const Jobs& jobs, const std::string& owner);

  std::map<std::string, Jobs> folders_;  // "a/b/", so that what is below a folder begins with its name
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_OUTPUT_FOLDERS_H_
