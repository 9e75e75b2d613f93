// A file of results that grows while a job runs: what is appended is in the file at once, in whole pieces.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto file, GrowingFile::Create("out/metrics.jsonl"));
//   ADJOIN_RETURN_IF_ERROR(file->Append("{\"step\": 1}\n"));
//
// A process that is killed leaves the pieces appended so far. Replaces an older file, unless another process has it
// open: two jobs with one output folder would otherwise mix up their results. One thread.
#ifndef ADJOIN_WORKER_TRAINING_GROWING_FILE_H_
#define ADJOIN_WORKER_TRAINING_GROWING_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

class GrowingFile {
 public:
  // Errors: kFailedPrecondition where another one, of this process or another, has the file open; kUnavailable with the
  // path and the system's reason. The methods fail with the latter too.
  static absl::StatusOr<std::unique_ptr<GrowingFile>> Create(const std::string& path);
  // True where one has the file open at this moment.
  static bool InUse(const std::string& path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // On a full disk pieces wait in memory, to be written with a later one, until there are too many of them.
  absl::Status Append(const std::string& piece);
  // Where `path` is not this file, because somebody removed it or its folder: makes it again, with all pieces, and goes
  // on there.
  absl::Status RestoreAt(const std::string& path);
  // Makes all pieces durable.
  absl::Status Sync();

  int64_t size() const { return size_; }  // in bytes, of all pieces so far

 private:
  GrowingFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Writes the pieces that wait; with `all` it is an error where one still has to wait.
  absl::Status Flush(bool all);

  std::string path_;
  int fd_;
  int64_t size_ = 0;
  std::string waiting_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_GROWING_FILE_H_
