// The few file operations that checkpoints need, as an interface: a test can record them and lose what was not synced.
//
//   const auto files = std::make_shared<DiskFiles>("/srv/results");
//   ADJOIN_RETURN_IF_ERROR(files->MakeFolder("lenet5/ckpt"));
//   ADJOIN_RETURN_IF_ERROR(WriteDurably(*files, "lenet5/ckpt", "note.json", text));
//
// Paths are relative to a root. Written bytes survive a crash of the machine once Sync has returned; a name that was
// made, changed or removed, once SyncFolder of its folder has. Any thread; a File belongs to one thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_FILE_SYSTEM_H_
#define ADJOIN_WORKER_CHECKPOINT_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// Errors of all methods: kNotFound, kPermissionDenied, kResourceExhausted (the disk is full), kUnavailable with the
// path and the system's reason; kInvalidArgument for a path that leads out of the root.
class FileSystem {
 public:
  class File {
   public:
    virtual ~File() = default;
    virtual absl::Status Write(int64_t offset, const void* data, int64_t bytes) = 0;
    virtual absl::Status Sync() = 0;
  };
  class Source {
   public:
    virtual ~Source() = default;
    virtual int64_t size() const = 0;
    // Errors: kDataLoss where the file ends too early.
    virtual absl::Status Read(int64_t offset, void* data, int64_t bytes) const = 0;
  };

  virtual ~FileSystem() = default;
  // Makes the folder and those above it, where they are missing.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Makes an empty file, also in place of an existing one.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // Renames within one folder; replaces `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Removes a file or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Returns the names in a folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& path) = 0;
};

// Files below a folder of this machine; no link leads out of it (worker/data/path_rules.h).
class DiskFiles : public FileSystem {
 public:
  explicit DiskFiles(std::string root) : root_(std::move(root)) {}

  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& path) override;

 private:
  const std::string root_;
};

// "a/b" of "a" and "b".
std::string PathOf(const std::string& folder, const std::string& name);

// Writes `folder`/`name` under a temporary name, syncs it, gives it its name and syncs the folder: afterwards the file
// is whole and durable; until then the old file is unchanged.
absl::Status WriteDurably(FileSystem& files, const std::string& folder, const std::string& name,
                          const std::string& text);

// Reads a whole file. Errors: kDataLoss for a file of more than `most` bytes, which is not read.
absl::StatusOr<std::string> ReadWhole(FileSystem& files, const std::string& path, int64_t most);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_FILE_SYSTEM_H_
