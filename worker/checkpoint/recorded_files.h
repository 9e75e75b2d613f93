// Files in memory that remember every operation, so that a test can ask what a crash of the machine would have left after any
// of them.
//
//   RecordedFiles files;
//   WriteSomething(files);
//   for (size_t n = 0; n <= files.operations(); ++n) {
//     std::unique_ptr<RecordedFiles> left = files.AfterCrash(n, random);      // after the first n of them
//   }
//
// What a crash leaves is any state that POSIX allows: of a file's writes since its last Sync each is there, is not, or is there
// in part; of a folder's changes of names since its last SyncFolder each is there or not, and a renamed file may have both
// names. What was synced is there. Any thread.
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

  // All files, with their folders, by path.
  std::map<std::string, std::string> Contents() const;
  // Not recorded.
  void SetContent(const std::string& path, const std::string& content);

  // Of the disk: writes beyond it fail with kResourceExhausted. Negative: no limit.
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
    int node = 0;       // of kLink, kUnlink, kRename, kSyncFolder the folder, else the file
    int target = -1;    // what the name leads to
    std::string name;
    std::string other;  // kRename: the new name
    int64_t offset = 0;
    std::string data;
    bool folder = false;  // kLink: of what kind the target is
  };

  absl::StatusOr<int> Find(const std::string& path) const;
  // The folder of a path; its last part in `name`.
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
