#include "worker/model/file_sums.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/content_hash.h"
#include "base/errno_status.h"
#include "base/hopeless_failure.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr int64_t kLeastChunk = int64_t{4} << 20;
constexpr int64_t kPiece = int64_t{1} << 20;

struct OpenedFile {
  UniqueFd fd;
  int64_t bytes = 0;
};

absl::StatusOr<OpenedFile> OpenFile(const std::string& path) {
  OpenedFile file;
  file.fd = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (file.fd.get() < 0 || fstat(file.fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  file.bytes = info.st_size;
  return file;
}

// Returns the sum of bytes [begin, end); "" where the deadline passed.
absl::StatusOr<std::string> SumOf(const std::string& path, int fd, int64_t begin, int64_t end,
                                  const Deadline* deadline) {
  ContentHash hash;
  std::vector<char> piece(static_cast<size_t>(std::min(kPiece, end - begin)));
  while (begin < end) {
    if (deadline != nullptr && deadline->Expired()) return "";
    const int64_t wanted = std::min(kPiece, end - begin);
    const ssize_t got = pread(fd, piece.data(), static_cast<size_t>(wanted), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, ": became shorter while it was read"));
    hash.Add(piece.data(), got);
    begin += got;
  }
  return hash.Hex();
}

absl::Status IsAnother(const std::string& path, const std::string& how) {
  return HopelessFailure(absl::FailedPreconditionError(absl::StrCat(
      path, ": not the file that it was when the job was submitted (", how,
      "): somebody has replaced it since, as another job does that writes to the same output_dir; to begin with what is"
      " there now, submit the job again")));
}

}  // namespace

absl::StatusOr<FileSums> SumFile(const std::string& path, const Deadline& deadline) {
  ADJOIN_ASSIGN_OR_RETURN(const OpenedFile file, OpenFile(path));
  FileSums sums;
  sums.set_bytes(file.bytes);
  const int64_t chunk = std::max(kLeastChunk, (file.bytes + kMostFileSums - 1) / kMostFileSums);
  sums.set_chunk_bytes(chunk);
  for (int64_t begin = 0; begin < file.bytes; begin += chunk) {
    ADJOIN_ASSIGN_OR_RETURN(std::string sum,
                            SumOf(path, file.fd.get(), begin, std::min(begin + chunk, file.bytes), &deadline));
    if (sum.empty()) break;
    sums.add_sum(std::move(sum));
  }
  return sums;
}

absl::StatusOr<std::unique_ptr<FileCheck>> FileCheck::Open(const std::string& path, const FileSums& sums) {
  ADJOIN_ASSIGN_OR_RETURN(OpenedFile file, OpenFile(path));
  if (sums.chunk_bytes() <= 0) return absl::InvalidArgumentError(absl::StrCat(path, ": its sums have no chunks"));
  if (file.bytes != sums.bytes()) {
    return IsAnother(path, absl::StrCat(file.bytes, " bytes, then ", sums.bytes()));
  }
  return std::unique_ptr<FileCheck>(new FileCheck(path, sums, std::move(file.fd)));
}

absl::Status FileCheck::Check(int64_t begin, int64_t end) {
  const int64_t chunk = sums_.chunk_bytes();
  for (int64_t c = begin / chunk; c < sums_.sum_size() && c * chunk < std::min(end, sums_.bytes()); ++c) {
    if (done_[c]) continue;
    const int64_t chunk_end = std::min((c + 1) * chunk, sums_.bytes());
    ADJOIN_ASSIGN_OR_RETURN(const std::string sum, SumOf(path_, fd_.get(), c * chunk, chunk_end, nullptr));
    if (sum != sums_.sum(static_cast<int>(c))) {
      return IsAnother(path_, absl::StrCat("its bytes from ", c * chunk, " on are others"));
    }
    done_[c] = true;
  }
  return absl::OkStatus();
}

}  // namespace adjoin
