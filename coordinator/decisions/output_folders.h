// The owners of result folders: a job of one user writes neither over, nor above, nor below the results of another
// user.
//
//   OutputFolders folders;
//   folders.Add("alice/lenet5", "alice", /*job=*/3);
//   folders.OfAnother("alice/lenet5/", "bob");     // 3: the same folder
//   folders.OfAnother("alice", "bob");             // 3: its folder is below
//   folders.OfAnother("bob", "bob");               // nothing
//   folders.Keep("alice/lenet5", "alice", 3);      // job 3 is forgotten: the folder stays alice's
//
// A folder that is kept has a row in the store. There are kMostKept; beyond them, the owner with the most loses the
// oldest.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/store.h"
#include "proto/job.pb.h"

namespace adjoin {

// The folders that a job writes in.
std::vector<std::string> FoldersOf(const JobSpec& spec);

// True where both are one folder, or one is below the other; all are below the root, which meets only itself.
bool FoldersMeet(absl::string_view a, absl::string_view b);

// True where both are one folder.
bool SameFolder(absl::string_view a, absl::string_view b);

class OutputFolders {
 public:
  void Add(absl::string_view folder, const std::string& owner, uint64_t job);
  // Undoes an Add with the same arguments.
  void Remove(absl::string_view folder, const std::string& owner, uint64_t job);

  static constexpr size_t kMostKept = 100000;
  // In place of Remove, for a job that is forgotten: its folder stays its owner's. Returns the rows to write. Call it
  // also with each row of the store.
  std::vector<StoredFolder> Keep(absl::string_view folder, const std::string& owner, uint64_t job,
                                 size_t most = kMostKept);
  // The jobs that have exactly this folder, forgotten ones too, by number.
  std::set<uint64_t> JobsIn(absl::string_view folder) const;
  // Undoes all Keeps of a folder: its files are removed. Returns the rows to write.
  std::vector<StoredFolder> Release(absl::string_view folder, const std::string& owner);

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
  // Folders that are kept, with the last forgotten job of each, by owner.
  std::map<std::string, std::map<std::string, uint64_t>> kept_;
  size_t kept_count_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_OUTPUT_FOLDERS_H_
