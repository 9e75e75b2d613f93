// The owners of result folders: a job of one user writes neither over, nor above, nor below the results of another
// user.
//
//   OutputFolders folders;
//   folders.Add("alice/lenet5", "alice", /*job=*/3);
//   folders.OfAnother("alice/lenet5/", "bob");     // 3: the same folder
//   folders.OfAnother("alice", "bob");             // 3: its folder is below
//   folders.OfAnother("bob", "bob");               // nothing
//
// Folders are output_dirs, relative to the workers' --output-root; two ways to write one folder are one folder. "" is
// the root itself, which is compared with itself only, since all folders are in it. Links are not looked at. Not
// thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_OUTPUT_FOLDERS_H_
#define ADJOIN_COORDINATOR_DECISIONS_OUTPUT_FOLDERS_H_

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
  // Undoes an Add with the same arguments.
  void Remove(absl::string_view folder, const std::string& owner, uint64_t job);

  // Errors: kPermissionDenied, which names the other owner's job whose folder is in the way, and what would be right.
  // `field`: the field of the spec that has the folder.
  absl::Status Check(absl::string_view folder, const std::string& owner, absl::string_view field = "output_dir") const;
  // Checks that `owner` may read the file `path`, which is not in the folder of another owner's job. "" is no file.
  // Errors: kPermissionDenied, which names the job.
  absl::Status CheckReads(absl::string_view path, const std::string& owner) const;
  // Returns a job of another owner that has this folder, one above it or one below it.
  std::optional<uint64_t> OfAnother(absl::string_view folder, const std::string& owner) const;

 private:
  using Jobs = std::map<std::string, std::set<uint64_t>>;  // by owner
  static std::optional<uint64_t> NotOf(const Jobs& jobs, const std::string& owner);

  std::map<std::string, Jobs> folders_;  // by name, "a/b/": a folder below another begins with that one's name
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_OUTPUT_FOLDERS_H_
