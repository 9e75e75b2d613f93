// Whether a file still holds what it held when a job was submitted, though others may have written it anew since.
//
//   ADJOIN_ASSIGN_OR_RETURN(const FileSums sums, SumFile(path, Deadline::After(absl::Seconds(3))));   // at submission
//   ADJOIN_ASSIGN_OR_RETURN(auto check, FileCheck::Open(path, sums));                                // on each rank
//   ADJOIN_RETURN_IF_ERROR(check->Check(0, 4096));                                  // of the bytes that it will use
//
// Chunks are compared, so that a rank reads little more than the cells that it needs. One thread.
#ifndef ADJOIN_WORKER_MODEL_FILE_SUMS_H_
#define ADJOIN_WORKER_MODEL_FILE_SUMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/unique_fd.h"
#include "proto/plan.pb.h"

namespace adjoin {

// Returns the length of a file and the sums of its chunks, at most kMostFileSums (proto/message_limits.h); fewer than
// there are where the deadline passes. Errors: kNotFound, kPermissionDenied, kUnavailable; kDataLoss (it became
// shorter meanwhile).
absl::StatusOr<FileSums> SumFile(const std::string& path, const Deadline& deadline);

class FileCheck {
 public:
  // Compares the length. Errors: as SumFile; kFailedPrecondition, which is a HopelessFailure: it is another file.
  static absl::StatusOr<std::unique_ptr<FileCheck>> Open(const std::string& path, const FileSums& sums);

  // Compares the chunks that hold bytes [begin, end), each once. Errors: as Open.
  absl::Status Check(int64_t begin, int64_t end);

 private:
  FileCheck(std::string path, const FileSums& sums, UniqueFd fd)
      : path_(std::move(path)), sums_(sums), fd_(std::move(fd)), done_(sums.sum_size()) {}

  const std::string path_;
  const FileSums sums_;
  const UniqueFd fd_;
  std::vector<bool> done_;  // by chunk
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_MODEL_FILE_SUMS_H_
