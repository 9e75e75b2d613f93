// A regular file that is open for reading at any offset.
//
//   ADJOIN_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open("/data/a.npy", "a.npy"));
//   ADJOIN_RETURN_IF_ERROR(file.ReadAt(128, cells, 1024));
//
// Any thread, as long as none moves it.
#ifndef ADJOIN_WORKER_DATA_OPEN_FILE_H_
#define ADJOIN_WORKER_DATA_OPEN_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// Writes all `bytes` to a file that is open for writing. Errors: as ErrnoStatus.
absl::Status WriteAt(const std::string& name, int fd, int64_t offset, const void* data, int64_t bytes);

class OpenFile {
 public:
  // `name`: the file's name in messages; empty: its path.
  // Errors: as ErrnoStatus (base/errno_status.h); kInvalidArgument (not a regular file).
  static absl::StatusOr<OpenFile> Open(const std::string& path, const std::string& name = "");
  // Takes ownership of `fd`.
  OpenFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  OpenFile(OpenFile&& other) : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)) {}
  OpenFile& operator=(OpenFile&& other) {
    std::swap(fd_, other.fd_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~OpenFile();

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  absl::StatusOr<int64_t> Size() const;
  // Reads all `bytes`. Errors: kDataLoss where the file is shorter; kUnavailable.
  absl::Status ReadAt(int64_t offset, void* out, int64_t bytes) const;

 private:
  int fd_;
  std::string name_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_OPEN_FILE_H_
