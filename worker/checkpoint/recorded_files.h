// Files in memory that record every operation, so that a test can see what a crash of the machine leaves after any of
// them.
//
//   RecordedFiles files;
//   WriteSomething(files);
//   for (size_t n = 0; n <= files.operations(); ++n) {
//     std::unique_ptr<RecordedFiles> left = files.AfterCrash(n, random);      // after the first n operations
//   }
//
// A crash leaves any state that POSIX allows. Each write to a file since its last Sync is kept, lost or kept in part;
// each change of names in a folder since its last SyncFolder is kept or lost, and a renamed file may have both names.
// Synced writes and names are kept. Any thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_RECORDED_FILES_H_
#define ADJOIN_WORKER_CHECKPOINT_RECORDED_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/file_system.h"

namespace adjoin {

class RecordedFiles : public FileSystem {
 public:
  RecordedFiles();

  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& path) override;

  size_t operations() const { return operations_.size(); }
  std::unique_ptr<RecordedFiles> AfterCrash(size_t operations, std::mt19937_64& random) const;

  // Returns the contents of all files by path.
  std::map<std::string, std::string> Contents() const;
  // Changes a file without recording it.
  void SetContent(const std::string& path, const std::string& content);

  // Sets the disk's free space: writes beyond it fail with kResourceExhausted. Negative: no limit.
  void SetSpace(int64_t bytes) { space_ = bytes; }

 private:
  class OpenFile;
  // A file or a folder.
  struct Node {
    bool folder = false;
    std::string content;
    std::map<std::string, int> entries;
  };
  struct Operation {
    enum class Kind { kLink, kUnlink, kRename, kSyncFolder, kTruncate, kWrite, kSync };
    explicit Operation(Kind what) : kind(what) {}

    Kind kind;
    int node = 0;     // the folder for kLink, kUnlink, kRename, kSyncFolder; else the file
    int target = -1;  // the node that the name leads to
    std::string name;
    std::string other;  // kRename: the new name
    int64_t offset = 0;
    std::string data;
    bool folder = false;  // kLink: the target is a folder
  };

  absl::StatusOr<int> Find(const std::string& path) const;
  // Returns the folder of a path; sets `name` to the path's last part.
  absl::StatusOr<int> FindFolder(const std::string& path, std::string* name) const;
  void Apply(const Operation& operation);
  void Record(Operation operation);
  void Collect(int folder, const std::string& path, std::map<std::string, std::string>& contents) const;

  mutable std::mutex mutex_;
  std::map<int, Node> nodes_;  // 0: the root
  int next_ = 1;
  int64_t space_ = -1;
  std::vector<Operation> operations_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_RECORDED_FILES_H_
